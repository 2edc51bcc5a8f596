"""Route: take the turn's next call to policy, and from there to dispatch, to a wait, or to a denial."""

from typing import Any

from approvals.policies import Ruling, rule_on
from approvals.services import ruling_record, wait_open
from approvals.states import PolicyOutcome
from checkpoints.services import head_lock, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from receipts.selectors import calls_of
from receipts.services import call_refuse
from receipts.states import CallStatus
from runs.faults import reach
from runs.services import run_move
from runs.states import RunStatus, WakeupCause
from runs.wakeups import wakeups_consume
from runtime import guards
from runtime.ending import held_run, stop, worker
from runtime.loop.dispatch import bound_tool, dispatch_first, prepare_effect
from runtime.loop.lineage import ClaimedElsewhere, claimed_elsewhere
from runtime.loop.think import think
from runtime.registry import tool_of
from runtime.session import Session

# Wakeups that ask for a fresh look at the policy; the commit that opens the fresh wait consumes them (ruling 30).
_FRESH_WAIT_CAUSES = frozenset(
    {WakeupCause.INTENT, WakeupCause.SUPERSEDED, WakeupCause.INVALIDATED, WakeupCause.DECISION, WakeupCause.TIMER}
)


def route(session: Session) -> bool:
    """Send the next unsent call of the turn on its way, or think again when none is left."""
    if session.asked is not None:
        return think(session)
    call = next_unsent(session)
    if call is not None:
        return route_call(session, call)
    if session.snapshot.phase == Phase.TOOL_RESULT_RECORDED:
        return think(session)
    return to_decide(session)


def next_unsent(session: Session) -> Any:
    """The first call of the current turn that has not been sent and is not closed, or None."""
    calls = calls_of(ids=list(session.snapshot.barrier))
    unsent = (CallStatus.PROPOSED, CallStatus.AWAITING_APPROVAL)
    return next((calls[id] for id in session.snapshot.barrier if calls[id].status in unsent), None)


def route_call(session: Session, call: Any) -> bool:
    """Ask the policy about one call and do what it says, unless another run of the lineage has claimed its intent."""
    try:
        return _by_policy(session, call)
    except ClaimedElsewhere as claimed:
        return claimed_elsewhere(session, claimed)


def _by_policy(session: Session, call: Any) -> bool:
    tool = tool_of(session.spec, call.tool)
    ruling = rule_on(
        tool_known=tool is not None,
        effect_class=call.effect_class,
        local=tool is not None and tool.local,
        forbidden_by=session.snapshot.contract.forbids(tool=call.tool, effect_class=call.effect_class),
    )
    if ruling.outcome == PolicyOutcome.ALLOW:
        return dispatch_first(session, call, authorised_by=f"policy:{ruling.version}", ruling=ruling)
    if ruling.outcome == PolicyOutcome.DENY:
        return _deny(session, call, ruling)
    return _ask_a_person(session, call, ruling)


def _deny(session: Session, call: Any, ruling: Ruling) -> bool:
    with held_run(session.holding):
        ruling_record(call, ruling)
        call_refuse(call, to=CallStatus.DENIED, why=ruling.rule)
    session.keys.live.pop(call.idempotency_key, None)
    session.answered(call.id, call.tool, ok=False, value={"error": f"denied by policy: {ruling.rule}"})
    return True


def _ask_a_person(session: Session, call: Any, ruling: Ruling) -> bool:
    """One commit: head AWAITING_APPROVAL unless it is, the wait bound to it, run WAITING, lease free."""
    tool, args = bound_tool(session, call)
    with held_run(session.holding) as (run, stopping):
        failed = guards.ground(session)
        if not stopping and failed is None:
            head_lock(run.id)
            prepare_effect(session, call, tool, args)
            _head_awaits_approval(session)
            reach("inside_wait_tx", call.tool)
            wait_open(
                call,
                ruling,
                revision=session.position.revision,
                checkpoint_digest=session.position.digest,
                fence=session.holding.fence,
            )
            wakeups_consume(run_id=run.id, fence=session.holding.fence, causes=_FRESH_WAIT_CAUSES)
            run_move(
                run, RunStatus.WAITING, cause="WAIT_OPENED", actor=worker(session.holding), fence=session.holding.fence
            )
    if stopping:
        stop(session.holding)
    elif failed is not None:
        guards.hold(session, failed)
    else:
        reach("after_wait_opened", call.tool)
    return False


def _head_awaits_approval(session: Session) -> None:
    if session.snapshot.phase == Phase.AWAITING_APPROVAL:
        return
    snapshot = session.next_snapshot(Phase.AWAITING_APPROVAL, node="wake")
    prepared = session.prepared(snapshot, Trigger.CURSOR)
    saved(snapshot_save(prepared, fence=session.holding.fence))
    session.moved(snapshot, prepared.digest)


def to_decide(session: Session) -> bool:
    """Nothing of the turn is left to send: the model is asked again."""
    with held_run(session.holding) as (run, _):
        head_lock(run.id)
        snapshot = session.next_snapshot(Phase.READY_TO_DECIDE, node="think", barrier=())
        prepared = session.prepared(snapshot, Trigger.CURSOR)
        saved(snapshot_save(prepared, fence=session.holding.fence))
    session.moved(snapshot, prepared.digest)
    return True
