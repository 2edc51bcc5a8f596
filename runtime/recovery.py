"""Taking over: settle what the last holder left open, adopt a stop, then the resume guards in their order.

The order is DESIGN.md ruling 12 and model.md section 3.4: attempts without an outcome first, then a stop, then identity,
format, pins and references. Each refusal holds the run under a kind of its own.
"""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.utils import OperationalError

from accounts.codec import BodyChanged
from accounts.statements import Gathered, gather
from checkpoints.errors import Unreadable
from checkpoints.selectors import Position, commitments_in, head_position, lapses_of
from checkpoints.services import head_lock_soon, saves_probe
from receipts.selectors import Story, calls_in_lineage, lost_workers, proposals_for, result_bytes
from runs.canonical import canonical, digest
from runs.errors import connection_lost
from runs.selectors import Pin, given_inputs, to_continue
from runs.services import children_settle
from runs.statements import fence_params
from runs.states import UNHOLDING_CAUSES, BudgetUnit, Holding, HoldReason, RecoveryPolicy, RunStatus, WakeupCause
from runs.wakeups import wakeups_consume
from runtime.cascade import children_end
from runtime.contracts import AgentSpec, PriorResult
from runtime.conversation import answers_of, history_in, rebuild
from runtime.ending import close_settled, held_run, lose_open_attempts, park, refuse_resume, stop, worker
from runtime.gateways import gateway
from runtime.guards import ground_found
from runtime.heartbeat import Heartbeat
from runtime.policy import policy_believed
from runtime.registry import agents, manifest, price_of
from runtime.session import Session
from runtime.statements import RESTORE


def restore(holding: Holding, heartbeat: Heartbeat) -> Session | None:
    """The session that the holder continues with, or None when the run was parked, settled or stopped instead.

    Everything is read in one statement, at one moment after the lease was taken; again where something was settled first.
    Under the first fence there are no attempts to settle: nobody has held the run before.
    """
    found = _found(holding)
    if holding.fence > 1:
        settled, stopping = settle_lost_attempts(holding, found)
        if stopping:
            stop(holding)
            return None
        found = _found(holding) if settled else found
    run = to_continue(found["continued"]).run
    settling = holding.takeover and run.recovery_policy == RecoveryPolicy.SETTLE
    if run.takeovers > run.max_takeovers and not settling:
        _hold_often_taken(holding, run)
        return None
    if found["unknown"]:
        if not resolve_unknown_saves(holding):
            return None
        found = _found(holding)
    if settling:
        settle_run(holding)
        return None
    return _guarded(holding, heartbeat, found)


def _found(holding: Holding) -> Gathered:
    """Everything about a run that its holder has to know. Raises LeaseLost where it is not held any more."""
    wanted = fence_params(holding) | {"causes": sorted(_HEARD), "last_turn": None, "last_message": None}
    found = gather(RESTORE, wanted)
    to_continue(found["continued"])
    return found


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


def settle_lost_attempts(holding: Holding, found: Gathered) -> tuple[bool, bool]:
    """Mark every attempt of an older fence as unanswered and hold its budget, and hear of children that have ended. Returns
    whether there was anything of that, and whether a stop is requested.

    Where there is nothing of that, nothing is locked: no older fence can send any more, and a wakeup that comes now is
    heard of like one that comes later.
    """
    if not found["woken"] and not found["unanswered"]:
        return False, to_continue(found["continued"]).stopping
    with held_run(holding) as (run, stopping):
        lose_open_attempts(run.id, before_fence=holding.fence, why="its worker was lost before it could say")
        wakeups_consume(run_id=run.id, fence=holding.fence, causes=UNHOLDING_CAUSES)
        if wakeups_consume(run_id=run.id, fence=holding.fence, causes=frozenset({WakeupCause.CHILD})):
            children_settle(run.id)
    return True, bool(stopping)


def resolve_unknown_saves(holding: Holding) -> bool:
    """Look up every save whose acknowledgement was lost (guard 4). False: somebody keeps the head locked, the run is held."""
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


