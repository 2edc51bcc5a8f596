"""Act: send the dispatched calls side by side, record what each gave, and close the super-step after the last one."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import connections, transaction
from django.db.utils import Error as DatabaseError

from accounts.keys import new_id
from accounts.selectors import sealed_body
from checkpoints.envelope import Contract, ResultRef, Snapshot
from checkpoints.services import SaveRefused, conflict
from checkpoints.statements import save_params
from checkpoints.states import NotSaved, Phase, Trigger
from receipts.selectors import call_now, unsent_calls
from receipts.services import attempt_find, attempt_lost, attempt_refused
from receipts.states import AttemptOutcome, CallStatus, EffectClass
from runs.canonical import canonical, digest
from runs.errors import LeaseLost, connection_lost
from runs.faults import reach
from runs.leases import lease_lock
from runs.live import hint_changed
from runs.services import budget_hold_unknown, budget_settle
from runs.statements import Purse, fence_params
from runtime.backoff import backoff, wait_for_retry
from runtime.children import with_child_checked
from runtime.contracts import PriorResult, Tool, ToolContext, ToolOutcome
from runtime.ending import held_run, stop
from runtime.hosts import Tried, try_tool
from runtime.loop.budget import model_reserve, time_used, tool_reserve, tool_used
from runtime.loop.late import refuse_late
from runtime.loop.local import store_rows, with_progress_checked, writes_rows
from runtime.loop.think import ask_params
from runtime.loop.unknown import settle
from runtime.saving import ReadAnew, record_refused_save
from runtime.session import Asked, Sending, Session, Settled
from runtime.statements import RECORD_ALONE, RECORD_READ, RECORD_RESULT, RECORD_TASK, Written, write

logger = logging.getLogger(__name__)


def await_result(session: Session) -> bool:
    """Send what this worker dispatched; or settle what is still open of the super-step."""
    if not session.sending:
        return settle(session)
    wave, session.sending = session.sending, []
    for sending in wave:
        reach("after_attempt_commit", sending.tool.key)
    session.heartbeat.allow(max(sending.tool.timeout_seconds for sending in wave))
    session.heartbeat.prove_held()
    session.sent |= {(sending.call_id, sending.attempt) for sending in wave}
    recorded = _record_all(session, wave)
    session.in_flight.clear()  # acknowledged: a stop's lost commit is told by the lease row (ruling 29)
    if recorded.stopping or session.heartbeat.stop_seen:
        stop(session.holding)
        return False
    return wait_for_retry(session, recorded.pause)


@dataclass
class _Recorded:
    """How the answers of a wave were recorded so far. `lost`: why nothing can be written any more; `anew`: the run has to
    be read anew once all are back; `pause`: for how many seconds the calls that were answered with “not now” have to wait.
    """

    stopping: bool = False
    pause: float = 0.0
    lost: Exception | None = None
    anew: ReadAnew | None = None


def _record_all(session: Session, wave: list[Sending]) -> _Recorded:
    """Record every answer as it comes. Returns whether a stop is in the way of what follows, and the wait before it.

    Once the lease is lost, the answers that still come are kept as evidence only; once the database has failed, they are
    kept in hand.
    """
    recorded = _Recorded()
    for sending, tried in _try_all(session, wave):
        session.in_hand[sending.call_id] = (sending, tried)
        reach("after_tool", sending.tool.key)
        if recorded.lost is None:
            _record_one(session, sending, tried, recorded)
        elif isinstance(recorded.lost, LeaseLost):
            refuse_late(session, sending, tried)
    failed = recorded.lost or recorded.anew
    if failed is not None:
        raise failed
    return recorded


def _record_one(session: Session, sending: Sending, tried: Tried, recorded: _Recorded) -> None:
    try:
        if tried.unknown:
            _unknown(session, sending, tried.unknown)
        elif _may_try_again(sending, tried):
            recorded.pause = max(recorded.pause, _again(session, sending, tried))
        else:
            recorded.stopping = _record(session, sending, tried)
        del session.in_hand[sending.call_id]
    except LeaseLost as error:
        if not tried.unknown and _may_try_again(sending, tried):
            refuse_late(session, sending, tried)  # a known outcome was kept where it could not be stored
        recorded.lost = error
    except ReadAnew as error:
        # What it gave is no part of what the others close the step with.
        session.settled.pop(sending.call_id, None)
        session.out.add(sending.call_id)
        recorded.anew = error
    except DatabaseError as error:
        recorded.lost = error


def _try_all(session: Session, wave: list[Sending]) -> Iterator[tuple[Sending, Tried]]:
    """Try every call once, and yield what each gave. What only touches this database goes in its order, in this thread."""
    contexts = {sending.call_id: session.context(sending) for sending in wave}
    here = [sending for sending in wave if sending.tool.local or len(wave) == 1]
    elsewhere = [sending for sending in wave if sending not in here]
    if not elsewhere:
        yield from ((sending, try_tool(sending.tool, contexts[sending.call_id], sending.args)) for sending in here)
        return
    with ThreadPoolExecutor(max_workers=len(elsewhere), thread_name_prefix="call") as pool:
        tries = {pool.submit(_try_elsewhere, sending, contexts[sending.call_id]): sending for sending in elsewhere}
        for sending in here:
            yield sending, try_tool(sending.tool, contexts[sending.call_id], sending.args)
        for done in as_completed(tries):
            yield tries[done], done.result()


def _try_elsewhere(sending: Sending, context: ToolContext) -> Tried:
    """One try in a thread of its own. A database session that the tool has opened there ends with it."""
    try:
        return try_tool(sending.tool, context, sending.args)
    finally:
        connections.close_all()


def _unknown(session: Session, sending: Sending, why: str) -> None:
    """Nobody knows whether it happened: say so at once. What may be done goes by effect class."""
    with held_run(session.holding) as (run, _):
        attempt_lost(attempt_find(receipt_id=sending.call_id, attempt_no=sending.attempt), why=why)
        budget_hold_unknown(run_id=run.id, receipt_id=sending.call_id, attempt_no=sending.attempt)
    session.trace("outcome_unknown", sending.call_id, attempt=sending.attempt)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)


def _may_try_again(sending: Sending, tried: Tried) -> bool:
    return bool(tried.retryable) and (tried.pending or sending.attempt < settings.MAX_ATTEMPTS)


def _again(session: Session, sending: Sending, tried: Tried) -> float:
    """It was answered “not now”: the same logical call is tried again after this many seconds."""
    delay = 0.0 if tried.pending else backoff(sending.attempt, asked=tried.retry_after)
    with held_run(session.holding) as (run, _):
        attempt = attempt_find(receipt_id=sending.call_id, attempt_no=sending.attempt)
        attempt_refused(attempt, why=tried.retryable, retry_in=delay)
        used = time_used(session, tried.took_ms)
        budget_settle(run_id=run.id, receipt_id=sending.call_id, attempt_no=sending.attempt, used=used)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    return delay


def _record(session: Session, sending: Sending, tried: Tried) -> bool:
    """Record a known outcome. Returns whether a stop is requested.

    The last one closes the super-step in the same commit; the others are written beside the head, which they do not move.
    """
    tried = _known(session, sending, tried)
    ok = tried.outcome is not None
    plain = _plain(tried)
    value = _value_of(tried)
    ref = ResultRef(call=sending.call_id, step_name=sending.step_name, key=sending.key, digest=digest(plain), ok=ok)
    session.settled[sending.call_id] = Settled(
        ref, PriorResult(sending.call_id, sending.tool.key, sending.step_name, ok, value)
    )
    session.out.discard(sending.call_id)
    session.answered(sending.call_id, sending.tool.key, ok=ok, value=value)
    if not ok:
        session.keys.live.pop(sending.key, None)
    written = _write_task(session, sending, tried) if session.out else _close_step(session, sending, tried)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    session.trace("result_recorded", sending.call_id, attempt=sending.attempt, ok=ok, digest=ref.digest)
    reach("after_result_commit", sending.tool.key)
    return written.stopping


def _known(session: Session, sending: Sending, tried: Tried) -> Tried:
    """What is recorded of an answer that settles its call."""
    tried = with_child_checked(session, with_progress_checked(session, tried))
    if not tried.retryable:
        return tried
    return replace(tried, retryable="", failed=f"{tried.retryable} ({sending.attempt} attempts)")


def _write_task(session: Session, sending: Sending, tried: Tried) -> Written:
    """One commit: result, effect and obligation, on the head as it is (F20)."""
    params = fence_params(session.holding) | _result_params(session, sending, tried)
    params |= {"base_revision": session.position.revision}
    return _commit_or_refuse(session, sending, tried, RECORD_TASK, params)


def _close_step(session: Session, sending: Sending, tried: Tried) -> Written:
    """One commit: result, effect, obligation, snapshot and, if the turn is worked off, the next model request."""
    refs = session.refs()
    contract = fulfilled(session.snapshot.contract, {ref.step_name for ref in refs if ref.ok})
    snapshot = session.next_snapshot(
        Phase.TOOL_RESULT_RECORDED, node="route", results=refs, contract=contract, closes_step=True
    )
    try:
        prepared = session.prepared(snapshot, Trigger.AFTER_EFFECT, writes=[sending.call_id])
    except SaveRefused as refused:
        return _close_unsaved(session, sending, tried, snapshot, refused.outcome)
    ask = not unsent_calls(ids=snapshot.barrier, but=sending.call_id) and session.may_ask(snapshot.turn_no + 1)
    params = fence_params(session.holding) | save_params(prepared, key_id=session.key_id)
    params |= _result_params(session, sending, tried)
    params |= ask_params(session, snapshot.turn_no + 1, revision=snapshot.revision) | {"ask": ask, "news": session.news}
    purse = _settled(session, sending, tried)
    if ask:
        purse.reserve(params["ask_id"], 1, model_reserve(session))
    statement = RECORD_READ if _only_reads(sending.tool) else RECORD_RESULT
    written = _commit_result(session, sending, tried, statement, params | purse.params())
    if not written.done:
        raise _record_alone(session, sending, tried, conflict(prepared))
    session.moved(snapshot, prepared.digest)
    session.step_closed()
    if written.started is not None:
        session.asked = Asked(params["ask_id"], snapshot.turn_no + 1, written.started)
    return written


def _record_alone(session: Session, sending: Sending, tried: Tried, refused: NotSaved) -> ReadAnew:
    """A known result outlives its snapshot (T11): commit receipt, effect, obligation and budget alone.

    The head stays; the next revision is derived from what is stored. Raises LeaseLost or, where the call is not open any
    more, ReadAnew: then the result is only evidence.
    """
    _commit_alone(session, sending, tried)
    record_refused_save(session.holding, refused)
    return ReadAnew()


def _close_unsaved(session: Session, sending: Sending, tried: Tried, draft: Snapshot, refused: NotSaved) -> Written:
    """The same where the snapshot is refused: the worker goes on from the draft, as far as that may go."""
    written = _commit_alone(session, sending, tried)
    record_refused_save(session.holding, refused)
    session.step_closed()
    session.work_on(draft)
    return written


def _commit_alone(session: Session, sending: Sending, tried: Tried) -> Written:
    params = fence_params(session.holding) | _result_params(session, sending, tried)
    written = _commit_or_refuse(session, sending, tried, RECORD_ALONE, params)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    return written


def _commit_or_refuse(
    session: Session, sending: Sending, tried: Tried, statement: str, params: dict[str, Any]
) -> Written:
    """Write a result that moves no head. Where its call was settled by somebody else meanwhile, it is kept as evidence,
    and the run is read anew: raises ReadAnew.
    """
    purse = _settled(session, sending, tried)
    written = _commit_result(session, sending, tried, statement, params | purse.params())
    if not written.done:
        refuse_late(session, sending, tried)
        raise ReadAnew
    return written


def record_in_hand(session: Session) -> None:
    """Store the answers that this worker holds and that are not stored, after the database has failed. Raises LeaseLost.

    Where the commit under way did land, the call is not open any more and nothing is written. An unknown outcome is
    settled with the attempts that nobody answered. An answer that the database refuses once more is kept as evidence.
    """
    for sending, tried in list(session.in_hand.values()):
        try:
            _record_held(session, sending, tried)
        except ReadAnew:
            pass  # its call was settled by somebody else; the answer is kept as evidence
        except DatabaseError as error:
            if connection_lost(error):
                raise
            logger.exception("run %s: an answer of call %s is refused again", session.run.id, sending.call_id)
            refuse_late(session, sending, tried)
        del session.in_hand[sending.call_id]


def _record_held(session: Session, sending: Sending, tried: Tried) -> None:
    if tried.unknown or call_now(id=sending.call_id).status != CallStatus.DISPATCHED:
        return
    if _may_try_again(sending, tried):
        _again(session, sending, tried)
    else:
        _commit_alone(session, sending, _known(session, sending, tried))


def _settled(session: Session, sending: Sending, tried: Tried) -> Purse:
    reserved = tool_reserve(session, sending.tool)
    return Purse().settle(sending.call_id, sending.attempt, reserved, tool_used(session, tried.took_ms))


def _commit_result(session: Session, sending: Sending, tried: Tried, statement: str, params: dict[str, Any]) -> Written:
    """Write a result, if the fence is good, its call is still open, and the head is the one that it continues: one
    statement, or one transaction where the tool has left rows of its own. Raises LeaseLost.
    """
    outcome = tried.outcome
    if outcome is not None and writes_rows(outcome):
        written = _commit_with_rows(session, sending, outcome, statement, params)
    else:
        reach("inside_result_tx", sending.tool.key)
        written = write(statement, params)
    if not written.held:
        refuse_late(session, sending, tried)
        raise LeaseLost
    return written


def _commit_with_rows(
    session: Session, sending: Sending, outcome: ToolOutcome, statement: str, params: dict[str, Any]
) -> Written:
    with transaction.atomic():
        if lease_lock(session.holding) is not None:
            store_rows(session, sending, outcome)
        reach("inside_result_tx", sending.tool.key)
        written = write(statement, params)
        if not written.done:
            transaction.set_rollback(True)
    return written


def _only_reads(tool: Tool) -> bool:
    return tool.effect_class == EffectClass.READ_ONLY and not tool.publishes


def _plain(tried: Tried) -> bytes:
    """The canonical bytes of a known outcome."""
    return tried.value if tried.outcome is not None else canonical(_value_of(tried))


def _value_of(tried: Tried) -> dict[str, Any]:
    return tried.outcome.value if tried.outcome is not None else {"error": tried.failed or tried.retryable}


def fulfilled(contract: Contract, step_names: set[str]) -> Contract:
    """The contract after the steps that its obligations were waiting for."""
    promises = tuple(
        promise.model_copy(update={"status": "FULFILLED"})
        if promise.step_name in step_names and promise.status == "OPEN"
        else promise
        for promise in contract.obligations
    )
    return contract.model_copy(update={"obligations": promises})


def _result_params(session: Session, sending: Sending, tried: Tried) -> dict[str, Any]:
    outcome: ToolOutcome | None = tried.outcome
    plain = _plain(tried)
    effect = outcome is not None and sending.tool.effect_class != EffectClass.READ_ONLY
    return {
        "call": sending.call_id,
        "call_attempt": sending.attempt,
        "call_step": sending.step_name,
        "call_status": "SUCCEEDED" if outcome else "FAILED",
        "call_error": outcome.remark if outcome else tried.failed,
        "call_external_ref": outcome.external_ref if outcome else None,
        "try_outcome": AttemptOutcome.OK if outcome else tried.final_as,
        "result_ok": outcome is not None,
        "result_value": sealed_body(key_id=session.key_id, plain=plain),
        "result_digest": digest(plain),
        "effect_id": new_id(),
        "effect_known": effect,
        "effect_target": outcome.target if outcome else "",
        "effect_payload": sending.args_digest,
        "data_key": session.key_id,
    }
