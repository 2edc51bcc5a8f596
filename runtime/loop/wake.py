"""Wake: act on a decision. Everything is checked again in the commit that consumes the wait (guards 9 to 12)."""

from typing import Any

from approvals.selectors import decision_of, newest_wait
from approvals.services import arguments_intact, wait_consume
from approvals.states import WaitStatus
from checkpoints.services import head_lock, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from receipts.services import call_lock, call_refuse, calls_cancel
from receipts.states import CallStatus
from runs.errors import LeaseLost
from runs.faults import reach
from runs.states import RefusalKind, RunStatus, WakeupCause, WakeupStatus
from runs.wakeups import wait_wakeups_close, wakeups_consume
from runtime import guards
from runtime.ending import held_run, park, stop
from runtime.loop.dispatch import dispatch_first
from runtime.loop.route import next_unsent, route_call, to_decide
from runtime.session import Session


def wake(session: Session) -> bool:
    """Go by the newest wait of the call that the head waits for."""
    call = next_unsent(session)
    if call is None:
        return to_decide(session)
    wait = newest_wait(call_id=call.id)
    if wait is None or wait.status in (WaitStatus.SUPERSEDED, WaitStatus.INVALIDATED):
        return route_call(session, call)
    if wait.status == WaitStatus.APPROVED:
        return _approved(session, call, wait)
    if wait.status in (WaitStatus.REJECTED, WaitStatus.EXPIRED):
        return _refused(session, call, wait)
    if guards.goes_on(session):
        park(session.holding, RunStatus.WAITING, cause="STILL_WAITING")
    return False


def ask_or_hold(session: Session, call: Any, wait: Any, failed: guards.Failed) -> bool:
    """What follows where an approval can't be used: the run is held, or the call is asked for afresh."""
    if failed.holds:
        return guards.hold(session, failed)
    guards.ask_afresh(session, wait, failed)
    return route_call(session, call)


def _approved(session: Session, call: Any, wait: Any) -> bool:
    if not arguments_intact(call):
        changed = f"the arguments of call {call.id} are not the approved ones"
        return guards.hold(session, guards.Failed(RefusalKind.DIGEST_MISMATCH, changed, call.id))
    failed = guards.approval(session, call, wait)
    if failed is not None:
        return ask_or_hold(session, call, wait, failed)
    reach("before_attempt_commit", call.tool)
    decision = decision_of(wait)
    if decision is None:
        raise LookupError(f"wait {wait.id} is approved without a decision")
    return dispatch_first(session, call, authorised_by=decision.actor, wait=wait)


def _refused(session: Session, call: Any, wait: Any) -> bool:
    """One commit: wait and wakeup consumed, call REJECTED, head READY_TO_DECIDE. The model is told why."""
    decision = decision_of(wait)
    why = f"by a person: {decision.reason}" if decision else "nobody decided in time"
    with held_run(session.holding) as (run, stopping):
        if not stopping:
            head_lock(run.id)
            call_refuse(call_lock(call.id), to=CallStatus.REJECTED, why=why[:500])
            calls_cancel(run_id=run.id, why="an earlier call of this turn was rejected")
            _close_wait(session, wait)
            snapshot = session.next_snapshot(Phase.READY_TO_DECIDE, node="think", barrier=())
            prepared = session.prepared(snapshot, Trigger.CURSOR)
            saved(snapshot_save(prepared, fence=session.holding.fence))
    if stopping:
        stop(session.holding)
        return False
    reach("after_wake_consumed", call.tool)
    session.moved(snapshot, prepared.digest)
    session.reread()
    return guards.goes_on(session)


def _close_wait(session: Session, wait: Any) -> None:
    fence = session.holding.fence
    if wait.status == WaitStatus.EXPIRED:
        wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.CONSUMED, fence=fence)
    elif not wait_consume(wait, fence=fence):
        raise LeaseLost
    wakeups_consume(run_id=wait.run_id, fence=fence, causes=frozenset({WakeupCause.INTENT}))
