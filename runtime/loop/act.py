"""Act: send the dispatched call, record what it gave, and treat an unknown outcome by its effect class (T04)."""

from typing import Any

from django.conf import settings
from django.db import transaction

from accounts.keys import new_id
from accounts.selectors import sealed_body
from checkpoints.envelope import Contract, ResultRef
from checkpoints.services import SaveRefused, conflict
from checkpoints.statements import save_params
from checkpoints.states import NotSaved, Phase, Trigger
from receipts.selectors import call_now, unsettled_calls
from receipts.services import attempt_find, attempt_lost, attempt_refused
from receipts.states import EffectClass
from runs.canonical import canonical, digest
from runs.errors import LeaseLost
from runs.faults import reach
from runs.leases import lease_lock
from runs.live import hint_changed
from runs.services import budget_hold_unknown, budget_release, refusal_record
from runs.statements import Purse, fence_params
from runs.states import RefusalKind
from runtime.contracts import PriorResult, ToolOutcome
from runtime.ending import held_run, stop
from runtime.hosts import Tried, try_tool
from runtime.loop.budget import MODEL_RESERVE, TOOL_RESERVE
from runtime.loop.local import store_rows, with_progress_checked, writes_rows
from runtime.loop.think import ask_params
from runtime.loop.unknown import after_unknown, resume_call
from runtime.saving import ReadAnew, record_refused_save
from runtime.session import Asked, Sending, Session
from runtime.statements import RECORD_ALONE, RECORD_RESULT, Written, write


def await_result(session: Session) -> bool:
    """Send what this worker dispatched; or, after a takeover, settle what the last holder sent."""
    if session.sending is None:
        return resume_call(session)
    sending, session.sending = session.sending, None
    tool = sending.tool.key
    reach("after_attempt_commit", tool)
    session.heartbeat.allow(sending.tool.timeout_seconds)
    session.heartbeat.prove_held()
    tried = try_tool(sending.tool, session.context(sending), sending.args)
    reach("after_tool", tool)
    if tried.unknown:
        return _unknown(session, sending, tried.unknown)
    if tried.retryable:
        return _again(session, sending, tried.retryable)
    return _record(session, sending, tried)


def _unknown(session: Session, sending: Sending, why: str) -> bool:
    """Nobody knows whether it happened: say so at once, then go by effect class."""
    with held_run(session.holding) as (run, _):
        attempt_lost(attempt_find(receipt_id=sending.call_id, attempt_no=sending.attempt), why=why)
        budget_hold_unknown(run_id=run.id, receipt_id=sending.call_id, attempt_no=sending.attempt)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    if session.heartbeat.stop_seen:
        stop(session.holding)
        return False
    return after_unknown(session, call_now(id=sending.call_id))


def _again(session: Session, sending: Sending, why: str) -> bool:
    """It was answered “not now”: the same logical call is tried later, or fails once it was tried often enough."""
    if sending.attempt >= settings.MAX_ATTEMPTS:
        return _record(session, sending, Tried(failed=f"{why} ({sending.attempt} attempts)"))
    delay = settings.RETRY_BASE_SECONDS * 2 ** (sending.attempt - 1)
    with held_run(session.holding) as (run, _):
        attempt_refused(attempt_find(receipt_id=sending.call_id, attempt_no=sending.attempt), why=why, retry_in=delay)
        budget_release(run_id=run.id, receipt_id=sending.call_id, attempt_no=sending.attempt)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    session.heartbeat.pause(delay)
    return True


