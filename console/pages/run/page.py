"""The page of one run: its head, its facts, the time axis, the event that is looked at, and the list of events."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from accounts.statements import Questions, compose
from accounts.states import Actor, Permission
from approvals.states import WaitKind, can_decide
from checkpoints.models import Commitment, Intent
from checkpoints.states import ObligationStatus
from console.pages.amounts import budget_lines
from console.pages.few import Few
from console.pages.room import page, respond
from console.pages.run.axis import run_axis
from console.pages.run.detail import Detail, detail_of
from console.pages.run.events import Event, tenures
from console.pages.run.look import Look, look_of, picture_of, turns_of
from console.pages.run.rows import ANY_RUN, ANY_TENANT, RunRows, run_rows
from console.pages.run.say import facts_of, head_line
from console.pages.run.window import named_key, window_of
from console.pages.words import held
from runs.models import Run, RunInput, SweepFailure
from runs.selectors import access_run, database_now, lineage_holder
from runs.states import (
    ControlKind,
    HoldReason,
    RunStatus,
    can_continue,
    can_pause,
    can_raise_cap,
    can_retry_resume,
    can_revise_goal,
    can_settle,
    can_stop,
)
from runtime.drift import drift_of
from runtime.registry import agents

PANELS = {"run-live": "pages/run/live.html"}
RELATIVES = 20  # runs that it comes from or that come from it; the lineage shows all
KEPT = 100  # things in long-term memory that are counted


@page
def run_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET /runs/<id>/: `?at=` looks at one event (`call:<id>`), `?upto=` and `?after=` at other windows than the newest,
    `?size=` at fewer or more events, and `?fold=0` draws true lengths.
    """
    run = access_run(actor=actor, id=id)
    look = look_of(request)
    rows = run_rows(run)
    window = window_of(run, size=look.size, key=look.at, upto=look.upto, after=look.after)
    if look.follows and window.later:  # the event that is asked for is an older one
        look = replace(look, upto=window.last)
    picked = _picked(window.events, look.at)
    axis = run_axis(
        rows,
        window,
        tenures(window.moves, rows.lease),
        database_now(),
        picked=picked.key if picked else "",
        fold=look.fold,
        follows=look.follows,
    )
    around = _around(run)
    context = {
        "run": run,
        "rows": rows,
        "look": look,
        "topic": f"run:{run.id}",
        "self_url": reverse("run", args=[run.id]) + look.url(),
        "axis": axis,
        "events": window.events[::-1],
        "turns": turns_of(look, window),
        "picture": picture_of(look, window),
        "head_line": head_line(rows),
        "facts": facts_of(rows),
        "stop": rows.control(ControlKind.STOP),
        "pause": rows.control(ControlKind.PAUSE),
        "budget_lines": budget_lines(rows.budgets),
        **around,
        **_picked_context(window.events, picked, look, run.id),
        "ways_on": _ways_on(actor, rows),
        **_acts(actor, rows, continued=bool(around["continued"])),
    }
    return respond(request, actor, "pages/run/page.html", context, PANELS)


ANY_SOURCES = tuple(UUID(int=number) for number in (2, 3, 4))  # beside ANY_RUN, for what a run may come from


@cache
def _questions() -> Questions:
    """What is around a run, in the order of `_around`."""
    run = Run(id=ANY_RUN, tenant_id=ANY_TENANT)
    descends = Q(continued_from=run) | Q(forked_from=run) | Q(parent_run=run)
    return compose(
        Intent.objects.filter(run=run).order_by("-version")[:1],
        SweepFailure.objects.filter(run=run).order_by("first_at")[:1],
        Commitment.objects.filter(run=run).order_by("accepted_at", "id"),
        RunInput.objects.filter(run=run).order_by("name"),
        run.tags.order_by("tag"),
        run.progress.order_by("-version")[:1],
        run.remembered.defer("body")[: KEPT + 1],
        Run.objects.filter(descends | Q(id__in=ANY_SOURCES)).order_by("created_at")[: RELATIVES + 1],
    )


def _around(run: Run) -> dict[str, object]:
    """What the run works on, what it agreed and how that differs from what its agent declares now, and its relatives."""
    sources = zip(ANY_SOURCES, (run.continued_from_id, run.forked_from_id, run.parent_run_id), strict=True)
    found = _questions().ask({ANY_RUN: run.id, ANY_TENANT: run.tenant_id, **dict(sources)})
    intent, failures, terms, inputs, tags, progress, kept, relatives = found
    agent = agents().get(run.agent_version.agent.key)
    drift = drift_of([(term.source_kind, term.statement, term.denies) for term in terms], agent.spec) if agent else None
    return {
        "intent": next(iter(intent), None),
        "sweep_failure": next(iter(failures), None),
        "commitments": terms,
        "drift": drift if not run.ended_at else None,
        "inputs": inputs,
        "tags": tags,
        "said_progress": next(iter(progress), None) if run.workspace_id else None,
        "remembered": Few(kept, KEPT),
        "relatives": [
            (_relation(run, other), reverse("run", args=[other.id]), f"{other.title} ({other.status})")
            for other in relatives[:RELATIVES]
        ],
        "more_relatives": len(relatives) > RELATIVES,
        "continued": any(other.continued_from_id == run.id for other in relatives),
    }


