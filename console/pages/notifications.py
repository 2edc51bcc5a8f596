"""GET and POST /settings/notifications/: where one hears of things outside the pages, what was told, and one endpoint."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from accounts.errors import EndpointMoved, Invalid, Refused
from accounts.models import Endpoint, Notice
from accounts.selectors import access_endpoint, endpoints_visible, notices_visible
from accounts.states import HEARD, Actor, EndpointKind, NoticeKind, NoticeStatus, Permission
from console.pages.numbers import whole
from console.pages.room import page, respond
from console.pages.words import needs_role
from runtime.sentences import sentence
from runtime.services import (
    EndpointChange,
    EndpointRequest,
    endpoint_add,
    endpoint_drop,
    endpoint_edit,
    endpoint_go_on,
    endpoint_hold,
    endpoint_test,
    notices_retain,
)

TOLD_ROWS = 50
PANELS = {"told": "pages/settings/told.html"}

# What a kind is called where a person picks it.
HEARS = {
    NoticeKind.OPENED: "a call waits for a decision",
    NoticeKind.REMINDER: "it still waits",
    NoticeKind.ESCALATED: "nobody decided in time",
    NoticeKind.DECIDED: "somebody else decided",
    NoticeKind.ASSIGNED: "a call is given to you",
    NoticeKind.RELEASED: "nobody looks at a call any more",
    NoticeKind.DELEGATED: "somebody has you decide for them",
    NoticeKind.UNKNOWN_CALL: "nobody knows whether a call happened",
    NoticeKind.HELD: "a run is held",
    NoticeKind.STUCK: "something does not move by itself",
}
KINDS = {EndpointKind.WEBHOOK: "a webhook", EndpointKind.MAIL: "mail", EndpointKind.CHAT: "a chat service"}


@dataclass(frozen=True)
class Told:
    """One delivery as a list shows it."""

    notice: Notice
    said: str


@page
def notifications(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Show the endpoints of the person and of the tenant; POST adds one, or lets go what was told long ago (`how=purge`)."""
    refused: Refused | None = None
    asked = request.POST
    if request.method == "POST":
        purges = asked.get("how") == "purge"
        outcome = (
            notices_retain(actor=actor, reason=asked.get("reason", ""))
            if purges
            else endpoint_add(actor=actor, wanted=_wanted(request))
        )
        if not isinstance(outcome, Refused):
            said = "What was told long ago is gone." if purges else "It is stored. The address is not shown again."
            messages.success(request, said, extra_tags="is-clear")
            return redirect("notifications")
        refused = outcome
    told = notices_visible(actor)
    context = {
        "endpoints": [(one, hears_said(one.hears)) for one in endpoints_visible(actor).order_by("-created_at", "-id")],
        "told": _told(told.order_by("-created_at", "-id")[:TOLD_ROWS]),
        "waiting": False,
        "kinds": [(kind, words, asked.get("kind", EndpointKind.WEBHOOK) == kind) for kind, words in KINDS.items()],
        "hears": _hears(asked.getlist("hears") if asked else HEARD),
        "name": asked.get("name", ""),
        "whole_tenant": bool(asked.get("whole_tenant")),
        "digest": bool(asked.get("digest")),
        "may_notify": actor.may(Permission.NOTIFY),
        "may_read": actor.may(Permission.READ),
        "may_purge": actor.may(Permission.RETAIN),
        "reason": asked.get("reason", ""),
        "days": settings.RETAIN_NOTICES_DAYS,
        "refused": refused,
    }
    status = refused.status if refused else 200
    return respond(request, actor, "pages/settings/notifications.html", context, status=status)


def _told(rows: Any) -> list[Told]:
    return [Told(one, sentence(one.kind, one.facts)) for one in rows]


def _hears(chosen: Any) -> list[tuple[NoticeKind, str, bool]]:
    return [(kind, words, kind in chosen) for kind, words in HEARS.items()]


def hears_said(kinds: Iterable[str]) -> str:
    """What an endpoint hears of, in the words that a person picked it by."""
    heard = set(kinds)
    return "everything" if heard >= set(HEARS) else ", ".join(words for kind, words in HEARS.items() if kind in heard)


def _wanted(request: HttpRequest) -> EndpointRequest:
    asked = request.POST
    return EndpointRequest(
        kind=asked.get("kind", ""),
        name=asked.get("name", ""),
        address=asked.get("address", ""),
        hears=frozenset(asked.getlist("hears")),
        whole_tenant=bool(asked.get("whole_tenant")),
        digest=bool(asked.get("digest")),
        signed_with=asked.get("signed_with", "").strip(),
    )


