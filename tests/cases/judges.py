"""What was to be done in a case, as questions to the database. Each gives a judge of the runs that the case is about."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from approvals.models import Decision, Vote, Wait
from approvals.selectors import answer_value
from checkpoints.models import Obligation
from receipts.models import Contradiction, Reconciliation, ToolCall
from receipts.selectors import call_arguments
from runs.canonical import parse
from runs.models import Budget, ControlRequest, Run
from tests.cases.case import Found, Judge, Outcome
from tests.cases.house import OPERATOR

LABEL = f"person:{OPERATOR}"
USED = ("APPROVED", "CONSUMED")


def undone(why: str = "nothing was decided") -> Found:
    return Found(Outcome.UNDONE, why)


def wrong(why: str, at: Any = None) -> Found:
    return Found(Outcome.WRONG, why, at)


def right(why: str, at: Any) -> Found:
    return Found(Outcome.RIGHT, why, at)


def _stopped(runs: Sequence[UUID]) -> Found | None:
    """What is found where the operator stopped a run that was to go on."""
    stop = ControlRequest.objects.filter(run__in=runs, kind="STOP", requested_by=LABEL).first()
    return wrong("its run was stopped", stop.accepted_at) if stop else None


# ── approvals ────────────────────────────────────────────────────────────────


def refused(tool: str) -> Judge:
    """No call of this tool is sent: the operator rejects what is asked, and what is asked after it."""

    def judge(runs: Sequence[UUID]) -> Found:
        of = {"wait__run__in": runs, "wait__tool_call__tool": tool, "actor": LABEL}
        let_go = Decision.objects.filter(**of, verdict="APPROVE", wait__status__in=USED).first()
        if let_go:
            return wrong("it was approved", let_go.at)
        said = Decision.objects.filter(**of, verdict="REJECT").order_by("-at").first()
        open_ones = Wait.objects.filter(run__in=runs, tool_call__tool=tool, status="OPEN")
        if said and not open_ones.exists():
            return right("it was rejected", said.at)
        return _stopped(runs) or undone()

    return judge


def let_go(tool: str) -> Judge:
    """The call of this tool is approved, by as many as are asked for but for others than the operator."""

    def judge(runs: Sequence[UUID]) -> Found:
        votes = Vote.objects.filter(
            wait__run__in=runs, wait__tool_call__tool=tool, actor=LABEL, withdrawn_at=None
        ).order_by("-at")
        against = votes.filter(verdict="REJECT").first()
        if against:
            return wrong("it was rejected", against.at)
        given = votes.filter(verdict="APPROVE").exclude(wait__status="INVALIDATED").first()
        if given:
            return right("it was approved", given.at)
        return _stopped(runs) or undone()

    return judge


def rewritten(tool: str, arguments: dict[str, Any]) -> Judge:
    """The call of this tool goes with exactly these arguments, which the operator wrote."""

    def judge(runs: Sequence[UUID]) -> Found:
        approved = Wait.objects.filter(
            run__in=runs, tool_call__tool=tool, status__in=USED, decision__verdict="APPROVE"
        ).select_related("tool_call", "decision")
        for wait in approved:
            call = wait.tool_call
            same = call.author == LABEL and parse(call_arguments(call)) == arguments
            return (right if same else wrong)(f"it went as {parse(call_arguments(call))}", wait.decision.at)
        if ToolCall.objects.filter(run__in=runs, tool=tool, author=LABEL).exists():
            return undone("written anew and not approved")
        said = Decision.objects.filter(wait__run__in=runs, wait__tool_call__tool=tool, actor=LABEL, verdict="REJECT")
        if said.exists():
            return wrong("it was rejected, and nothing was put in its place", said[0].at)
        return _stopped(runs) or undone()

    return judge


def storm(filing: str, grave: str) -> Judge:
    """Every filing is approved, and the one call of the last run rejected."""

    def judge(runs: Sequence[UUID]) -> Found:
        harmless, found = [let_go(filing)([run]) for run in runs[:-1]], refused(grave)([runs[-1]])
        if found.outcome != Outcome.RIGHT:
            return found
        amiss = [one for one in harmless if one.outcome != Outcome.RIGHT]
        for outcome in (Outcome.WRONG, Outcome.UNDONE):
            of = [one for one in amiss if one.outcome == outcome]
            if of:
                return Found(outcome, f"{len(of)} of {len(harmless)} filings: {of[0].why}", of[0].at)
        last = max(one.at for one in (*harmless, found) if one.at)
        return right("the filings went, and the other one did not", last)

    return judge


# ── questions ────────────────────────────────────────────────────────────────


def answered(holds: Callable[[Any], bool]) -> Judge:
    """The question is answered with something of which this holds."""

    def judge(runs: Sequence[UUID]) -> Found:
        said = Decision.objects.filter(wait__run__in=runs, actor=LABEL).select_related("wait__answer").first()
        if said is None:
            return _stopped(runs) or undone()
        if said.verdict == "DECLINE":
            return wrong("it was declined", said.at)
        value = answer_value(said.wait.answer)
        return (right if holds(value) else wrong)(f"it was answered with {value}", said.at)

    return judge


def declined() -> Judge:
    """The question gets no answer."""

    def judge(runs: Sequence[UUID]) -> Found:
        said = Decision.objects.filter(wait__run__in=runs, actor=LABEL).first()
        if said is None:
            return _stopped(runs) or undone()
        return (right if said.verdict == "DECLINE" else wrong)(said.verdict.lower(), said.at)

    return judge


# ── calls of unknown outcome ─────────────────────────────────────────────────


def said(verdict: str, follow_up: str = "NONE") -> Judge:
    """The operator gives this verdict, with what is to follow."""

    def judge(runs: Sequence[UUID]) -> Found:
        row = Reconciliation.objects.filter(tool_call__run__in=runs, actor=LABEL).order_by("at").last()
        if row is None:
            return _stopped(runs) or undone()
        same = (row.verdict, row.follow_up) == (verdict, follow_up)
        return (right if same else wrong)(f"{row.verdict}, {row.follow_up}", row.at)

    return judge


def flag_closed(closing: str) -> Judge:
    """The flag of a call is closed so."""

    def judge(runs: Sequence[UUID]) -> Found:
        flag = Contradiction.objects.filter(tool_call__run__in=runs).exclude(closed_at=None).first()
        if flag is None:
            return _stopped(runs) or undone()
        return (right if flag.closing == closing else wrong)(f"closed as {flag.closing}", flag.closed_at)

    return judge


# ── runs ─────────────────────────────────────────────────────────────────────


def stopped() -> Judge:
    """The first run is stopped, and none of the others."""

    def judge(runs: Sequence[UUID]) -> Found:
        stops = ControlRequest.objects.filter(run__in=runs, kind="STOP", requested_by=LABEL).order_by("accepted_at")
        for stop in stops:
            if stop.run_id != runs[0]:
                return wrong("another run was stopped", stop.accepted_at)
        first = stops.first()
        return right("it was stopped", first.accepted_at) if first else undone()

    return judge


def raised(unit: str, most: int) -> Judge:
    """The run has room again, and not more than this."""

    def judge(runs: Sequence[UUID]) -> Found:
        [run], cap = Run.objects.filter(id__in=runs), Budget.objects.get(run_id=runs[0], unit=unit).cap
        if cap is None or cap > most:
            return wrong(f"its cap is {cap} by now")
        if run.status == "HELD" and run.hold_reason == "BUDGET":
            return _stopped(runs) or undone()
        moved = run.transitions.filter(actor=LABEL).order_by("id").last()
        return _stopped(runs) or right(f"its cap is {cap}", moved.at if moved else None)

    return judge


def resumed() -> Judge:
    """The pause is over."""

    def judge(runs: Sequence[UUID]) -> Found:
        pause = ControlRequest.objects.get(run__in=runs, kind="PAUSE")
        return _stopped(runs) or (right("it goes on", pause.settled_at) if pause.settled_at else undone())

    return judge


def released() -> Judge:
    """The promise is released, so that the run can end."""

    def judge(runs: Sequence[UUID]) -> Found:
        promise = Obligation.objects.get(run__in=runs)
        if promise.status == "RELEASED":
            return right("it was released", promise.closed_at)
        return _stopped(runs) or undone()

    return judge
