"""GET and POST /waits/<id>/withdraw/, /look/ and /assign/: take a vote back; say who looks at a wait."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from accounts.errors import Invalid, Refused
from accounts.selectors import members_who_may
from accounts.states import Actor, Permission
from approvals.models import Wait
from approvals.selectors import access_wait
from approvals.services import vote_withdraw, wait_assign, wait_claim, wait_release
from console.pages.decision.state import WaitState, wait_url
from console.pages.inbox.filter import came_from
from console.pages.room import page, respond
from console.pages.words import needs_role


@dataclass(frozen=True)
class WaitAct:
    """What the page of a small act on a wait shows. `off` says why it can't be done now; empty when it can."""

    title: str
    template: str
    button: str
    done: str
    off: str
    sent: Mapping[str, str] = field(default_factory=dict)
    asks_reason: bool = True
    people: tuple[str, ...] = ()


@page
def withdraw_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """Take one's own vote back, while nothing is decided."""
    state = WaitState(access_wait(actor=actor, id=id), actor)
    act = WaitAct(
        title="Take your vote back",
        template="pages/people/withdraw.html",
        button="Take it back",
        done="Your vote does not count any more. It stays readable.",
        off="" if state.open and state.mine else _closed(state) or "You have no vote here that stands.",
    )
    return _act_page(request, actor, state, act, lambda reason: vote_withdraw(actor=actor, wait_id=id, reason=reason))


@page
def look_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """Say that one looks at a wait, or does not any more. `act` is claim or release."""
    state = WaitState(access_wait(actor=actor, id=id), actor)
    act = WaitAct(
        title="You look at this wait" if state.looks_myself else "Look at this wait",
        template="pages/people/look.html",
        button="I do not look at it any more" if state.looks_myself else "I look at it",
        done="The others see that you do not look at it any more."
        if state.looks_myself
        else "The others see that you look at it.",
        off=_closed(state) or _not_allowed(actor) or _looked_at(state),
        sent={"act": "release" if state.looks_myself else "claim"},
        asks_reason=False,
    )
    wanted = {"claim": wait_claim, "release": wait_release}.get(request.POST.get("act", ""))

    def do(_: str) -> object:
        if wanted is None:
            return Invalid({"field": "act", "reason": "it is either claim or release."})
        return wanted(actor=actor, wait_id=id)

    return _act_page(request, actor, state, act, do)


@page
def assign_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """Give a wait to a person who may decide."""
    state = WaitState(access_wait(actor=actor, id=id), actor)
    act = WaitAct(
        title="Give this wait to somebody",
        template="pages/people/assign.html",
        button="Give it",
        done="It is given. The others see who looks at it.",
        off=_closed(state) or _not_allowed(actor),
        people=tuple(members_who_may(tenant_id=actor.tenant_id, permission=Permission.DECIDE)),
    )
    person = request.POST.get("person", "")
    return _act_page(
        request, actor, state, act, lambda reason: wait_assign(actor=actor, wait_id=id, person=person, reason=reason)
    )


def _act_page(
    request: HttpRequest, actor: Actor, state: WaitState, act: WaitAct, do: Callable[[str], object]
) -> HttpResponseBase:
    """Show the act, or do it and lead back to the wait. A refusal shows the page again with what was typed."""
    refused: Refused | None = None
    if request.method == "POST":
        outcome = do(request.POST.get("reason", "").replace("\r\n", "\n"))
        if not isinstance(outcome, Refused):
            messages.success(request, act.done, extra_tags="is-clear")
            return redirect(wait_url(state.wait) + came_from(request).carried)
        refused = outcome
    context = _context(request, state, act, refused)
    return respond(request, actor, "pages/people/act.html", context, status=refused.status if refused else 200)


def _context(request: HttpRequest, state: WaitState, act: WaitAct, refused: Refused | None) -> dict[str, Any]:
    wait: Wait = state.wait
    typed = {"reason": request.POST.get("reason", ""), "person": request.POST.get("person", "")}
    return {
        "wait": wait,
        "run": wait.run,
        "call": wait.tool_call,
        "state": state,
        "act": act,
        "refused": refused,
        **typed,
    }


def _closed(state: WaitState) -> str:
    return "" if state.open else "This wait is closed."


def _not_allowed(actor: Actor) -> str:
    return "" if actor.may(Permission.DECIDE) else needs_role(Permission.DECIDE)


def _looked_at(state: WaitState) -> str:
    if state.looking is None or state.looks_myself:
        return ""
    return f"{state.looking.person.partition(':')[2]} looks at it. Give it to yourself, with a reason, if they do not."
