"""Taking over: settle what the last holder left open, adopt a stop, then the resume guards in their order.

The order is DESIGN.md ruling 12 and model.md section 3.4: attempts without an outcome first, then a stop, then identity,
format, pins and references. Each refusal holds the run under a kind of its own.
"""

import json
from collections.abc import Mapping
from typing import Any

from django.db.utils import OperationalError

from accounts.codec import BodyChanged
from accounts.selectors import current_data_key
from checkpoints.errors import Unreadable
from checkpoints.selectors import Position, lapses_of, load_head, unknown_saves
from checkpoints.services import head_lock_soon, saves_probe
from receipts.selectors import (
    calls_in_lineage,
    lost_workers,
    open_attempts,
    proposals_waiting,
    result_bytes,
    run_keys,
)
from runs.canonical import canonical, digest
from runs.errors import connection_lost
from runs.leases import lease_look
from runs.selectors import ToContinue, pin_of, run_inputs, run_to_continue
from runs.services import children_settle
from runs.states import UNHOLDING_CAUSES, BudgetUnit, Holding, HoldReason, RecoveryPolicy, RunStatus, WakeupCause
from runs.wakeups import wakeups_consume
from runtime.cascade import children_end
from runtime.contracts import AgentSpec, PriorResult
from runtime.conversation import answers_of, rebuild
from runtime.ending import close_settled, held_run, lose_open_attempts, park, refuse_resume, stop, worker
from runtime.gateways import gateway
from runtime.heartbeat import Heartbeat
from runtime.policy import policy_believed
from runtime.registry import agents, manifest, price_of
from runtime.session import Session


def restore(holding: Holding, heartbeat: Heartbeat) -> Session | None:
    """The session that the holder continues with, or None when the run was parked, settled or stopped instead.

    Under the first fence there are no attempts to settle: nobody has held the run before.
    """
    if holding.fence > 1 and settle_lost_attempts(holding):
        stop(holding)
        return None
    taken = run_to_continue(holding.run_id)
    run = taken.run
    settling = holding.takeover and run.recovery_policy == RecoveryPolicy.SETTLE
    if run.takeovers > run.max_takeovers and not settling:
        _hold_often_taken(holding, run)
        return None
    if not resolve_unknown_saves(holding):
        return None
    if settling:
        settle_run(holding)
        return None
    return _guarded(holding, heartbeat, taken)


def _hold_often_taken(holding: Holding, run: Any) -> None:
    """Hold a run whose workers are lost again and again (X07), with the list of who was lost, when, and on what."""
    evidence = lost_workers(run_id=run.id)
    on_the_wire = [lost["sending"] for lost in evidence if lost["sending"]]
    last = f", the last time while {on_the_wire[-1]} was on the wire" if on_the_wire else ""
    park(
        holding,
        RunStatus.HELD,
        cause="TAKEOVER_LIMIT",
        hold_reason=HoldReason.TAKEOVER_LIMIT,
        detail=f"It was taken over {run.takeovers} times without getting on{last}.",
        evidence={"lost": evidence},
    )


_HEARD = UNHOLDING_CAUSES | {WakeupCause.CHILD}


def settle_lost_attempts(holding: Holding) -> bool:
    """Mark every attempt of an older fence as unanswered and hold its budget, and hear of children that have ended. Returns
    whether a stop is requested.

    Where there is nothing of that, nothing is locked: no older fence can send any more, and a wakeup that comes now is
    heard of like one that comes later.
    """
    stop_requested, woken = lease_look(holding, causes=_HEARD)
    if not woken and not open_attempts(run_id=holding.run_id, before_fence=holding.fence):
        return stop_requested
    with held_run(holding) as (run, stopping):
        lose_open_attempts(run.id, before_fence=holding.fence, why="its worker was lost before it could say")
        wakeups_consume(run_id=run.id, fence=holding.fence, causes=UNHOLDING_CAUSES)
        if wakeups_consume(run_id=run.id, fence=holding.fence, causes=frozenset({WakeupCause.CHILD})):
            children_settle(run.id)
    return bool(stopping)


def resolve_unknown_saves(holding: Holding) -> bool:
    """Look up every save whose acknowledgement was lost (guard 4). False: somebody keeps the head locked, the run is held."""
    if not unknown_saves(holding.run_id):
        return True
    try:
        with held_run(holding) as (run, _):
            head_lock_soon(run.id)
            saves_probe(run_id=run.id, fence=holding.fence)
    except OperationalError as error:
        if connection_lost(error):
            raise
        park(
            holding,
            RunStatus.HELD,
            cause="SAVE_UNKNOWN",
            hold_reason=HoldReason.SAVE_UNKNOWN,
            detail="A save has an unknown outcome, and another session keeps the run's head locked.",
        )
        return False
    return True


