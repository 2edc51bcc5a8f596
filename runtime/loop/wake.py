"""Wake: act on decisions. The waits of a turn are one barrier at one revision: when none is open any more, one commit
consumes them all, each call by its own decision (ruling 8). Everything is checked again in that commit (guards 9 to 12).
"""

from functools import partial
from typing import Any, NamedTuple

from accounts.statements import gather
from approvals.selectors import newest_asked
from approvals.states import DEADLINE, DecisionVerdict, WaitStatus
from checkpoints.services import head_lock, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from receipts.selectors import unsent_in
from receipts.states import CallStatus
from runs.faults import reach
from runs.states import RefusalKind, RunStatus, WakeupCause
from runs.wakeups import wakeups_consume
from runtime import guards
from runtime.ending import held_run, park, stop
from runtime.facts import refresh
from runtime.loop.dispatch import Going, NotGoing, dispatch_first, refuse_in_step
from runtime.loop.route import route_calls, to_decide
from runtime.recorded import moved_of
from runtime.session import Session
from runtime.statements import AWAITED


class Asked(NamedTuple):
    """A call that somebody was asked about, the newest wait of it, and what was decided."""

    call: Any
    wait: Any
    decision: Any


_REFUSED = (WaitStatus.REJECTED, WaitStatus.EXPIRED)


def wake(session: Session) -> bool:
    """Go by the newest wait of each call that the head waits for."""
    found = gather(AWAITED, {"calls": list(session.snapshot.barrier)})
    unsent, people = unsent_in(found["unsent"]), newest_asked(found)
    calls = [unsent[id] for id in session.snapshot.barrier if id in unsent]
    if not calls:
        return to_decide(session)
    asked = [Asked(call, *people[call.id]) for call in calls if call.id in people]
    if any(one.wait.status == WaitStatus.OPEN for one in asked):
        if guards.goes_on(session):
            park(session.holding, RunStatus.WAITING, cause="STILL_WAITING")
        return False
    approved = [one for one in asked if one.wait.status == WaitStatus.APPROVED]
    refused = [_not_going(one) for one in asked if one.wait.status in _REFUSED]
    if _is_void(calls, approved, refused):
        return _ask_afresh(session, calls, refused)
    for one in approved:
        failed = _changed(session, one)
        if failed is not None:
            return guards.hold(session, failed)
    return _go(session, approved, refused) if approved else _refuse_all(session, refused)


def _is_void(calls: list[Any], approved: list[Asked], refused: list[NotGoing]) -> bool:
    """Whether some wait was superseded or voided, or what is left was never asked about: a call that a person wrote, or one
    that another run of the lineage has held. The latter keeps nothing that was approved.
    """
    asked = [call for call in calls if call.status == CallStatus.AWAITING_APPROVAL]
    decided = len(approved) + len(refused)
    return decided < len(asked) or (not approved and decided < len(calls))


def _not_going(one: Asked) -> NotGoing:
    decision = one.decision
    if decision is None:
        return NotGoing(one.call, one.wait, "nobody decided in time")
    by = "its deadline" if decision.actor == DEADLINE else "a person"
    return NotGoing(one.call, one.wait, f"by {by}: {decision.reason}")


def _go(session: Session, approved: list[Asked], refused: list[NotGoing]) -> bool:
    """Send what was approved; what was refused is closed in the same commit."""
    going = []
    for one in approved:
        reach("before_attempt_commit", one.call.tool)
        going.append(Going(one.call, one.decision.actor, one.wait))
    if not dispatch_first(session, going, refused, void=partial(_void, session)):
        return False
    if refused:
        session.reread()
    return True


def _changed(session: Session, one: Asked) -> guards.Failed | None:
    """What of the call, or of what was decided about it, is not as it was recorded."""
    moved = moved_of(one.call, session.spec) or _decision_moved(one)
    why = f"call {one.call.id}: {moved}"
    return guards.Failed(RefusalKind.DIGEST_MISMATCH, why, one.call.id) if moved else None


def _decision_moved(one: Asked) -> str:
    wait, decision = one.wait, one.decision
    if decision is None or decision.verdict != DecisionVerdict.APPROVE:
        return "its wait is approved without a decision that says so"
    seen = (decision.seen_revision, decision.seen_digest, decision.seen_args_digest)
    if seen != (wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest):
        return "its decision is not about what its wait is bound to"
    if wait.tool_hash != one.call.tool_hash:
        return "its tool is not the one that people were asked about"
    return ""


def _void(session: Session, failed: guards.Failed) -> bool:
    """What follows where an approval can't be used: the facts are read again, or every decided call is asked afresh."""
    if failed.kind == RefusalKind.STALE_FACTS:
        return refresh(session)
    guards.ask_afresh(session, failed)
    return True


def _ask_afresh(session: Session, calls: list[Any], refused: list[NotGoing]) -> bool:
    """What was refused is closed, the rest goes to policy: again, or for the first time."""
    if refused:
        with held_run(session.holding):
            for item in refused:
                refuse_in_step(session, item)
        session.reread()
    closed = {item.call.id for item in refused}
    return route_calls(session, [call for call in calls if call.id not in closed])


def _refuse_all(session: Session, refused: list[NotGoing]) -> bool:
    """One commit: waits and wakeups consumed, calls REJECTED, head READY_TO_DECIDE. The model is told why."""
    with held_run(session.holding) as (run, stopping):
        if not stopping:
            head_lock(run.id)
            for item in refused:
                refuse_in_step(session, item)
            wakeups_consume(run_id=run.id, fence=session.holding.fence, causes=frozenset({WakeupCause.INTENT}))
            snapshot = session.next_snapshot(Phase.READY_TO_DECIDE, node="think", barrier=())
            prepared = session.prepared(snapshot, Trigger.CURSOR)
            saved(snapshot_save(prepared, fence=session.holding.fence))
    if stopping:
        stop(session.holding)
        return False
    for item in refused:
        reach("after_wake_consumed", item.call.tool)
    session.moved(snapshot, prepared.digest)
    session.reread()
    return guards.goes_on(session)