def _guarded(holding: Holding, heartbeat: Heartbeat, found: Gathered) -> Session | None:
    try:
        return _session(holding, heartbeat, found)
    except Unreadable as error:
        refuse_resume(holding, error.kind, error.found)
    except BodyChanged:
        refuse_resume(holding, "DIGEST_MISMATCH", "a stored result, turn, message or input was changed")
    return None


def _session(holding: Holding, heartbeat: Heartbeat, found: Gathered) -> Session:
    taken = to_continue(found["continued"])
    run: Any = taken.run
    position = head_position(run, found)
    spec = pinned_spec(taken.pin, position)
    inputs = _materials(given_inputs(found["given"]), position)
    history = history_in(run, found)
    refs = position.snapshot.results
    session = Session(
        holding=holding,
        run=run,
        spec=spec,
        gateway=gateway(),
        heartbeat=heartbeat,
        position=position,
        key_id=found["data_key"][0][0],
        inputs=inputs,
        results=prior_results(run, position, known=history.story.calls),
        conversation=rebuild(history, compacted_through=position.snapshot.compacted_through),
        news=taken.news,
        heard=taken.heard,
        keys=history.keys([ref.call for ref in refs]),
        policy=policy_believed(run.tenant_id),
        price=price_of(spec),
        timed=BudgetUnit.WALL_MS in taken.units,
        failed=ground_found(run, found["principal"], commitments_in(found["committed"])),
        nothing_asked_after=_nothing_asked_after(position, history.story),
    )
    session.trace("resumed", fence=holding.fence, takeover=holding.takeover, revision=position.revision)
    for ref in refs:
        session.trace("ref_verified", ref.call, digest=ref.digest)
    for call_id, turn_no, ordinal in proposals_for(history.story, call_ids=position.snapshot.barrier):
        session.asked_for(call_id, turn_no, ordinal)
    lapses = _lapses(position, history.story, found)
    session.lapse(lapses, answers_of(lapses))
    return session


def _nothing_asked_after(position: Position, story: Story) -> int | None:
    """The head's revision, if no turn was asked for that it does not know of."""
    newest = max((turn.turn_no for turn in story.turns), default=0)
    return position.revision if newest <= position.snapshot.turn_no else None


def _lapses(position: Position, story: Story, found: Gathered) -> Mapping[UUID, str]:
    """The observations that the snapshot rests on and that have lapsed, here or in the run that this one goes on from."""
    calls = [ref.call for ref in position.snapshot.results]
    if all(id in story.calls for id in calls):
        return {id: step_name for id, step_name in found["lapsed"] if id in calls}
    return lapses_of(calls)


def pinned_spec(pin: Pin, position: Position) -> AgentSpec:
    """The agent version that a run is pinned to, if this installation still has exactly it (guard 7). Raises Unreadable."""
    agent = agents().get(pin.agent)
    if agent is None:
        raise Unreadable("PIN_UNAVAILABLE", f"agent {pin.agent} is not registered here")
    here = digest(canonical(manifest(agent.spec)))
    if not here == pin.manifest_digest == position.snapshot.manifest_digest:
        raise Unreadable("PIN_UNAVAILABLE", f"{pin.agent} {pin.version} was changed since the run started")
    return agent.spec


def _materials(inputs: Mapping[str, bytes], position: Position) -> Mapping[str, bytes]:
    """The uploads of a run, each that the snapshot names found and equal by digest (guard 8). Raises Unreadable."""
    for material in position.snapshot.materials:
        if material.name not in inputs:
            raise Unreadable("MISSING_REF", f"the input {material.name}")
        if digest(inputs[material.name]) != material.digest:
            raise Unreadable("DIGEST_MISMATCH", f"the input {material.name}")
    return inputs


def prior_results(run: Any, position: Position, known: Mapping[UUID, Any] | None = None) -> list[PriorResult]:
    """The results that the snapshot refers to, each found in the run's lineage and equal by digest (guard 8). Raises Unreadable.

    `known` are calls of the run that have been read, with their results.
    """
    refs, calls = position.snapshot.results, dict(known or {})
    elsewhere = [ref.call for ref in refs if ref.call not in calls]
    if elsewhere:
        calls |= calls_in_lineage(ids=elsewhere, lineage_id=run.lineage_id)
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