def settle_run(holding: Holding) -> None:
    """End a run by what is known, for the recovery policy SETTLE, and then its children."""
    with held_run(holding) as (run, stopping):
        if not stopping:
            close_settled(run, fence=holding.fence, actor=worker(holding), why="settled after its worker was lost")
    if stopping:
        stop(holding)
    else:
        children_end(holding.run_id)


def _guarded(holding: Holding, heartbeat: Heartbeat, taken: ToContinue) -> Session | None:
    try:
        return _session(holding, heartbeat, taken)
    except Unreadable as error:
        refuse_resume(holding, error.kind, error.found)
    except BodyChanged:
        refuse_resume(holding, "DIGEST_MISMATCH", "a stored result, turn, message or input was changed")
    return None


def _session(holding: Holding, heartbeat: Heartbeat, taken: ToContinue) -> Session:
    run: Any = taken.run
    position = load_head(run)
    spec = pinned_spec(run, position)
    session = Session(
        holding=holding,
        run=run,
        spec=spec,
        gateway=gateway(),
        heartbeat=heartbeat,
        position=position,
        key_id=current_data_key(run.tenant_id),
        inputs=_materials(run, position),
        results=prior_results(run, position),
        conversation=rebuild(run, compacted_through=position.snapshot.compacted_through),
        news=taken.news,
        heard=taken.heard,
        keys=run_keys(run_id=run.id, results=[ref.call for ref in position.snapshot.results]),
        policy=policy_believed(run.tenant_id),
        price=price_of(spec),
        timed=BudgetUnit.WALL_MS in taken.units,
    )
    session.trace("resumed", fence=holding.fence, takeover=holding.takeover, revision=position.revision)
    for ref in position.snapshot.results:
        session.trace("ref_verified", ref.call, digest=ref.digest)
    for call_id, turn_no, ordinal in proposals_waiting(call_ids=position.snapshot.barrier):
        session.asked_for(call_id, turn_no, ordinal)
    lapses = lapses_of([ref.call for ref in position.snapshot.results])
    session.lapse(lapses, answers_of(lapses))
    return session


def pinned_spec(run: Any, position: Position) -> AgentSpec:
    """The agent version that the run is pinned to, if this installation still has exactly it (guard 7)."""
    pin = pin_of(run)
    agent = agents().get(pin.agent)
    if agent is None:
        raise Unreadable("PIN_UNAVAILABLE", f"agent {pin.agent} is not registered here")
    here = digest(canonical(manifest(agent.spec)))
    if not here == pin.manifest_digest == position.snapshot.manifest_digest:
        raise Unreadable("PIN_UNAVAILABLE", f"{pin.agent} {pin.version} was changed since the run started")
    return agent.spec


def _materials(run: Any, position: Position) -> Mapping[str, bytes]:
    """The uploads of a run, each that the snapshot names found and equal by digest (guard 8)."""
    inputs = run_inputs(run)
    for material in position.snapshot.materials:
        if material.name not in inputs:
            raise Unreadable("MISSING_REF", f"the input {material.name}")
        if digest(inputs[material.name]) != material.digest:
            raise Unreadable("DIGEST_MISMATCH", f"the input {material.name}")
    return inputs


def prior_results(run: Any, position: Position) -> list[PriorResult]:
    """The results that the snapshot refers to, each found in the run's lineage and equal by digest (guard 8)."""
    refs = position.snapshot.results
    if not refs:
        return []
    calls = calls_in_lineage(ids=[ref.call for ref in refs], lineage_id=run.lineage_id)
    found = []
    for ref in refs:
        call = calls.get(ref.call)
        if call is None or not hasattr(call, "result"):
            raise Unreadable("MISSING_REF", f"the result of call {ref.call}")
        plain = result_bytes(call.result)
        if not digest(plain) == ref.digest == call.result.digest:
            raise Unreadable("DIGEST_MISMATCH", f"the result of call {ref.call}")
        found.append(PriorResult(ref.call, call.tool, ref.step_name, ref.ok, json.loads(plain)))
    return found


def prior_result(call: Any, plain: bytes) -> PriorResult:
    """A stored result as tools read it."""
    return PriorResult(call.id, call.tool, call.step_name, call.result.ok, json.loads(plain))
