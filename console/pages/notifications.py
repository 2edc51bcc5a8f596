"""GET and POST /settings/notifications/: where one hears of things outside the pages, and what was told."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from accounts.errors import Refused
from accounts.selectors import access_endpoint, endpoints_visible, notices_visible
from accounts.states import Actor, EndpointKind, NoticeKind, Permission
from console.pages.room import page, respond
from runtime.services import EndpointRequest, endpoint_add, endpoint_drop

TOLD_ROWS = 50

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
    NoticeKind.STUCK: "a run can’t go on by itself",
}
KINDS = {EndpointKind.WEBHOOK: "a webhook", EndpointKind.MAIL: "mail", EndpointKind.CHAT: "a chat service"}


@page
def notifications(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Show the endpoints of the person and of the tenant; POST adds one."""
    refused: Refused | None = None
    if request.method == "POST":
        outcome = endpoint_add(actor=actor, wanted=_wanted(request))
        if not isinstance(outcome, Refused):
            messages.success(request, "It is stored. The address is not shown again.", extra_tags="is-clear")
            return redirect("notifications")
        refused = outcome
    asked = request.POST
    context = {
        "endpoints": endpoints_visible(actor).order_by("-created_at", "-id"),
        "told": notices_visible(actor).order_by("-created_at", "-id")[:TOLD_ROWS],
        "kinds": [(kind, words, asked.get("kind", EndpointKind.WEBHOOK) == kind) for kind, words in KINDS.items()],
        "hears": [(kind, words, not asked or kind in asked.getlist("hears")) for kind, words in HEARS.items()],
        "name": asked.get("name", ""),
        "whole_tenant": bool(asked.get("whole_tenant")),
        "digest": bool(asked.get("digest")),
        "may_notify": actor.may(Permission.NOTIFY),
        "may_read": actor.may(Permission.READ),
        "refused": refused,
    }
    status = refused.status if refused else 200
    return respond(request, actor, "pages/settings/notifications.html", context, status=status)


def _wanted(request: HttpRequest) -> EndpointRequest:
    asked = request.POST
    return EndpointRequest(
        kind=asked.get("kind", ""),
        name=asked.get("name", ""),
        address=asked.get("address", ""),
        hears=frozenset(asked.getlist("hears")),
        whole_tenant=bool(asked.get("whole_tenant")),
        digest=bool(asked.get("digest")),
    )


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
    may = actor.may(Permission.NOTIFY if endpoint.membership_id is None else Permission.READ)
    context = {"endpoint": endpoint, "refused": refused, "may": may}
    status = refused.status if refused else 200
    return respond(request, actor, "pages/settings/notification.html", context, status=status)
