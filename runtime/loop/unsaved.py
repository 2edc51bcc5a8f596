"""Going on while a snapshot can't be saved (T11, A-124): what only reads may go on, what leaves a mark may not.

After a result whose snapshot was refused, the worker keeps the next revision as its working state, and the head stays. Each
time a step has closed it tries to save again. Until then the model may be asked and reads may be sent; a call with an effect
or a wait needs a revision to be bound to, and is refused as WAIT_UNBINDABLE. A worker that takes over meanwhile starts
from the head, derives the same from what is stored, and goes on as far.
"""

from collections.abc import Sequence
from typing import Any

from checkpoints.services import SaveRefused, head_lock, saved, snapshot_save
from checkpoints.statements import Prepared
from checkpoints.states import Phase, Trigger
from receipts.selectors import calls_of, proposals_waiting
from receipts.states import CallStatus, Disposition
from runs.services import refusal_record
from runs.states import HoldReason, RefusalKind, RunStatus
from runtime.ending import held_run, park
from runtime.saving import record_refused_save
from runtime.session import Session


def hold_unbound(session: Session) -> bool:
    """Hold a run whose next step needs a revision that is not there. Returns False."""
    return refuse_unbindable(session, _unsent(session))


def catch_up(session: Session) -> bool:
    """Save the working state after a result, if that is possible by now."""
    snapshot = session.next_snapshot(Phase.TOOL_RESULT_RECORDED, node="route")
    try:
        prepared = session.prepared(snapshot, Trigger.AFTER_EFFECT)
    except SaveRefused as refused:
        record_refused_save(session.holding, refused.outcome)
        return False
    _save(session, prepared)
    return True


def _save(session: Session, prepared: Prepared) -> None:
    with held_run(session.holding) as (run, _):
        head_lock(run.id)
        saved(snapshot_save(prepared, fence=session.holding.fence))
    session.moved(prepared.candidate.snapshot, prepared.digest)


def _unsent(session: Session) -> list[Any]:
    calls = calls_of(ids=list(session.snapshot.barrier))
    return [calls[id] for id in session.snapshot.barrier if calls[id].status == CallStatus.PROPOSED]


def refuse_unbindable(session: Session, calls: Sequence[Any]) -> bool:
    """Hold a run whose next step needs a saved revision, with a refusal for each call that it keeps back. Returns False."""
    record_unbindable(session, calls)
    park(
        session.holding,
        RunStatus.HELD,
        cause="SAVE_REFUSED",
        hold_reason=HoldReason.SAVE_REFUSED,
        detail="WAIT_UNBINDABLE: the newest results are stored, but no revision of them; the next step needs one.",
    )
    return False


def record_unbindable(session: Session, calls: Sequence[Any]) -> None:
    """Record that these calls can't be bound to a revision, after the refused transaction has ended (A-130)."""
    for call in calls:
        refusal_record(
            tenant_id=session.run.tenant_id,
            run_id=session.run.id,
            kind=RefusalKind.WAIT_UNBINDABLE,
            fence=session.holding.fence,
            subject_id=call.id,
            expected_revision=session.position.revision,
            detail={"why": "no revision can be saved that it could be bound to"},
        )


def decide_sealed(session: Session, turn: Any) -> bool:
    """Take a turn into the head that was sealed without a revision (F06), or into the state that is ahead of it: the model is
    not asked again. Returns True.
    """
    proposals = list(turn.proposals.all())
    calls = [one.tool_call for one in proposals if one.tool_call is not None]
    calls = [call for call in calls if (call.run_id, call.turn_no) == (session.run.id, turn.turn_no)]
    barrier = tuple(call.id for call in calls)
    if not proposals or proposals[0].disposition == Disposition.FINISH:
        phase, node = Phase.READY_TO_VERIFY, "verify"
    elif not barrier:
        phase, node = Phase.READY_TO_DECIDE, "think"
    elif any(call.attempts for call in calls):
        phase, node = Phase.AWAITING_TOOL_RESULT, "act"
    else:
        phase, node = Phase.DECISION_RECORDED, "route"
    snapshot = session.next_snapshot(phase, node=node, turn_no=turn.turn_no, barrier=barrier)
    if session.working is not None:
        session.work_on(snapshot)
    else:
        _save(session, session.prepared(snapshot, Trigger.CURSOR))
    for call_id, turn_no, ordinal in proposals_waiting(call_ids=barrier):
        session.asked_for(call_id, turn_no, ordinal)
    return True
