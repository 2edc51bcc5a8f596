"""Small acts on a run, each a page with its consequences above the button: try again, revise, withdraw, release."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.errors import Invalid, Refused
from accounts.states import Actor, Permission
from approvals.models import Wait
from approvals.states import LIVE_WAIT
from checkpoints.selectors import access_commitment, access_obligation, current_intent, obligations_of
from checkpoints.states import can_release, can_withdraw
from console.pages.amounts import budget_lines, capped_units
from console.pages.call.flag import flag_facts
from console.pages.numbers import amount_of, whole
from console.pages.room import page, respond
from console.pages.words import CLOSING, needs_role
from receipts.selectors import access_call, access_contradiction, outcome_counts
from receipts.states import CallStatus, Closing, Verdict
from runs.models import Budget, Run
from runs.selectors import access_run, control_of, open_pause
from runs.states import OPEN_CONTROL, can_pause, can_raise_cap, can_retry_resume, can_revise_goal, can_settle
from runtime.registry import agents
from runtime.services import (
    EvidenceGiven,
    PauseShown,
    PauseState,
    Started,
    Terms,
    budget_raise,
    call_contradict,
    commitment_withdraw,
    contradiction_settle,
    goal_revise,
    lines_of,
    obligation_release,
    paused_with_scope,
    run_bind,
    run_end_settled,
    run_pause,
    run_resume,
)


@dataclass(frozen=True)
class Act:
    """What an act's page shows. `off` says why the act can't be done now; empty when it can. `done` is what is said once it is done;
    `found` says of an outcome that it was so already, in words, or nothing.
    """

    title: str
    template: str
    button: str
    done: str
    off: str
    facts: Mapping[str, Any]
    found: Callable[[Any], str] = lambda _: ""


def act_page(
    request: HttpRequest, actor: Actor, run: Run, act: Act, do: Callable[[str], object | Refused]
) -> HttpResponseBase:
    """Show the act, or do it with the reason that was written, and lead to the run, or to the one that it has started. A
    refusal shows the page again with the text kept.
    """
    refused: Refused | None = None
    if request.method == "POST":
        outcome = do(request.POST.get("reason", ""))
        if not isinstance(outcome, Refused):
            found = act.found(outcome)
            messages.success(request, found or act.done, extra_tags="is-caution" if found else "is-clear")
            return redirect(reverse("run", args=[outcome.run_id if isinstance(outcome, Started) else run.id]))
        refused = outcome
    context = {"run": run, "act": act, "refused": refused, "reason": request.POST.get("reason", ""), **act.facts}
    return respond(request, actor, "pages/acts/page.html", context, status=refused.status if refused else 200)


def off_reason(may: bool, permission: Permission, can: bool, why: str) -> str:
    """Why an act is not offered, or nothing."""
    if not may:
        return needs_role(permission)
    return "" if can else why


@page
def run_pause_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/pause/: start nothing new until somebody resumes the run."""
    run = access_run(actor=actor, id=id)
    control_open = run.controls.filter(status__in=OPEN_CONTROL).exists()
    why = f"The run is {run.status}" + ("; a pause or a stop of it is open already." if control_open else ".")
    pause, stands = open_pause(run), paused_with_scope(run)
    if pause is not None and pause.scope_control_id is not None and stands is not None:
        why = "{name} was paused by {by} at {at}, and this run with it. It goes on when that is lifted.".format(
            **stands.facts
        )
    act = Act(
        title="Pause this run",
        template="pages/acts/pause.html",
        button="Pause the run",
        done="The pause is accepted. Nothing new is sent until somebody resumes the run.",
        off=off_reason(actor.may(Permission.PAUSE), Permission.PAUSE, can_pause(run.status, control_open), why),
        facts={"paused": open_pause(run) is not None},
        found=_paused_already,
    )
    return act_page(request, actor, run, act, lambda reason: run_pause(actor=actor, run_id=id, reason=reason))


def _paused_already(outcome: PauseState) -> str:
    """What is said to who asks for a pause a moment after somebody else: there is one pause of a run, and it is not theirs."""
    if outcome.new:
        return ""
    first = control_of(outcome.request_id)
    by = first.requested_by.partition(":")[2]
    return (
        f"It was paused already: {by} paused it at {first.accepted_at:%H:%M:%S} UTC. Your reason was not stored, and whoever "
        "resumes the run takes back that one pause."
    )


