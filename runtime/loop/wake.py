"""Wake: act on a decision. Everything is checked again in the commit that consumes the wait (guards 9 to 12)."""

from typing import Any

from approvals.policies import POLICY_VERSION
from approvals.selectors import approval_expired, decision_of, newest_wait
from approvals.services import arguments_intact, wait_consume, wait_invalidate
from approvals.states import WaitStatus
from checkpoints.services import checkpoint_save, head_lock
from checkpoints.statements import Candidate, prepare
from checkpoints.states import Phase, Trigger
from receipts.services import call_lock, call_refuse, calls_cancel
from receipts.states import CallStatus
from runs.errors import LeaseLost
from runs.faults import reach
from runs.services import refusal_record
from runs.states import RefusalKind, RunStatus, WakeupCause, WakeupStatus
from runs.wakeups import wait_wakeups_close, wakeups_consume
from runtime.ending import held_run, park, refuse_resume, stop
from runtime.loop.dispatch import dispatch_first
from runtime.loop.route import next_unsent, route_call, to_decide
from runtime.registry import tool_of
from runtime.session import Session
from runtime.tools.registry import definition_hash


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
    park(session.holding, RunStatus.WAITING, cause="STILL_WAITING")
    return False


def _approved(session: Session, call: Any, wait: Any) -> bool:
    if not arguments_intact(call):
        _invalidate(session, wait, RefusalKind.DIGEST_MISMATCH, "the stored arguments are not the approved ones")
        refuse_resume(session.holding, "DIGEST_MISMATCH", f"the arguments of call {call.id}", call.id)
        return False
    failed = _failed_check(session, call, wait)
    if failed is not None:
        kind, why = failed
        _invalidate(session, wait, kind, why)
        return route_call(session, call)
    reach("before_attempt_commit", call.tool)
    decision = decision_of(wait)
    if decision is None:
        raise LookupError(f"wait {wait.id} is approved without a decision")
    return dispatch_first(session, call, authorised_by=decision.actor, wait=wait)


def _failed_check(session: Session, call: Any, wait: Any) -> tuple[RefusalKind, str] | None:
    """Why an approval may not be used any more, or None. The binding, the validity, the tool and the policy."""
    bound = (wait.checkpoint_revision, wait.checkpoint_digest)
    if bound != (session.position.revision, session.position.digest) or wait.args_digest != call.args_digest:
        return RefusalKind.SUPERSEDED, "the run is no longer where the approval was bound"
    tool = tool_of(session.spec, call.tool)
    if tool is None or definition_hash(tool) != wait.tool_hash:
        return RefusalKind.SUPERSEDED, "the tool was changed after it was approved"
    if wait.policy_version != POLICY_VERSION:
        return RefusalKind.SUPERSEDED, "the policy was changed after it was approved"
    if approval_expired(wait):
        return RefusalKind.AUTHORITY, "the approval was not used in time"
    return None


def _invalidate(session: Session, wait: Any, kind: RefusalKind, why: str) -> None:
    with held_run(session.holding):
        wait_invalidate(wait, why=why)
    refusal_record(
        tenant_id=session.run.tenant_id,
        run_id=session.run.id,
        kind=kind,
        fence=session.holding.fence,
        subject_id=wait.id,
        detail={"why": why},
    )


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
            prepared = prepare(Candidate(snapshot, Trigger.CURSOR))
            if not checkpoint_save(prepared, fence=session.holding.fence):
                raise LeaseLost
    if stopping:
        stop(session.holding)
        return False
    reach("after_wake_consumed", call.tool)
    session.moved(snapshot, prepared.digest)
    session.reread()
    return True


def _close_wait(session: Session, wait: Any) -> None:
    fence = session.holding.fence
    if wait.status == WaitStatus.EXPIRED:
        wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.CONSUMED, fence=fence)
    elif not wait_consume(wait, fence=fence):
        raise LeaseLost
    wakeups_consume(run_id=wait.run_id, fence=fence, causes=frozenset({WakeupCause.INTENT}))
