"""Seal: one commit for a turn, its ordered proposals, the decision and, where policy asks nobody, the first dispatch."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from accounts.keys import new_id
from accounts.selectors import sealed_body
from approvals.policies import Ruling
from approvals.states import PolicyOutcome
from checkpoints.envelope import Snapshot
from checkpoints.statements import save_params
from checkpoints.states import Phase, Trigger
from receipts.selectors import call_now, open_turn
from receipts.statements import NewCall, call_params
from receipts.states import Disposition, EffectClass, ModelCallStatus
from runs.canonical import digest
from runs.errors import LeaseLost
from runs.faults import reach
from runs.live import hint_changed
from runs.statements import Purse, fence_params
from runtime.contracts import ModelTurn, Tool
from runtime.conversation import call_answer
from runtime.ending import held_run
from runtime.hosts import Asking, Bound, bind_turn
from runtime.loop.budget import (
    Amounts,
    model_reserve,
    model_used,
    tool_reserve,
)
from runtime.loop.lineage import dispositions
from runtime.policy import rule_on_new
from runtime.saving import not_written
from runtime.session import Asked, Sending, Session
from runtime.statements import SEAL_ALONE, SEAL_AND_SEND, SEAL_TURN, Written, write

Rulings = dict[UUID, Ruling]


def seal(session: Session, asked: Asked, turn: ModelTurn, answer: Asking) -> bool:
    """One commit: the sealed turn, its proposals, the decision and, where policy asks nobody, the first dispatch.

    Where nothing may be sent now, a second statement stores the same without the dispatch (ruling 24).
    """
    bound, rulings = _authorise(session, _bound(session, turn))
    written = _store(session, asked, turn, answer, bound, rulings)
    if not written.done:
        bound = [_kept_back(item) for item in bound]
        written = _store(session, asked, turn, answer, bound, rulings)
    reach("after_turn_sealed")
    reach("after_decision_saved")
    _remember(session, asked, turn, bound, started=bool(written.started))
    session.trace("turn_sealed", turn=asked.turn_no, proposals=len(bound))
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    return True


def _store(
    session: Session, asked: Asked, turn: ModelTurn, answer: Asking, bound: list[Bound], rulings: Rulings
) -> Written:
    """Store the turn and the revision that follows. It is not done where calls go with it and nothing may be sent now.

    Raises LeaseLost, or SaveRefused.
    """
    if session.working is not None:
        return _store_alone(session, asked, turn, answer, bound, rulings)
    sends = _sends(bound)
    snapshot = _next(session, asked, bound, sends=sends)
    prepared = session.prepared(snapshot, Trigger.CURSOR, writes=snapshot.barrier)
    params = _params(session, asked, turn, answer, bound, rulings) | save_params(prepared, key_id=session.key_id)
    written = write(SEAL_AND_SEND if sends else SEAL_TURN, params)
    if written.done:
        session.moved(snapshot, prepared.digest)
    elif written.held and sends and not written.go:
        session.in_flight.clear()  # acknowledged: nothing of it is stored
    else:
        raise not_written(written, prepared)
    return written


def _store_alone(
    session: Session, asked: Asked, turn: ModelTurn, answer: Asking, bound: list[Bound], rulings: Rulings
) -> Written:
    """Store the turn beside the head, while the state before can't be saved either. Raises LeaseLost."""
    written = write(SEAL_ALONE, _params(session, asked, turn, answer, bound, rulings))
    if not written.done:
        raise LeaseLost
    session.work_on(_next(session, asked, bound, sends=bool(written.started)))
    return written


def seal_in_hand(session: Session) -> None:
    """Store the turn that this worker holds and that is not stored, beside the head: whoever goes on takes it from there and
    asks for nothing (F06). Its calls are recorded, none is sent. Raises LeaseLost.
    """
    if session.turn_in_hand is None:
        return
    (asked, answer), session.turn_in_hand = session.turn_in_hand, None
    if answer.turn is None:
        return
    bound = _bound(session, answer.turn)
    params = _params(session, asked, answer.turn, answer, bound, {})
    with held_run(session.holding):
        turn = open_turn(run_id=session.run.id)
        if turn is None or (turn.id, turn.status, turn.attempts) != (
            asked.id,
            ModelCallStatus.DISPATCHED,
            asked.attempt,
        ):
            return
        write(SEAL_ALONE, params)
    session.trace("turn_sealed", turn=asked.turn_no, proposals=len(bound))
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)


def _bound(session: Session, turn: ModelTurn) -> list[Bound]:
    """The proposals of a turn, bound to tools, keys and what the lineage knows."""
    bound = bind_turn(
        turn,
        spec=session.spec,
        run_id=session.run.id,
        results=session.results,
        keys=session.keys,
        marks=session.marks,
        epochs=session.epochs,
    )
    return dispositions(session, bound)


def _authorise(session: Session, bound: list[Bound]) -> tuple[list[Bound], Rulings]:
    """Mark the turn's new calls for dispatch in the same commit: those that policy asks nobody about, if they only read.
    With them what it said of each.

    A call with an effect takes a claim first, in a transaction of its own (ADR 0006). Where policy lets one go, all of
    them go together from there.
    """
    rulings = {call.id: rule_on_new(session, call, tool) for call, tool in _new(bound)}
    allowed = [
        (call, tool)
        for call, tool in _new(bound)
        if rulings[call.id].outcome == PolicyOutcome.ALLOW and tool.asks is None
    ]
    denied = any(ruling.outcome == PolicyOutcome.DENY for ruling in rulings.values())
    if denied or any(tool.effect_class != EffectClass.READ_ONLY for _, tool in allowed):
        return bound, rulings
    going = {call.id for call, _ in allowed}
    word = f"policy:{session.policy.version}"
    return [_sent(item, word) if item.call and item.call.id in going else item for item in bound], rulings


