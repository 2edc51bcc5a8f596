"""Route: take the turn's unsent calls to policy, and from there to dispatch, to waits, or to a denial."""

from collections.abc import Sequence
from typing import Any

from approvals.policies import Ruling
from approvals.selectors import policy_number_kept
from approvals.services import question_open, ruling_record, wait_open
from approvals.states import PolicyOutcome
from checkpoints.services import SaveRefused, head_lock, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from receipts.selectors import calls_unsent
from receipts.services import call_refuse
from receipts.states import CallStatus
from runs.faults import reach
from runs.services import run_move
from runs.states import RunStatus, WakeupCause
from runs.wakeups import wakeups_consume
from runtime import guards
from runtime.contracts import Asks
from runtime.ending import held_run, stop, worker
from runtime.facts import bound_tool, refresh
from runtime.loop.dispatch import Going, dispatch_first, prepare_effects
from runtime.loop.lineage import ClaimedElsewhere, claimed_elsewhere, is_held_elsewhere
from runtime.loop.think import think
from runtime.loop.unsaved import catch_up, record_unbindable, refuse_unbindable
from runtime.policy import policy_read, rule_on
from runtime.registry import tool_of
from runtime.session import Session

# Wakeups that ask for a fresh look at the policy; the commit that opens the fresh waits consumes them (ruling 30).
_FRESH_WAIT_CAUSES = frozenset(
    {WakeupCause.INTENT, WakeupCause.SUPERSEDED, WakeupCause.INVALIDATED, WakeupCause.DECISION, WakeupCause.TIMER}
)

Ruled = tuple[Any, Ruling]


def route(session: Session) -> bool:
    """Send the turn's unsent calls on their way, or think again when none is left."""
    if session.asked is not None:
        return think(session)
    if session.working is not None:
        catch_up(session)
    calls = unsent(session)
    if calls and session.working is not None:
        return refuse_unbindable(session, calls)
    if calls:
        return route_calls(session, calls)
    if session.snapshot.phase == Phase.TOOL_RESULT_RECORDED:
        return think(session)
    return to_decide(session)


def unsent(session: Session) -> list[Any]:
    """The calls of the current turn that have not been sent and are not closed, in order."""
    calls = calls_unsent(ids=session.snapshot.barrier)
    return [calls[id] for id in session.snapshot.barrier if id in calls]


def route_calls(session: Session, calls: Sequence[Any]) -> bool:
    """Ask the policy about each call and do what it says. Where facts have lapsed that one of them rests on, that is seen to
    first, and the next step looks at the others again.
    """
    return refresh(session) or _but_for_held(session, calls)


def _but_for_held(session: Session, calls: Sequence[Any]) -> bool:
    """A call whose intent another run of the lineage has claimed is answered from what came of it there. One that may still
    happen there, or of which nobody knows, keeps no other from going: the run is held when only such calls are left.
    """
    try:
        return _by_policy(session, calls)
    except ClaimedElsewhere as found:
        claimed = found
    others = [call for call in calls if call.id != claimed.call.id]
    if others and is_held_elsewhere(claimed):
        return _but_for_held(session, others)
    return claimed_elsewhere(session, claimed)


def _by_policy(session: Session, calls: Sequence[Any]) -> bool:
    """What is denied is closed first, then what is allowed goes side by side. Only when that has come back people are asked:
    first what the turn wants to know of them, then about the rest, each all at one revision (T21, ruling 8).
    """
    session.policy = policy_read(session.run.tenant_id)
    ruled = [(call, rule_on(session, call)) for call in calls]
    denied = [(call, ruling) for call, ruling in ruled if ruling.outcome == PolicyOutcome.DENY]
    if denied:
        return _deny(session, denied)
    questions = [(call, ruling) for call, ruling in ruled if _asks(session, call) is not None]
    allowed = [one for one in ruled if one[1].outcome == PolicyOutcome.ALLOW and one not in questions]
    if allowed:
        return dispatch_first(session, [Going(call, _word_of(ruling), ruling=ruling) for call, ruling in allowed])
    return _ask_people(session, questions or ruled)


def _asks(session: Session, call: Any) -> Asks | None:
    """What the tool of a call says of itself where it asks people; None where it is sent."""
    tool = tool_of(session.spec, call.tool)
    return tool.asks if tool is not None else None


def _word_of(ruling: Ruling) -> str:
    """On whose word a call goes that nobody is asked about: that of the policy, or of a grant."""
    return f"grant:{ruling.granted_by}" if ruling.granted_by else f"policy:{ruling.version}"


def _deny(session: Session, denied: Sequence[Ruled]) -> bool:
    with held_run(session.holding):
        for call, ruling in denied:
            ruling_record(call, ruling)
            call_refuse(call, to=CallStatus.DENIED, why=ruling.rule)
    for call, ruling in denied:
        session.keys.live.pop(call.idempotency_key, None)
        session.answered(call.id, call.tool, ok=False, value={"error": f"denied by policy: {ruling.rule}"})
    return True


def _ask_people(session: Session, ruled: Sequence[Ruled]) -> bool:
    """Ask about these calls, or these questions, or refuse them where the revision that the waits would be bound to can't be
    saved (A-130).
    """
    try:
        return _open_waits(session, ruled)
    except SaveRefused:
        record_unbindable(session, [call for call, _ in ruled])
        raise


def _open_waits(session: Session, ruled: Sequence[Ruled]) -> bool:
    """One commit: head AWAITING_APPROVAL, or AWAITING_INPUT for questions, unless it is; a wait for each call bound to it, run
    WAITING, lease free.

    Where another policy has come into force since these calls were ruled on, nothing is written and it is asked.
    """
    bound = [bound_tool(session, call) for call, _ in ruled]
    asks = _asks(session, ruled[0][0]) is not None
    with held_run(session.holding) as (run, stopping):
        failed = guards.ground(session)
        governed = policy_number_kept(run.tenant_id) == session.policy.number
        if not stopping and failed is None and governed:
            head_lock(run.id)
            prepare_effects(session, [(call, *bind) for (call, _), bind in zip(ruled, bound, strict=True)])
            _head_awaits(session, Phase.AWAITING_INPUT if asks else Phase.AWAITING_APPROVAL)
            reach("inside_wait_tx", ruled[0][0].tool)
            for call, ruling in ruled:
                _open_wait(session, call, ruling)
            wakeups_consume(run_id=run.id, fence=session.holding.fence, causes=_FRESH_WAIT_CAUSES)
            run_move(
                run, RunStatus.WAITING, cause="WAIT_OPENED", actor=worker(session.holding), fence=session.holding.fence
            )
    if stopping:
        stop(session.holding)
    elif failed is not None:
        guards.hold(session, failed)
    elif not governed:
        return True
    else:
        for call, _ in ruled:
            session.trace("wait_opened", call.id, args_digest=call.args_digest)
        reach("after_wait_opened", ruled[0][0].tool)
    return False


def _open_wait(session: Session, call: Any, ruling: Ruling) -> None:
    head, fence, asks = session.position, session.holding.fence, _asks(session, call)
    if asks is None:
        wait_open(call, ruling, revision=head.revision, checkpoint_digest=head.digest, fence=fence)
        return
    within = asks.within_seconds
    question_open(
        call, ruling, within_seconds=within, revision=head.revision, checkpoint_digest=head.digest, fence=fence
    )


def _head_awaits(session: Session, phase: Phase) -> None:
    if session.snapshot.phase == phase:
        return
    snapshot = session.next_snapshot(phase, node="wake" if phase == Phase.AWAITING_APPROVAL else "hear")
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
