"""GET and POST /delegations/ and /delegations/<id>/end/: who decides with whose authority, given for a time and taken back."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import F
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from accounts.errors import Invalid, Refused
from accounts.selectors import members_who_may
from accounts.states import Actor, Permission
from approvals.models import Delegation
from approvals.selectors import access_delegation, delegations_visible
from approvals.services import DelegationWanted, delegation_end, delegation_give
from console.pages.few import Few
from console.pages.room import for_readers, page, respond
from console.pages.words import needs_role
from runs.selectors import database_now

ROWS = 200


@page
@for_readers
def delegation_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Those of the tenant, the newest first; and a form to give one."""
    refused: Refused | None = None
    if request.method == "POST":
        outcome = _give(request, actor)
        if not isinstance(outcome, Refused):
            messages.success(
                request, "It is given. They decide with your authority in that time.", extra_tags="is-clear"
            )
            return redirect("delegations")
        refused = outcome
    return respond(
        request, actor, "pages/people/delegations.html", _context(request, actor, refused), status=_status(refused)
    )


@page
def delegation_end_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """Take a delegation back, or lay it down."""
    given = access_delegation(actor=actor, id=id)
    refused: Refused | None = None
    if request.method == "POST":
        outcome = delegation_end(actor=actor, delegation_id=id)
        if not isinstance(outcome, Refused):
            messages.success(request, "It has ended. Votes that were given with it stay.", extra_tags="is-clear")
            return redirect("delegations")
        refused = outcome
    context = {"given": given, "refused": refused, "off": _end_off(actor, given, database_now())}
    return respond(request, actor, "pages/people/delegation_end.html", context, status=_status(refused))


def _status(refused: Refused | None) -> int:
    return refused.status if refused else 200


def _give(request: HttpRequest, actor: Actor) -> object | Refused:
    sent = request.POST
    moments: dict[str, datetime | None] = {}
    for name in ("starts_at", "ends_at"):
        try:
            moments[name] = _moment(sent.get(name, ""))
        except ValueError:
            return Invalid({"field": name, "reason": "write it as 2026-12-24T18:00, in UTC."})
    starts, ends = moments["starts_at"], moments["ends_at"]
    if ends is None:
        return Invalid({"field": "ends_at", "reason": "say when it ends."})
    reason = sent.get("reason", "").replace("\r\n", "\n")
    return delegation_give(actor=actor, wanted=DelegationWanted(sent.get("taker", ""), ends, reason, starts))


def _moment(text: str) -> datetime | None:
    """A time as a form sends it, in UTC. Raises ValueError."""
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _context(request: HttpRequest, actor: Actor, refused: Refused | None) -> dict[str, Any]:
    now = database_now()
    given = delegations_visible(actor).order_by(F("ended_at").desc(nulls_first=True), "-given_at", "-id")
    rows = Few(given[: ROWS + 1], ROWS)
    may = actor.may(Permission.DECIDE)
    readers = members_who_may(tenant_id=actor.tenant_id, permission=Permission.READ)
    return {
        "given": rows,
        "rows": [(row, _state(row, now), not _end_off(actor, row, now)) for row in rows],
        "people": [name for name in readers if name != actor.name],
        "off": "" if may else f"{needs_role(Permission.DECIDE)} There is nothing to give.",
        "refused": refused,
        "typed": {name: request.POST.get(name, "") for name in ("taker", "starts_at", "ends_at", "reason")},
    }


def _state(given: Delegation, now: datetime) -> str:
    if given.ended_at is not None:
        return "ended"
    if given.ends_at <= now:
        return "over"
    return "in force" if given.starts_at <= now else "to come"


def _end_off(actor: Actor, given: Delegation, now: datetime) -> str:
    """Why the actor can't end a delegation, or nothing."""
    if _state(given, now) in ("ended", "over"):
        return "It is over already."
    mine = actor.label in (given.giver, given.taker)
    return "" if mine or actor.may(Permission.RETAIN) else "Only the two of them, and governance, can end it."
