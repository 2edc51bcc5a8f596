"""Hear: take in what people have answered. The questions of a turn are one barrier at one revision: when none is open any
more, one commit consumes their waits and gives each answer to the model as the result of its call.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from accounts.codec import BodyChanged
from accounts.statements import gather
from approvals.selectors import answer_of, answer_value, newest_asked
from approvals.services import arguments_intact, wait_consume
from approvals.states import WaitStatus
from checkpoints.envelope import ResultRef, Snapshot
from checkpoints.errors import Unreadable
from checkpoints.services import contract_now, head_lock, obligation_fulfil, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from receipts.selectors import unsent_in
from receipts.services import call_answered
from receipts.states import CallStatus
from runs.errors import LeaseLost
from runs.faults import reach
from runs.live import hint_changed
from runs.states import RunStatus, WakeupCause
from runs.wakeups import wakeups_consume
from runtime import guards
from runtime.contracts import PriorResult
from runtime.ending import held_run, park, stop
from runtime.loop.dispatch import NotGoing, refuse_in_step
from runtime.loop.route import route_calls
from runtime.session import Session
from runtime.statements import AWAITED


class Heard(NamedTuple):
    """A question, the newest wait of it, and what was decided."""

    call: Any
    wait: Any
    decision: Any


_OVER = (WaitStatus.ANSWERED, WaitStatus.REJECTED, WaitStatus.EXPIRED)


def hear(session: Session) -> bool:
    """Go by the newest wait of each question that the head waits for. One that was taken back is asked again."""
    found = gather(AWAITED, {"calls": list(session.snapshot.barrier)})
    unsent, people = unsent_in(found["unsent"]), newest_asked(found)
    calls = [unsent[id] for id in session.snapshot.barrier if id in unsent]
    asked = [Heard(call, *people[call.id]) for call in calls if call.status == CallStatus.AWAITING_INPUT]
    if any(one.wait.status == WaitStatus.OPEN for one in asked):
        park(session.holding, RunStatus.WAITING, cause="STILL_WAITING")
        return False
    again = [one.call for one in asked if one.wait.status not in _OVER]
    if again:
        return route_calls(session, again)
    said = {one.call.id: _said(one) for one in asked if one.wait.status == WaitStatus.ANSWERED}
    return _take_in(session, asked, said, left=len(calls) > len(asked))


def _said(one: Heard) -> dict[str, Any]:
    """What the model is told: who has said what. Raises Unreadable where question or answer are not the stored ones."""
    answer = answer_of(one.wait.id)
    try:
        if answer is None or not arguments_intact(one.call):
            raise BodyChanged
        return {"answered_by": one.decision.actor, "answer": answer_value(answer)}
    except BodyChanged as error:
        raise Unreadable("DIGEST_MISMATCH", f"question {one.call.id} or its answer was changed") from error


def _take_in(session: Session, asked: Sequence[Heard], said: dict[Any, dict[str, Any]], *, left: bool) -> bool:
    """One commit: waits and wakeups consumed, each answer the result of its call, calls that nobody answered REJECTED, and the
    head where the turn goes on: to its other calls, or to the model.
    """
    refs: list[ResultRef] = []
    with held_run(session.holding) as (run, stopping):
        failed = guards.ground(session)
        if not stopping and failed is None:
            head_lock(run.id)
            refs = [_close(session, one, said.get(one.call.id)) for one in asked if one.call.id in said]
            for one in asked:
                if one.call.id not in said:
                    refuse_in_step(session, _not_answered(one))
            wakeups_consume(run_id=run.id, fence=session.holding.fence, causes=frozenset({WakeupCause.INTENT}))
            reach("inside_hear_tx")
            snapshot = _draft(session, run, refs, left=left)
            prepared = session.prepared(snapshot, Trigger.AFTER_EFFECT if refs else Trigger.CURSOR)
            saved(snapshot_save(prepared, fence=session.holding.fence))
    if stopping:
        stop(session.holding)
        return False
    if failed is not None:
        return guards.hold(session, failed)
    reach("after_wake_consumed", asked[0].call.tool if asked else "")
    session.moved(snapshot, prepared.digest)
    by_id = {one.call.id: one.call for one in asked}
    session.results += [
        PriorResult(ref.call, by_id[ref.call].tool, ref.step_name, ref.ok, said[ref.call]) for ref in refs
    ]
    session.reread()
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    return True


def _close(session: Session, one: Heard, value: Any) -> ResultRef:
    """Consume an answered wait, and store what was said as the result of the question."""
    if not wait_consume(one.wait, fence=session.holding.fence):
        raise LeaseLost
    call = one.call
    result = call_answered(call, value=value, wait_id=one.wait.id, fence=session.holding.fence)
    return ResultRef(
        call=call.id, step_name=call.step_name, key=call.idempotency_key, digest=result.digest, ok=result.ok
    )


def _not_answered(one: Heard) -> NotGoing:
    if one.decision is None:
        return NotGoing(one.call, one.wait, "nobody answered in time")
    return NotGoing(one.call, one.wait, f"a person declined to answer: {one.decision.reason}")


def _draft(session: Session, run: Any, refs: Sequence[ResultRef], *, left: bool) -> Snapshot:
    """The revision that follows, with the promises that answers keep marked as kept in the caller's transaction."""
    for ref in refs:
        obligation_fulfil(run_id=run.id, step_name=ref.step_name, call_id=ref.call)
    contract = session.snapshot.contract
    now = contract_now(run_id=run.id, goal=contract.goal, version=contract.version)
    if left:
        return session.next_snapshot(
            Phase.DECISION_RECORDED, node="route", results=tuple(refs), contract=now, closes_step=True
        )
    return session.next_snapshot(
        Phase.READY_TO_DECIDE, node="think", barrier=(), results=tuple(refs), contract=now, closes_step=True
    )