def _picked(events: Sequence[Event], asked: str) -> Event | None:
    """The event that the URL names, else the newest that is still going on, else the newest."""
    key = named_key(asked, events) if asked else ""
    named = (event for event in events if event.key == key)
    going = (event for event in reversed(events) if event.going)
    return next(named, None) or next(going, None) or (events[-1] if events else None)


def _picked_context(events: Sequence[Event], picked: Event | None, look: Look, run_id: UUID) -> dict[str, object]:
    if picked is None:
        return {"detail": None}
    at = events.index(picked)
    detail: Detail = detail_of(picked, run_id)
    return {
        "detail": detail,
        "number": at + 1,
        "total": len(events),
        "asked": bool(look.at),
        "gone": bool(look.at) and not named_key(look.at, events),
        "closed_url": look.url(at=""),
        "earlier": look.url(at=events[at - 1].key) if at > 0 else "",
        "later": look.url(at=events[at + 1].key) if at + 1 < len(events) else "",
    }


def _ways_on(actor: Actor, rows: RunRows) -> list[tuple[str, str]]:
    """Where a run that needs a person is helped on: its open wait, its unknown call, or its first open promise.

    An unknown call of a run that has ended still wants a verdict.
    """
    run = rows.run
    if run.status == RunStatus.WAITING:
        waits = [wait for wait in rows.waits if can_decide(wait.status)]
        return [
            (
                reverse("wait", args=[wait.id]),
                "Open the question" if wait.kind == WaitKind.QUESTION else "Open the decision",
            )
            for wait in waits[:1]
        ]
    if run.ended_at or run.hold_reason == HoldReason.UNCERTAIN_CALL:
        holder = None if rows.unknown else lineage_holder(run)
        if holder is not None:
            return [(reverse("call", args=[holder]), "To the call that holds it")]
        return [(reverse("call", args=[rows.unknown]) + "#verdict", "Say what is known…")] if rows.unknown else []
    if run.hold_reason == HoldReason.BUDGET and actor.may(Permission.BUDGET):
        return [(reverse("run-budget", args=[run.id]), "Raise the cap…")]
    if run.hold_reason == HoldReason.OBLIGATION_OPEN and actor.may(Permission.RELEASE):
        promised = [promise.id for promise in rows.obligations if promise.status == ObligationStatus.OPEN]
        return [(reverse("obligation-release", args=[id]), "Release the promise…") for id in promised[:1]]
    return []


def _relation(run: Run, other: Run) -> str:
    """How another run has to do with this one, as the beginning of a sentence."""
    if other.id == run.continued_from_id:
        return "It continues"
    if other.id == run.forked_from_id:
        return f"It began at revision {run.forked_from_revision} of"
    if other.id == run.parent_run_id:
        return "It is a child of"
    if other.continued_from_id:
        return "It is continued by"
    return f"Forked at revision {other.forked_from_revision} by" if other.forked_from_id else "Its child is"


def _acts(actor: Actor, rows: RunRows, *, continued: bool) -> dict[str, bool]:
    """Which acts this person is offered now. The services decide again."""
    run = rows.run
    stop_open, pause_open = (rows.control(kind) is not None for kind in (ControlKind.STOP, ControlKind.PAUSE))
    guard = held(run.hold_reason, run.hold_detail).guard if run.hold_reason else ""
    retried = can_retry_resume(run.status, run.hold_reason)
    may_help = guard != "WITHDRAWN"  # trying again is refused for as long as it is withdrawn
    return {
        "may_continue": actor.may(Permission.START) and can_continue(run.status) and not continued,
        "may_repin": actor.may(Permission.REVISE) and guard == "PIN_UNAVAILABLE",
        "may_migrate": actor.may(Permission.REVISE) and guard == "SCHEMA",
        "may_stop": actor.may(Permission.STOP) and can_stop(run.status, stop_open),
        "may_settle": actor.may(Permission.SETTLE) and can_settle(run.status),
        "may_pause": actor.may(Permission.PAUSE) and can_pause(run.status, stop_open or pause_open),
        "may_retry": actor.may(Permission.RESUME) and may_help and (pause_open or retried),
        "may_revise": actor.may(Permission.REVISE) and can_revise_goal(run.status),
        "may_tag": actor.may(Permission.REVISE),
        "may_withdraw": actor.may(Permission.REVISE),
        "may_release": actor.may(Permission.RELEASE),
        "may_raise": actor.may(Permission.BUDGET) and can_raise_cap(run.status),
    }
