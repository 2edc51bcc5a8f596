"""Unknown outcomes: what may be done by effect class, and how a verdict is adopted."""

from typing import Any

from django.conf import settings

from approvals.selectors import approval_lapsed
from checkpoints.envelope import ResultRef
from checkpoints.services import contract_now, head_lock, obligation_fulfil, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from receipts.selectors import call_now, calls_of, journal_entry, last_verdict, result_bytes
from receipts.services import VerdictGiven, call_fail, call_lock, calls_cancel, verdict_store
from receipts.states import CallStatus, EffectClass, FollowUp, Verdict
from runs.services import budget_settle_held
from runs.states import HoldReason, RunStatus
from runtime.contracts import ToolOutcome
from runtime.ending import held_run, park
from runtime.hosts import try_probe
from runtime.loop.dispatch import bound_tool, dispatch_again
from runtime.recovery import prior_result
from runtime.session import Sending, Session


def resume_call(session: Session) -> bool:
    """Settle the call that the head waits for: adopt its result, send it again, or hold for a person."""
    calls = calls_of(ids=list(session.snapshot.barrier))
    known = {ref.call for ref in session.snapshot.results}
    for call_id in session.snapshot.barrier:
        call = calls[call_id]
        if call.status in (CallStatus.SUCCEEDED, CallStatus.FAILED) and call.id not in known:
            return _adopt_result(session, call)
        if call.status == CallStatus.RETRY_WAIT:
            return _send_again(session, call)
        if call.status == CallStatus.UNCERTAIN:
            return after_unknown(session, call)
    raise LookupError(f"revision {session.snapshot.revision} waits for a result, but no call of it is open")


def after_unknown(session: Session, call: Any) -> bool:
    """READ_ONLY is repeated under the same id; IDEMPOTENT with the same key; QUERYABLE is probed; NON_IDEMPOTENT is
    never repeated without a person (T04).
    """
    if not call.blocking:
        return _go_on_unknown(session, call)
    if call.effect_class == EffectClass.NON_IDEMPOTENT:
        return _hold(session, call)
    if call.effect_class == EffectClass.QUERYABLE:
        return _probe(session, call)
    if call.attempts >= settings.MAX_ATTEMPTS + session.run.max_takeovers:
        return _give_up(session, call)
    by = "policy:read-only" if call.effect_class == EffectClass.READ_ONLY else "policy:idempotent"
    return dispatch_again(session, call, authorised_by=by)


def _hold(session: Session, call: Any) -> bool:
    park(
        session.holding,
        RunStatus.HELD,
        cause="UNCERTAIN_CALL",
        hold_reason=HoldReason.UNCERTAIN_CALL,
        detail=f"Nobody knows whether {call.step_name} happened.",
        blocked=lambda: _still_unknown(call),
    )
    return False


def _still_unknown(call: Any) -> bool:
    now = call_now(id=call.id)
    return bool(now.status == CallStatus.UNCERTAIN and now.blocking)


def _probe(session: Session, call: Any) -> bool:
    """Look whether the key was executed. The fence of this lease is newer than the attempt's, so nothing can still land.

    What a person said meanwhile stands.
    """
    tool, args = bound_tool(session, call)
    sending = Sending(
        call_id=call.id,
        attempt=call.attempts,
        tool=tool,
        args=args,
        args_digest=call.args_digest,
        step_name=call.step_name,
        key=call.idempotency_key,
    )
    session.heartbeat.allow(tool.timeout_seconds)
    found = _journaled(call) if tool.local else try_probe(tool, session.context(sending), args)
    if found is None:
        return _hold(session, call)
    given = _probed(found, last=call.attempts >= settings.MAX_ATTEMPTS)
    with held_run(session.holding) as (run, _):
        now = call_lock(call.id)
        if now.status == CallStatus.UNCERTAIN and now.blocking:
            verdict_store(now, given, fence=session.holding.fence)
            happened = given.verdict == Verdict.EXECUTED
            budget_settle_held(run_id=run.id, receipt_id=call.id, last_attempt=call.attempts, spent=happened)
    return resume_call(session)