# ── one endpoint ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Act:
    """What a button of the page does, and what is said once it is done."""

    do: Callable[[Actor, UUID, QueryDict], object]
    done: str


def _change(actor: Actor, id: UUID, asked: QueryDict) -> object:
    """Empty fields for what is secret leave it as it is; `unsigned` has nothing signed any more."""
    address, secret = asked.get("address", "").strip(), asked.get("signed_with", "").strip()
    if not asked.getlist("hears"):
        return Invalid({"field": "hears", "reason": "pick at least one thing to hear of, or pause it."})
    wanted = EndpointChange(
        name=asked.get("name", ""),
        address=address or None,
        signed_with="" if asked.get("unsigned") else secret or None,
        hears=frozenset(asked.getlist("hears")),
        digest=bool(asked.get("digest")),
        seen=whole(asked.get("version", "")),
    )
    return endpoint_edit(actor=actor, endpoint_id=id, wanted=wanted)


ACTS: Mapping[str, Act] = {
    "change": Act(_change, "It is changed. What is told from now on goes by it."),
    "pause": Act(
        lambda actor, one, _: endpoint_hold(actor=actor, endpoint_id=one),
        "It is paused: it is told nothing, and what happens meanwhile is not told later.",
    ),
    "resume": Act(lambda actor, one, _: endpoint_go_on(actor=actor, endpoint_id=one), "It is told again from now on."),
    "test": Act(
        lambda actor, one, _: endpoint_test(actor=actor, endpoint_id=one),
        "A test is on its way. What came of it stands below, first of all.",
    ),
}


@page
@require_http_methods(["GET", "HEAD", "POST"])
def notification(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """Show one endpoint and what it was told; POST changes, pauses, resumes or tests it (`how`)."""
    endpoint, refused = access_endpoint(actor=actor, id=id), None
    if request.method == "POST":
        act = ACTS.get(request.POST.get("how", ""))
        outcome = (
            act.do(actor, id, request.POST)
            if act
            else Invalid({"field": "how", "reason": f"one of {', '.join(ACTS)}."})
        )
        if act and not isinstance(outcome, Refused):
            messages.success(request, act.done, extra_tags="is-clear")
            return redirect("notification", id=id)
        refused, endpoint = outcome, access_endpoint(actor=actor, id=id)
    context = _context(actor, endpoint, request.POST if refused else QueryDict(), refused)
    status = refused.status if isinstance(refused, Refused) else 200
    return respond(request, actor, "pages/settings/notification.html", context, PANELS, status=status)


def _context(actor: Actor, endpoint: Endpoint, typed: QueryDict, refused: object) -> dict[str, Any]:
    told = _told(notices_visible(actor).filter(endpoint=endpoint).order_by("-created_at", "-id")[:TOLD_ROWS])
    changed = typed.get("how") == "change"
    return {
        "endpoint": endpoint,
        "told": told,
        # The page looks again by itself for as long as a test is on its way.
        "waiting": any(
            one.notice.kind == NoticeKind.TEST and one.notice.status == NoticeStatus.PENDING for one in told
        ),
        "kind_words": KINDS[EndpointKind(endpoint.kind)],
        "hears": _hears(typed.getlist("hears") if changed else endpoint.hears),
        "name": typed.get("name", endpoint.name) if changed else endpoint.name,
        "digest": bool(typed.get("digest")) if changed else endpoint.digest,
        "is_mail": endpoint.kind == EndpointKind.MAIL,
        "is_webhook": endpoint.kind == EndpointKind.WEBHOOK,
        "moved": isinstance(refused, EndpointMoved),
        "hears_now": hears_said(endpoint.hears),
        "off": _off(actor, endpoint),
        "refused": refused,
    }


def _off(actor: Actor, endpoint: Endpoint) -> str:
    """Why nothing can be done about it, or an empty text."""
    if endpoint.removed_at is not None:
        return "It was removed."
    needed = Permission.NOTIFY if endpoint.membership_id is None else Permission.READ
    return "" if actor.may(needed) else needs_role(needed)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def notification_remove(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET asks whether to remove an endpoint; POST does."""
    endpoint = access_endpoint(actor=actor, id=id)
    refused: Refused | None = None
    if request.method == "POST":
        outcome = endpoint_drop(actor=actor, endpoint_id=id)
        if not isinstance(outcome, Refused):
            messages.success(request, "It is told nothing any more.", extra_tags="is-clear")
            return redirect("notifications")
        refused = outcome
    context = {"endpoint": endpoint, "refused": refused, "off": _off(actor, endpoint)}
    status = refused.status if refused else 200
    return respond(request, actor, "pages/settings/notification_remove.html", context, status=status)
