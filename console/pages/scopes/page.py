"""GET /scopes/, GET and POST /scopes/new/, GET and POST /scopes/<id>/: acts on a tenant, an agent or a thread."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.errors import Invalid, NotFound, Refused
from accounts.states import Actor, Permission
from console.lists.listing import said_count
from console.lists.scopes import SCOPES
from console.pages.few import Few
from console.pages.lists.page import list_response
from console.pages.notice import asked_before, refusal_notice
from console.pages.room import page, respond
from console.pages.scopes.forecast import Met, met_by
from console.pages.words import needs_role
from console.records.scopes import awaited, scope_forecast, scope_progress
from runs.models import ControlRequest, ScopeControl
from runs.selectors import access_scope_control, scope_control_now, scope_controls_visible, scope_name, scope_of
from runs.states import ControlKind, Scope, ScopeKind, ScopeStatus, can_lift
from runtime.registry import agents
from runtime.services import ScopeState, named_scope, scope_abort_on, scope_end, scope_pause, scope_stop

SHOWN = 100
PANELS = {"scope-live": "pages/scopes/live.html"}


@page
def scope_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """What stands, and, filtered, every stop and pause there was."""
    standing = scope_controls_visible(actor).filter(status=ScopeStatus.STANDING).order_by("-accepted_at", "-id")
    more = {
        "standing": Few(standing[: SHOWN + 1], SHOWN),
        "may_stop": actor.may(Permission.STOP) or actor.may(Permission.PAUSE),
    }
    return list_response(request, actor, SCOPES, template="pages/scopes/list.html", more=more)


@dataclass(frozen=True)
class Choice:
    """One scope that can be chosen, and whether it is."""

    name: str
    url: str
    current: bool


@page
def scope_new(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """What an act on the scope that the URL names would mean, and the act. `scope` is tenant where the URL names
    none; an act always names it.
    """
    asked = request.POST if request.method == "POST" else request.GET
    kind, of = asked.get("scope", "" if request.method == "POST" else "TENANT"), asked.get("of", "")
    if kind not in set(ScopeKind):
        raise NotFound
    scope = named_scope(actor=actor, kind=ScopeKind(kind), of=of)
    reason, act = request.POST.get("reason", ""), request.POST.get("act", "")
    refused: Refused | None = None
    if request.method == "POST":
        outcome = _done(actor, scope, act, reason)
        if isinstance(outcome, ScopeState):
            _tell_first(request, outcome, aborts=act == "abort")
            return redirect("scope", id=outcome.control_id)
        if not actor.may(Permission.READ):
            raise PermissionDenied
        refused = outcome
    forecast, met = scope_forecast(actor, scope), met_by(scope)
    context = {
        "forecast": forecast,
        "results": said_count(forecast["results"]),
        "unsent": said_count(forecast["unsent_calls"]),
        "wire": met.wire,
        "waits": met.waits,
        "scope": scope,
        "of": of,
        "choices": _choices(met, scope, of),
        "standing": met.standing,
        "reason": reason,
        "act": act,
        "off": "" if actor.may(Permission.STOP) else needs_role(Permission.STOP, "Stopping"),
        "refused": refusal_notice(refused, form="#scope-form") if refused else None,
    }
    return respond(request, actor, "pages/scopes/new.html", context, status=refused.status if refused else 200)


def _done(actor: Actor, scope: Scope, act: str, reason: str) -> ScopeState | Refused:
    if act == "pause":
        return scope_pause(actor=actor, scope=scope, reason=reason)
    if act not in ("stop", "abort") and actor.may(Permission.STOP):
        return Invalid({"field": "act", "reason": "choose one; none is chosen for you."})
    return scope_stop(actor=actor, scope=scope, reason=reason, aborts=act == "abort")


def _tell_first(request: HttpRequest, outcome: ScopeState, *, aborts: bool) -> None:
    """Tell who asks a moment after somebody else: one act stands, and it is not theirs."""
    if outcome.new:
        return
    first = scope_control_now(outcome.control_id)
    said = asked_before(first.requested_by, first.accepted_at)
    if aborts and first.aborted_at is not None:
        said = asked_before(first.aborted_by, first.aborted_at)
    messages.warning(request, said, extra_tags="is-caution")


def _choices(met: Met, scope: Scope, of: str) -> list[Choice]:
    """The tenant, its agents, and the thread if one is named: a thread is reached from its runs."""
    here = reverse("scope-new")
    everything = Choice("Everything of this tenant", here, scope.kind == ScopeKind.TENANT)
    keys = {*agents(), *(agent.key for agent in met.agents)}
    named = [
        Choice(
            f"Agent {key}",
            f"{here}?{urlencode({'scope': 'AGENT', 'of': key})}",
            scope.agent_id is not None and key == of,
        )
        for key in sorted(keys)
    ]
    thread = f"{here}?{urlencode({'scope': 'THREAD', 'of': of})}"
    reached = [Choice(f"Thread {one.key}", thread, True) for one in met.threads]
    return [everything, *named, *reached]


@page
def scope_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """How far an act on a scope has got; POST lifts it, or with `how=abort` has a stop not wait any longer."""
    control = access_scope_control(actor=actor, id=id)
    reason, aborts = request.POST.get("reason", ""), request.POST.get("how") == "abort"
    refused: Refused | None = None
    if request.method == "POST":
        outcome = (scope_abort_on if aborts else scope_end)(actor=actor, control_id=id, reason=reason)
        if isinstance(outcome, ScopeState):
            _tell_first(request, outcome, aborts=aborts)
            return redirect("scope", id=id)
        refused = outcome
        control = access_scope_control(actor=actor, id=id)
    context = {
        **_context(actor, control),
        "reason": reason,
        "aborts": aborts,
        "refused": refusal_notice(refused, form="#abort-it" if aborts else "#lift-it") if refused else None,
    }
    return respond(request, actor, "pages/scopes/page.html", context, PANELS, refused.status if refused else 200)


def _context(actor: Actor, control: ScopeControl) -> dict[str, Any]:
    stops = control.kind == ControlKind.STOP
    needed = Permission.STOP if stops else Permission.RESUME
    progress = scope_progress(control)
    under_way = progress["accepted"] + progress["adopted"]
    return {
        "control": control,
        "name": scope_name(scope_of(control)),
        "stops": stops,
        "standing": can_lift(control.status),
        "progress": progress,
        "reached": sum(progress[name] for name in ("accepted", "adopted", "settled", "moot")),
        "under_way": under_way,
        "awaited": awaited(control) if under_way else [],
        "may_lift": actor.may(needed),
        "may_abort": actor.may(Permission.STOP) and stops and can_lift(control.status) and not control.aborted_at,
        "unsettled": ControlRequest.objects.filter(scope_control=control, settled_at=None).count() if stops else 0,
    }