def _new(bound: list[Bound]) -> list[tuple[NewCall, Tool]]:
    return [(item.call, item.tool) for item in bound if item.call is not None and item.tool is not None]


def _sent(item: Bound, word: str) -> Bound:
    call = replace(item.call, send=True, authorised_by=word) if item.call else None
    return replace(item, call=call)


def _kept_back(item: Bound) -> Bound:
    return replace(item, call=replace(item.call, send=False)) if item.call else item


def _sends(bound: list[Bound]) -> bool:
    return any(item.call is not None and item.call.send for item in bound)


def _next(session: Session, asked: Asked, bound: list[Bound], *, sends: bool) -> Snapshot:
    """The revision that follows the turn. `sends`: whether calls are sent with it."""
    phase, node = _leads_to(bound, sends=sends)
    barrier = tuple(item.call.id for item in bound if item.call)
    return session.next_snapshot(phase, node=node, turn_no=asked.turn_no, barrier=barrier)


def _leads_to(bound: list[Bound], *, sends: bool) -> tuple[Phase, str]:
    if not bound or bound[0].proposal.disposition == Disposition.FINISH:
        return Phase.READY_TO_VERIFY, "verify"
    if not any(item.call for item in bound):
        return Phase.READY_TO_DECIDE, "think"
    return (Phase.AWAITING_TOOL_RESULT, "act") if sends else (Phase.DECISION_RECORDED, "route")


def _params(
    session: Session, asked: Asked, turn: ModelTurn, answer: Asking, bound: list[Bound], rulings: Rulings
) -> dict[str, Any]:
    """Everything that the statement of a seal takes, but for a revision that is saved with it."""
    calls = [item.call for item in bound if item.call]
    purse = _purse(session, asked, model_used(session, turn, answer.took_ms), bound)
    return {
        "data_key": session.key_id,
        "ck_revision": session.position.revision,
        **fence_params(session.holding),
        **_turn_params(session, asked, turn, answer.body),
        **call_params(calls, [item.proposal for item in bound], key_id=session.key_id),
        **_policy_params(session, bound, rulings),
        **purse.params(),
    }


def _turn_params(session: Session, asked: Asked, turn: ModelTurn, body: bytes) -> dict[str, Any]:
    return {
        "turn_id": asked.id,
        "turn_no": asked.turn_no,
        "turn_attempt": asked.attempt,
        "turn_digest": digest(body),
        "turn_response_id": turn.response_id[:200],
        "turn_input": turn.input_tokens,
        "turn_output": turn.output_tokens,
        "kept_sha256": digest(body),
        "kept_size": len(body),
        "kept_body": sealed_body(key_id=session.key_id, plain=body),
    }


def _policy_params(session: Session, bound: list[Bound], rulings: Rulings) -> dict[str, Any]:
    rows = [
        {"id": str(new_id()), "call": str(item.call.id), "rule": rulings[item.call.id].rule}
        for item in bound
        if item.call and item.call.send
    ]
    policy = session.policy
    return {"policy_version": policy.version, "policy_number": policy.number, "policy": json.dumps(rows)}


def _purse(session: Session, asked: Asked, used: Amounts, bound: list[Bound]) -> Purse:
    purse = Purse().settle(asked.id, asked.attempt, model_reserve(session), used)
    for item in bound:
        if item.call and item.tool and item.call.send:
            purse.reserve(item.call.id, 1, tool_reserve(session, item.tool))
    return purse


def _remember(session: Session, asked: Asked, turn: ModelTurn, bound: list[Bound], *, started: bool) -> None:
    session.conversation.add_turn(asked.turn_no, turn.text, turn.proposals)
    for item in bound:
        _remember_proposal(session, asked.turn_no, item)
    if started:
        session.sends([_sending(item) for item in bound if item.call and item.call.send])


def _remember_proposal(session: Session, turn_no: int, item: Bound) -> None:
    proposal = item.proposal
    if proposal.disposition == Disposition.REFUSED:
        session.conversation.add_answer(
            turn_no, proposal.ordinal, proposal.tool, ok=False, value={"error": proposal.refusal}
        )
    elif proposal.disposition == Disposition.REUSED and proposal.call is not None and item.call is None:
        _remember_reused(session, turn_no, proposal.ordinal, proposal.tool, proposal.call)
    elif item.call is not None and item.tool is not None and item.args is not None:
        session.keys.ordinal = max(session.keys.ordinal, item.call.ordinal)
        session.keys.live[item.call.idempotency_key] = item.call.id
        session.asked_for(item.call.id, turn_no, proposal.ordinal)


def _sending(item: Bound) -> Sending:
    if item.call is None or item.tool is None or item.args is None:
        raise LookupError(f"{item.proposal.tool} is to be sent, but is not bound to a tool")
    return Sending(
        call_id=item.call.id,
        attempt=1,
        tool=item.tool,
        args=item.args,
        args_digest=item.call.args_digest,
        step_name=item.call.step_name,
        key=item.call.idempotency_key,
    )


def _remember_reused(session: Session, turn_no: int, ordinal: int, tool: str, call_id: UUID) -> None:
    """Answer from the stored result, or later together with the call of this turn that it repeats."""
    told = call_answer(call_now(id=call_id))
    if told is None:
        session.asked_for(call_id, turn_no, ordinal)
    else:
        session.conversation.add_answer(turn_no, ordinal, tool, ok=told[0], value=told[1])