@page
def run_retry(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/retry/: queue a held run again, or take back a pause."""
    run = access_run(actor=actor, id=id)
    pause, stands = open_pause(run), paused_with_scope(run)
    can = stands is None and (pause is not None or can_retry_resume(run.status, run.hold_reason))
    why = f"The run is {run.status}; only a paused run, or one that is held for a cause that may be gone, can be."
    why = stands.sentence.removeprefix("Nothing was changed. ") if stands else why
    act = Act(
        title="Resume this run" if pause else "Try this run again",
        template="pages/acts/retry.html",
        button="Resume" if pause else "Try again",
        done="The pause is taken back."
        if pause
        else "The run is queued again. A worker takes it; every guard is asked anew.",
        off=off_reason(actor.may(Permission.RESUME), Permission.RESUME, can, why),
        facts={"paused": pause is not None, "asks_to_go_on": True, "pause": pause.id if pause else ""},
    )
    return act_page(
        request,
        actor,
        run,
        act,
        lambda reason: run_resume(actor=actor, run_id=id, reason=reason, shown=_pause_shown(request)),
    )


def _pause_shown(request: HttpRequest) -> PauseShown:
    """The pause that the form was drawn with; none where it names none."""
    try:
        return PauseShown(UUID(request.POST.get("pause", "")))
    except ValueError:
        return PauseShown()


@page
def run_settle(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/settle/: end a run that nobody holds by what is known."""
    run = access_run(actor=actor, id=id)
    why = f"The run is {run.status}. It can be settled only while no worker holds it and before it has ended."
    act = Act(
        title="Settle this run",
        template="pages/acts/settle.html",
        button="Settle the run",
        done="The run is settled. What is known stands; what is unknown still wants a verdict.",
        off=off_reason(actor.may(Permission.SETTLE), Permission.SETTLE, can_settle(run.status), why),
        facts={
            "unknown": outcome_counts(run_id=run.id)["unknown_calls"],
            "owed": [promise for promise in obligations_of(run.id) if can_release(promise.status)],
        },
    )
    return act_page(request, actor, run, act, lambda reason: run_end_settled(actor=actor, run_id=id, reason=reason))


@page
def run_goal(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/goal/: revise the goal of a run that no worker holds."""
    run = access_run(actor=actor, id=id)
    goal = request.POST.get("goal", "").replace("\r\n", "\n")
    intent = current_intent(run.id)
    can = can_revise_goal(run.status)
    why = f"The run is {run.status}. A goal can be revised only while no worker holds the run and before it has ended."
    act = Act(
        title="Revise the goal",
        template="pages/acts/goal.html",
        button="Revise the goal",
        done="The goal is revised. Open waits were superseded; they are asked again at the new revision.",
        off=off_reason(actor.may(Permission.REVISE), Permission.REVISE, can, why),
        facts={"intent": intent, "goal": goal or intent.goal, "waits": waits_to_supersede(run)},
    )
    return act_page(
        request,
        actor,
        run,
        act,
        lambda reason: goal_revise(
            actor=actor, run_id=id, goal=goal, reason=reason, version=whole(request.POST.get("version", ""))
        ),
    )


@page
def run_bind_more(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/bind/: add constraints and assumptions to a run that no worker holds."""
    run = access_run(actor=actor, id=id)
    why = f"The run is {run.status}. It can be bound to more only while no worker holds it and before it has ended."
    typed = {name: request.POST.get(name, "") for name in ("constraints", "assumptions")}
    denied = request.POST.getlist("deny")
    terms = Terms(tuple(lines_of(typed["constraints"])), tuple(lines_of(typed["assumptions"])), tuple(denied))
    agent = agents().get(run.agent_version.agent.key)
    act = Act(
        title="Bind this run to more",
        template="pages/acts/bind.html",
        button="Bind it",
        done="The run is bound to it from the next revision on. Open waits were superseded; they are asked again.",
        off=off_reason(actor.may(Permission.REVISE), Permission.REVISE, can_revise_goal(run.status), why),
        facts={
            "binds": True,
            "tools": agent.spec.tools if agent else (),
            "denied": denied,
            "waits": waits_to_supersede(run),
            **typed,
        },
    )
    return act_page(
        request, actor, run, act, lambda reason: run_bind(actor=actor, run_id=id, terms=terms, reason=reason)
    )


@page
def run_budget(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/budget/: raise the cap of one unit."""
    run = access_run(actor=actor, id=id)
    unit, cap = request.POST.get("unit", ""), request.POST.get("cap", "").strip()
    budgets = list(Budget.objects.filter(run=run).order_by("unit"))
    capped = [budget for budget in budgets if budget.cap is not None]
    can = can_raise_cap(run.status) and bool(capped)
    why = "This run has no cap." if not capped else f"The run is {run.status}; what it has spent can't change any more."
    act = Act(
        title="Raise a cap",
        template="pages/acts/budget.html",
        button="Raise the cap",
        done="The cap is raised. A run that was held for it is queued.",
        off=off_reason(actor.may(Permission.BUDGET), Permission.BUDGET, can, why),
        facts={"budget_lines": budget_lines(budgets), "capped": capped_units(capped, unit), "cap": cap},
    )
    wanted, seen = (amount_of(text) for text in (cap, request.POST.get(f"seen_{unit}", "")))
    return act_page(
        request,
        actor,
        run,
        act,
        lambda reason: budget_raise(actor=actor, run_id=id, unit=unit, cap=wanted, reason=reason, seen=seen),
    )


@page
def commitment(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /commitments/<id>/withdraw/: record that a constraint or an assumption does not hold any more."""
    term = access_commitment(actor=actor, id=id)
    act = Act(
        title=f"Withdraw this {term.kind.lower()}",
        template="pages/acts/withdraw.html",
        button="Withdraw it",
        done="It is withdrawn. The run has ended, and stays as it ended."
        if term.run.ended_at
        else "It is withdrawn. The run sends nothing more with an effect on it, and is held at its next step.",
        off=off_reason(
            actor.may(Permission.REVISE), Permission.REVISE, can_withdraw(term.status), "It is withdrawn already."
        ),
        facts={"term": term},
    )
    return act_page(
        request, actor, term.run, act, lambda reason: commitment_withdraw(actor=actor, commitment_id=id, reason=reason)
    )


def waits_to_supersede(run: Run) -> list[Wait]:
    """The waits that a new goal takes back."""
    live = Wait.objects.filter(run=run, status__in=sorted(LIVE_WAIT)).select_related("tool_call", "decision")
    return list(live.defer("tool_call__args").order_by("opened_at"))


@page
def call_flag(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /calls/<id>/contradict/: give evidence against what was accepted about a call."""
    call = access_call(actor=actor, id=id)
    says, ref = request.POST.get("says", ""), request.POST.get("external_ref", "")
    act = Act(
        title="Give evidence against what was accepted",
        template="pages/acts/contradict.html",
        button="Raise the flag",
        done="The flag is raised. What was accepted stands until a person says otherwise.",
        off=off_reason(actor.may(Permission.RECONCILE), Permission.RECONCILE, True, ""),
        facts={"call": call, "speaks": True, "says": says, "external_ref": ref},
    )
    return act_page(request, actor, call.run, act, lambda reason: _contradict(actor, id, says, reason, ref))


def _contradict(actor: Actor, call_id: UUID, says: str, evidence: str, ref: str) -> object | Refused:
    if says not in (Verdict.EXECUTED, Verdict.NOT_EXECUTED):
        return Invalid({"field": "says", "reason": "choose whether it happened or not."})
    return call_contradict(actor=actor, call_id=call_id, said=EvidenceGiven(Verdict(says), evidence, ref))


CLOSED = {
    Closing.SEND_AGAIN: "The flag is closed. The retry is sent as it was decided.",
    Closing.DO_NOT_SEND: "The flag is closed. The retry is not sent: the outcome counts as unknown, and the run goes on without it.",
}


@page
def contradiction(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /contradictions/<id>/close/: close a flag; where a retry waits, say whether it is sent."""
    flag = access_contradiction(actor=actor, id=id)
    waits = flag.tool_call.status == CallStatus.RETRY_WAIT
    chosen = request.POST.get("closing", "")
    act = Act(
        title="Evidence speaks against what was accepted",
        template="pages/acts/contradiction.html",
        button="Close the flag",
        done=CLOSED.get(Closing(chosen), "The flag is closed.") if chosen in set(Closing) else "",
        off=off_reason(
            actor.may(Permission.RECONCILE),
            Permission.RECONCILE,
            flag.closed_at is None,
            f"It is closed already: {CLOSING[flag.closing]}." if flag.closing else "",
        ),
        facts={"flag": flag, "waits": waits, "closings": _closings(waits, chosen), **flag_facts(flag, actor)},
    )
    return act_page(request, actor, flag.tool_call.run, act, lambda reason: _close(actor, id, chosen, reason))


def _closings(waits: bool, chosen: str) -> list[tuple[str, str, bool]]:
    """(value, words, chosen) of the ways to close a flag. None is chosen for the person where something is sent."""
    if not waits:
        return [(Closing.NOTED, "Noted", True)]
    ways = ((Closing.SEND_AGAIN, "Send it again"), (Closing.DO_NOT_SEND, "Do not send it"))
    return [(way, words, way == chosen) for way, words in ways]


def _close(actor: Actor, id: UUID, chosen: str, reason: str) -> object | Refused:
    if chosen not in set(Closing):
        return Invalid({"field": "closing", "reason": "choose one; none is chosen for you."})
    return contradiction_settle(actor=actor, contradiction_id=id, closing=Closing(chosen), reason=reason)


@page
def obligation(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /obligations/<id>/release/: let a promise go, so that the run can complete without it."""
    promise = access_obligation(actor=actor, id=id)
    can = can_release(promise.status)
    act = Act(
        title="Release a promise",
        template="pages/acts/release.html",
        button="Release this promise",
        done="The promise is released. The run has ended, and stays as it ended."
        if promise.run.ended_at
        else "The promise is released. The run can complete without it.",
        off=off_reason(actor.may(Permission.RELEASE), Permission.RELEASE, can, f"It is {promise.status} already."),
        facts={"promise": promise},
    )
    return act_page(
        request,
        actor,
        promise.run,
        act,
        lambda reason: obligation_release(actor=actor, obligation_id=id, reason=reason),
    )