def _record(session: Session, sending: Sending, tried: Tried) -> bool:
    """One commit: result, effect, obligation, snapshot and, if the turn is worked off, the next model request."""
    tried = with_progress_checked(session, tried)
    ok = tried.outcome is not None
    plain = tried.value if ok else canonical({"error": tried.failed})
    ref = ResultRef(call=sending.call_id, step_name=sending.step_name, key=sending.key, digest=digest(plain), ok=ok)
    contract = fulfilled(session.snapshot.contract, sending.step_name) if ok else session.snapshot.contract
    snapshot = session.next_snapshot(Phase.TOOL_RESULT_RECORDED, node="route", result=ref, contract=contract)
    try:
        prepared = session.prepared(snapshot, Trigger.AFTER_EFFECT, writes=[sending.call_id])
    except SaveRefused as refused:
        raise _record_alone(session, sending, tried, plain, refused.outcome) from refused
    value = _value_of(tried)
    session.answered(sending.call_id, sending.tool.key, ok=ok, value=value)
    last = not unsettled_calls(ids=snapshot.barrier, but=sending.call_id)
    ask = last and snapshot.turn_no < session.spec.turn_limit
    params = fence_params(session.holding) | save_params([prepared], key_id=session.key_id)
    params |= _result_params(session, sending, tried, plain)
    params |= ask_params(session, snapshot.turn_no + 1, revision=snapshot.revision) | {"ask": ask}
    purse = Purse().settle(sending.call_id, sending.attempt, TOOL_RESERVE, TOOL_RESERVE)
    if ask:
        purse.reserve(params["ask_id"], 1, MODEL_RESERVE)
    written = _commit_result(session, sending, tried.outcome, RECORD_RESULT, params | purse.params())
    if not written.done:
        raise _record_alone(session, sending, tried, plain, conflict(prepared))
    session.moved(snapshot, prepared.digest)
    session.results.append(PriorResult(sending.call_id, sending.tool.key, sending.step_name, ok, value))
    if not ok:
        session.keys.live.pop(sending.key, None)
    if written.started is not None:
        session.asked = Asked(params["ask_id"], snapshot.turn_no + 1, written.started)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    reach("after_result_commit", sending.tool.key)
    return _go_on(session, written)


def _go_on(session: Session, written: Written) -> bool:
    if written.stopping:
        stop(session.holding)
        return False
    return True


def _record_alone(session: Session, sending: Sending, tried: Tried, plain: bytes, refused: NotSaved) -> ReadAnew:
    """A known result outlives its snapshot (T11): commit receipt, effect, obligation and budget alone.

    The head stays; the next revision is derived from what is stored. Raises LeaseLost: then the result is only evidence.
    """
    params = fence_params(session.holding) | {"data_key": session.key_id}
    params |= _result_params(session, sending, tried, plain)
    purse = Purse().settle(sending.call_id, sending.attempt, TOOL_RESERVE, TOOL_RESERVE)
    _commit_result(session, sending, tried.outcome, RECORD_ALONE, params | purse.params())
    record_refused_save(session.holding, refused)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    return ReadAnew()


def _commit_result(
    session: Session, sending: Sending, outcome: ToolOutcome | None, statement: str, params: dict[str, Any]
) -> Written:
    """Write a result, if the fence is good and the head is the one that it continues. Raises LeaseLost."""
    with transaction.atomic():
        if outcome is not None and writes_rows(outcome) and lease_lock(session.holding) is not None:
            store_rows(session, sending, outcome)
        reach("inside_result_tx", sending.tool.key)
        written = write(statement, params)
        if not written.done:
            transaction.set_rollback(True)
    if not written.held:
        _refuse_late(session, sending, params["result_digest"])
        raise LeaseLost
    return written


def _refuse_late(session: Session, sending: Sending, result_digest: str) -> None:
    """A worker that lost its lease changes nothing; its answer is kept as evidence that was not accepted (T29)."""
    refusal_record(
        tenant_id=session.run.tenant_id,
        run_id=session.run.id,
        kind=RefusalKind.LATE_RESULT,
        fence=session.holding.fence,
        subject_id=sending.call_id,
        evidence_digest=result_digest,
        detail={"attempt": sending.attempt},
    )


def _value_of(tried: Tried) -> dict[str, Any]:
    return tried.outcome.value if tried.outcome is not None else {"error": tried.failed}


def fulfilled(contract: Contract, step_name: str) -> Contract:
    """The contract after the step that one of its obligations was waiting for."""
    promises = tuple(
        promise.model_copy(update={"status": "FULFILLED"})
        if promise.step_name == step_name and promise.status == "OPEN"
        else promise
        for promise in contract.obligations
    )
    return contract.model_copy(update={"obligations": promises})


def _result_params(session: Session, sending: Sending, tried: Tried, plain: bytes) -> dict[str, Any]:
    outcome = tried.outcome
    effect = outcome is not None and sending.tool.effect_class != EffectClass.READ_ONLY
    return {
        "call": sending.call_id,
        "call_attempt": sending.attempt,
        "call_step": sending.step_name,
        "call_status": "SUCCEEDED" if outcome else "FAILED",
        "call_error": outcome.remark if outcome else tried.failed,
        "call_external_ref": outcome.external_ref if outcome else None,
        "try_outcome": "OK" if outcome else "ERROR_FINAL",
        "result_ok": outcome is not None,
        "result_value": sealed_body(key_id=session.key_id, plain=plain),
        "result_digest": digest(plain),
        "effect_id": new_id(),
        "effect_known": effect,
        "effect_target": outcome.target if outcome else "",
        "effect_payload": sending.args_digest,
    }
