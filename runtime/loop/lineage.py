"""Once per lineage: what becomes of a call whose intent another run of the lineage has claimed (T07, rulings 25 and 34).

It happened there → its result is reused. It may still happen, or nobody knows → this run is held by it. A person went on
there without knowing → it is refused to the model here too.
"""

from dataclasses import replace
from typing import Any

from checkpoints.envelope import ResultRef
from checkpoints.services import contract_now, head_lock, obligation_fulfil, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from receipts.selectors import call_now, lineage_claims, proved_result
from receipts.services import call_lock, call_refuse, call_reuse
from receipts.states import CallStatus, Disposition, EffectClass, holds_intent
from runs.services import refusal_record
from runs.states import HoldReason, RefusalKind, RunStatus
from runtime.ending import held_run, park, stop
from runtime.hosts import Bound
from runtime.recovery import prior_result
from runtime.session import Session


class ClaimedElsewhere(Exception):
    """Rolls a dispatch or an opening wait back: another call of the lineage has the claim on this intent."""

    def __init__(self, call: Any, holder: Any) -> None:
        super().__init__()
        self.call = call
        self.holder = holder


def dispositions(session: Session, bound: list[Bound]) -> list[Bound]:
    """Say of a turn's new proposals what the lineage knows by now: REUSED for what happened in another run, REFUSED for
    what another run went on without knowing. The claim at the dispatch decides again.
    """
    effects = [item.call for item in bound if item.call and item.call.effect_class != EffectClass.READ_ONLY]
    if not effects:
        return bound
    run = session.run
    claimed = lineage_claims(
        tenant_id=run.tenant_id, lineage_id=run.lineage_id, intents=[call.intent_key for call in effects]
    )
    given_up = {call.id for call in effects if call.intent_key in claimed and _is_given_up(claimed[call.intent_key])}
    return [_disposed(item, claimed, given_up) for item in bound]


def _disposed(item: Bound, claimed: dict[str, Any], given_up: set[Any]) -> Bound:
    if item.proposal.call in given_up:
        refused = replace(item.proposal, disposition=Disposition.REFUSED, call=None, refusal=_GIVEN_UP)
        return Bound(refused)
    call = item.call
    known = call and claimed.get(call.intent_key)
    if known and known.status == CallStatus.SUCCEEDED:
        return replace(item, proposal=replace(item.proposal, disposition=Disposition.REUSED))
    return item


_GIVEN_UP = "an earlier run sent this, and nobody knows whether it happened; it will not be sent again"


def _is_given_up(call: Any) -> bool:
    return call.status == CallStatus.UNCERTAIN and not call.blocking


def claimed_elsewhere(session: Session, claimed: ClaimedElsewhere) -> bool:
    """Go on with a call whose intent another call of the lineage has claimed."""
    call, other = claimed.call, call_now(id=claimed.holder)
    if other.status == CallStatus.SUCCEEDED:
        return _reuse(session, call, other)
    if _is_given_up(other):
        return _refuse(session, call)
    if holds_intent(other.status, other.blocking):
        return _hold(session, call, other)
    return True  # it gave the claim up meanwhile: the next step tries again


def is_held_elsewhere(claimed: ClaimedElsewhere) -> bool:
    """Whether the call that has the claim may still happen, or nobody knows whether it did."""
    return _still_holds(claimed.holder)


def _reuse(session: Session, call: Any, other: Any) -> bool:
    """One commit: call SUCCEEDED with no attempt, result REUSED, obligation, and the result in the head."""
    with held_run(session.holding) as (run, stopping):
        if not stopping:
            head_lock(run.id)
            result = call_reuse(call_lock(call.id), other)
            if result.ok:
                obligation_fulfil(run_id=run.id, step_name=call.step_name, call_id=call.id)
            ref = ResultRef(
                call=call.id, step_name=call.step_name, key=call.idempotency_key, digest=result.digest, ok=result.ok
            )
            contract = session.snapshot.contract
            now = contract_now(run_id=run.id, goal=contract.goal, version=contract.version)
            snapshot = session.next_snapshot(_phase_after(session), node="route", results=(ref,), contract=now)
            prepared = session.prepared(snapshot, Trigger.AFTER_EFFECT)
            saved(snapshot_save(prepared, fence=session.holding.fence))
    if stopping:
        stop(session.holding)
        return False
    session.moved(snapshot, prepared.digest)
    session.results.append(prior_result(call_now(id=call.id), proved_result(result)))
    session.reread()
    return True


def _phase_after(session: Session) -> Phase:
    """The phase in which the others of the turn are looked at again. No wait is live then: nobody is asked any more."""
    phase = Phase(session.snapshot.phase)
    return Phase.DECISION_RECORDED if phase == Phase.AWAITING_APPROVAL else phase


def _refuse(session: Session, call: Any) -> bool:
    with held_run(session.holding):
        call_refuse(call_lock(call.id), to=CallStatus.DENIED, why=_GIVEN_UP)
    session.reread()
    return True


def _hold(session: Session, call: Any, other: Any) -> bool:
    """Hold the run by the other run's call, in the phase that it is in. The refusal names the call that the sweep looks
    at, so it is written before the run is parked.
    """
    refusal_record(
        tenant_id=session.run.tenant_id,
        run_id=session.run.id,
        kind=RefusalKind.ANCESTOR_INTENT,
        fence=session.holding.fence,
        subject_id=other.id,
        detail={"call": str(call.id), "run": str(other.run_id), "status": other.status},
    )
    unknown = other.status == CallStatus.UNCERTAIN
    why = "nobody knows whether it happened there" if unknown else f"it is {other.status} there"
    park(
        session.holding,
        RunStatus.HELD,
        cause="ANCESTOR_INTENT",
        hold_reason=HoldReason.UNCERTAIN_CALL,
        detail=f"{call.step_name} is call {other.id} of run {other.run_id} already, and {why}.",
        blocked=lambda: _still_holds(other.id),
        about=other.id,
    )
    return False


def _still_holds(call_id: Any) -> bool:
    now = call_now(id=call_id)
    return holds_intent(now.status, now.blocking)