def _journaled(call: Any) -> ToolOutcome | bool:
    """What the effect journal says of a call that only writes here: its row is committed with what it did, or not at all."""
    entry = journal_entry(call)
    if entry is None:
        return False
    return ToolOutcome(
        {"kind": entry.kind, "target": entry.target}, external_ref=entry.external_ref, target=entry.target
    )


def _probed(found: ToolOutcome | bool, *, last: bool) -> VerdictGiven:
    """A finding as a verdict. What did not happen is sent again, unless it was tried often enough."""
    if isinstance(found, ToolOutcome):
        return VerdictGiven(
            Verdict.EXECUTED,
            FollowUp.NONE,
            "PROBE",
            "the probe found the key",
            found.external_ref,
            "probe",
            found.value,
        )
    then = FollowUp.FAIL if last else FollowUp.RETRY
    return VerdictGiven(Verdict.NOT_EXECUTED, then, "PROBE", "the probe did not find the key", None, "probe")


def _send_again(session: Session, call: Any) -> bool:
    """Another attempt, on the word of whoever said that it did not happen; an approval must still be valid (ruling 36)."""
    verdict = last_verdict(call)
    if verdict is not None and verdict.seen_attempts != call.attempts:
        verdict = None  # it was said of an earlier attempt
    if verdict is not None and verdict.method == "HUMAN":
        return dispatch_again(session, call, authorised_by=verdict.actor)
    if approval_lapsed(call_id=call.id):
        return _close(session, call, "the approval lapsed before the next try")
    return dispatch_again(session, call, authorised_by="probe" if verdict else "policy:retry")


def _give_up(session: Session, call: Any) -> bool:
    if call.effect_class != EffectClass.READ_ONLY:
        return _hold(session, call)
    return _close(session, call, f"no answer in {call.attempts} attempts")


def _close(session: Session, call: Any, why: str) -> bool:
    with held_run(session.holding):
        call_fail(call, why=why, attempt_no=call.attempts, fence=session.holding.fence)
    return _adopt_result(session, call_now(id=call.id))


def _adopt_result(session: Session, call: Any) -> bool:
    """Take a result that was stored without the head into the snapshot: a verdict, a probe, or a closed call."""
    result = call.result
    plain = result_bytes(result)
    ref = ResultRef(
        call=call.id, step_name=call.step_name, key=call.idempotency_key, digest=result.digest, ok=result.ok
    )
    with held_run(session.holding) as (run, _):
        head_lock(run.id)
        if result.ok:
            obligation_fulfil(run_id=run.id, step_name=call.step_name, call_id=call.id)
        contract = session.snapshot.contract
        now = contract_now(run_id=run.id, goal=contract.goal, version=contract.version)
        snapshot = session.next_snapshot(Phase.TOOL_RESULT_RECORDED, node="route", result=ref, contract=now)
        prepared = session.prepared(snapshot, Trigger.AFTER_EFFECT)
        saved(snapshot_save(prepared, fence=session.holding.fence))
    session.moved(snapshot, prepared.digest)
    prior = prior_result(call, plain)
    session.results.append(prior)
    session.reread()
    return True


def _go_on_unknown(session: Session, call: Any) -> bool:
    """A person said to go on without knowing (PROCEED_UNKNOWN): the model is told, the call is never repeated."""
    with held_run(session.holding) as (run, _):
        head_lock(run.id)
        calls_cancel(run_id=run.id, why="an earlier call of this turn has an unknown outcome")
        snapshot = session.next_snapshot(Phase.READY_TO_DECIDE, node="think", barrier=())
        prepared = session.prepared(snapshot, Trigger.CURSOR)
        saved(snapshot_save(prepared, fence=session.holding.fence))
    session.moved(snapshot, prepared.digest)
    session.reread()
    return True
