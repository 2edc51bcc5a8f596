"""What is open of a super-step: verdicts and closed calls are taken in, unknown outcomes go by effect class (T04)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from checkpoints.envelope import ResultRef, Snapshot
from checkpoints.services import SaveRefused, contract_now, head_lock, obligation_fulfil, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from receipts.selectors import (
    calls_of,
    doubt_answered,
    journal_entry,
    key_still_known,
    last_verdict,
    proved_result,
    seconds_under_way,
    seconds_until,
    tried_in_doubt,
    unsent_calls,
)
from receipts.services import (
    Against,
    VerdictGiven,
    call_doubt,
    call_fail,
    call_lock,
    contradiction_raise,
    verdict_store,
)
from receipts.states import CallStatus, EffectClass, EvidenceSource, FollowUp, Verdict
from runs.selectors import live_children
from runs.services import budget_settle_held
from runs.states import HoldReason, RefusalKind, RunStatus
from runtime import guards
from runtime.backoff import wait_for_retry
from runtime.contracts import Arguments, Tool, ToolOutcome
from runtime.ending import held_run, park
from runtime.facts import LAPSED, bound_tool, lapsed_under
from runtime.hosts import try_probe
from runtime.loop.dispatch import Going, dispatch_again, sending_of
from runtime.recovery import prior_result
from runtime.saving import record_refused_save
from runtime.session import Session, Settled

_OPEN = (CallStatus.RETRY_WAIT, CallStatus.UNCERTAIN)


def settle(session: Session) -> bool:
    """Go on with a super-step whose calls were all sent: close what can't be tried again, probe, send again side by
    side, hold for a person what only a person can say, and close the step when nothing is open.
    """
    open_calls = _open_calls(session)
    for call in open_calls:
        goes_on = _settle_one(session, call)
        if goes_on is not None:
            return goes_on
    waiting = {call.id: child for call in open_calls if (child := _live_child(session, call))}
    tried = [call for call in open_calls if call.id not in waiting]
    again = [Going(call, by) for call in tried if (by := _word_for_another_try(session, call))]
    if again:
        # Whoever sends it, and whatever has come between, it is not sent before the time that the other side asked for.
        early = seconds_until([going.call.retry_at for going in again if going.call.retry_at])
        return wait_for_retry(session, early) if early else dispatch_again(session, again)
    if tried:
        return _hold(session, tried)
    if waiting:
        return await_children(session, set(waiting.values()))
    return _close_step(session)


def _settle_one(session: Session, call: Any) -> bool | None:
    """Close, look up or doubt one call; whether this worker goes on then. None where that changes nothing of it."""
    if _given_up(session, call):
        return True
    look = _look(session, call)
    if look.early:
        return wait_for_retry(session, look.early)
    return True if _taken_in(session, call, look) or _window_over(session, call) else None


def _live_child(session: Session, call: Any) -> UUID | None:
    """The child run whose end a call waits for, while it lives."""
    if call.status != CallStatus.RETRY_WAIT:
        return None
    tool, args = bound_tool(session, call)
    child = tool.awaits(args)
    return child if child is not None and child in live_children(session.run.id) else None


def await_children(session: Session, children: Collection[UUID]) -> bool:
    """Give the run back until one of these children has ended. That is looked at again under the run's lock: a child ends in
    a transaction of its own, together with the wakeup of its parent, so either its end or its wakeup is seen (A-161).
    """
    park(
        session.holding,
        RunStatus.WAITING,
        cause="CHILD_LIVES",
        blocked=lambda: set(children) <= set(live_children(session.run.id)),
    )
    return False


def _open_calls(session: Session) -> list[Any]:
    """The calls of the step without a settled outcome, in order. What the others gave is taken from the store.

    A call that the run goes on without (PROCEED_UNKNOWN) is settled for the step; it has no result.
    """
    calls = calls_of(ids=list(session.snapshot.barrier))
    known = {ref.call for ref in session.snapshot.results}
    ordered = [calls[id] for id in session.snapshot.barrier if id not in known]
    for call in ordered:
        if hasattr(call, "result"):
            plain = proved_result(call.result)
            ref = ResultRef(
                call=call.id,
                step_name=call.step_name,
                key=call.idempotency_key,
                digest=call.result.digest,
                ok=call.result.ok,
            )
            session.settled[call.id] = Settled(ref, prior_result(call, plain))
    open_calls = [call for call in ordered if call.status in _OPEN and call.blocking]
    session.out = {call.id for call in open_calls}
    return open_calls


def _word_for_another_try(session: Session, call: Any) -> str | None:
    """On whose word a call may be sent again now, or None. READ_ONLY is repeated under the same id, IDEMPOTENT with the
    same key while its window lasts and the approval stands; whatever else has an unknown outcome is not repeated (T04).
    """
    if call.contradicted:
        return None
    if call.status == CallStatus.RETRY_WAIT:
        verdict = _verdict_on_newest_try(call)
        if verdict is not None and verdict.method == "HUMAN":
            return str(verdict.actor)
        return "probe" if verdict else "policy:retry"
    if call.effect_class == EffectClass.READ_ONLY:
        return "policy:read-only"
    if call.effect_class != EffectClass.IDEMPOTENT or _tried_often(session, call) or not _key_known(session, call):
        return None
    return None if guards.word(call) else "policy:idempotent"


def _verdict_on_newest_try(call: Any) -> Any:
    verdict = last_verdict(call)
    return verdict if verdict is not None and verdict.seen_attempts == call.attempts else None


def _tried_often(session: Session, call: Any) -> bool:
    return bool(call.attempts >= settings.MAX_ATTEMPTS + session.run.max_takeovers)


def _hold(session: Session, open_calls: Sequence[Any]) -> bool:
    ids = [call.id for call in open_calls]
    first = next((call for call in open_calls if call.contradicted), open_calls[0])
    park(
        session.holding,
        RunStatus.HELD,
        cause="UNCERTAIN_CALL",
        hold_reason=HoldReason.UNCERTAIN_CALL,
        detail=_why_held(session, first),
        blocked=lambda: any(_needs_a_person(call) for call in calls_of(ids=ids).values()),
        about=first.id,
    )
    return False


def _why_held(session: Session, call: Any) -> str:
    if call.contradicted:
        return f"Evidence speaks against what was said of {call.step_name}."
    why = f"Nobody knows whether {call.step_name} happened."
    if call.effect_class == EffectClass.IDEMPOTENT and not _key_known(session, call):
        return f"{why} The time in which its key may be sent again is over."
    failed = guards.word(call)
    return why if failed is None else f"{why} It is not sent again: {failed.why}."


def _needs_a_person(call: Any) -> bool:
    return _still_unknown(call) or bool(call.status == CallStatus.RETRY_WAIT and call.contradicted)


def _key_known(session: Session, call: Any) -> bool:
    """Whether the other side of an IDEMPOTENT call still tells a repetition by its key (T04)."""
    tool, _ = bound_tool(session, call)
    return key_still_known(call, window_seconds=tool.window_seconds, margin_seconds=tool.timeout_seconds)


def _window_over(session: Session, call: Any) -> bool:
    """Take back a retry that would come after its window, while an earlier try of it is in doubt. A person has to look."""
    if call.status != CallStatus.RETRY_WAIT or call.effect_class != EffectClass.IDEMPOTENT or _key_known(session, call):
        return False
    with held_run(session.holding):
        call_doubt(call_lock(call.id), why="its window was over before the next try")
    return True


def _still_unknown(call: Any) -> bool:
    return bool(call.status == CallStatus.UNCERTAIN and call.blocking)


def _given_up(session: Session, call: Any) -> bool:
    """Close a call that may not be tried again: read too often; or nobody's word stands for another try, or it rests on facts
    that lapsed (ruling 36). The model is told, and what it proposes then is asked anew. While an earlier try of it is in
    doubt, it is left to a person instead.
    """
    if call.status == CallStatus.UNCERTAIN:
        failed = _read_too_often(session, call)
    else:
        failed = guards.word(call) or _on_lapsed_facts(session, call)
    if failed is None:
        return False
    with held_run(session.holding):
        if call.effect_class != EffectClass.READ_ONLY and tried_in_doubt(call):
            call_doubt(call_lock(call.id), why=failed.why)
        else:
            call_fail(call, why=failed.why, attempt_no=call.attempts, fence=session.holding.fence)
    if failed.kind == RefusalKind.AUTHORITY:
        guards.record(session, failed)
    return True


def _read_too_often(session: Session, call: Any) -> guards.Failed | None:
    if call.effect_class != EffectClass.READ_ONLY or not _tried_often(session, call):
        return None
    return guards.Failed(RefusalKind.UNCERTAIN_CALL, f"no answer in {call.attempts} attempts", call.id)


def _on_lapsed_facts(session: Session, call: Any) -> guards.Failed | None:
    if call.effect_class == EffectClass.READ_ONLY or not lapsed_under(session, call):
        return None
    return guards.Failed(RefusalKind.STALE_FACTS, LAPSED, call.id)


@dataclass(frozen=True)
class _Look:
    """What was found under a key: an outcome, False for nothing, None where that can't be told. `how` says who was asked.

    `early`: the seconds for which nothing found proves nothing yet, since the request may still be carried out.
    """

    found: ToolOutcome | bool | None = None
    how: str = ""
    early: float = 0.0


def _look(session: Session, call: Any) -> _Look:
    """Look whether the key of a call was executed, before anything is sent again (A-106): in the effect journal, which alone
    answers for a call that only writes here; then on the other side, if it can be asked. A row of the journal means that
    nothing is sent again, even where the result beside it is gone (D-034).
    """
    if call.effect_class == EffectClass.READ_ONLY or not (_still_unknown(call) or _on_a_persons_word(call)):
        return _Look()
    entry = journal_entry(call)
    if entry is not None:
        value = {"kind": entry.kind, "target": entry.target}
        outcome = ToolOutcome(value, external_ref=entry.external_ref, target=entry.target)
        return _Look(outcome, "the effect journal has its row")
    tool, args = bound_tool(session, call)
    if tool.local:
        # The fence of this lease is newer than the attempt's, so nothing can still be written under it.
        return _Look(False, "the effect journal has no row of it")
    if call.effect_class != EffectClass.QUERYABLE:
        return _Look()
    return _look_outside(session, call, tool, args)


def _look_outside(session: Session, call: Any, tool: Tool, args: Arguments) -> _Look:
    session.heartbeat.allow(tool.timeout_seconds)
    early = seconds_under_way(call, limit=tool.timeout_seconds)  # before the look: what comes during it counts as well
    found = try_probe(tool, session.context(sending_of(call, tool, args, attempt=call.attempts)), args)
    if found is False:
        return _Look(found, "the probe did not find the key", early)
    return _Look(found, "the probe found the key" if found else "the probe can't tell")


def _taken_in(session: Session, call: Any, look: _Look) -> bool:
    """Store what a look found as the verdict. False where it tells nothing, or agrees with a person who has the call sent again.

    What a person said meanwhile stands: a finding against it raises a flag and flips nothing (T38).
    """
    if call.status == CallStatus.RETRY_WAIT:
        return isinstance(look.found, ToolOutcome) and _flagged(session, call, look)
    if look.found is None:
        return False
    given = _finding(look, last=call.attempts >= settings.MAX_ATTEMPTS)
    with held_run(session.holding) as (run, _):
        now = call_lock(call.id)
        if _still_unknown(now):
            verdict_store(now, given, fence=session.holding.fence)
            happened = given.verdict == Verdict.EXECUTED
            budget_settle_held(run_id=run.id, receipt_id=call.id, last_attempt=call.attempts, spent=happened)
    return True


def _on_a_persons_word(call: Any) -> bool:
    """Whether a call waits to be sent again because a person says that it did not happen, and no probe was told otherwise."""
    if call.status != CallStatus.RETRY_WAIT or call.contradicted or doubt_answered(call, EvidenceSource.PROBE):
        return False
    verdict = _verdict_on_newest_try(call)
    return bool(verdict is not None and verdict.method == "HUMAN")


def _flagged(session: Session, call: Any, look: _Look) -> bool:
    """Raise the flag that what a person says did not happen was found."""
    ref = look.found.external_ref if isinstance(look.found, ToolOutcome) else None
    against = Against(call.attempts, EvidenceSource.PROBE, Verdict.EXECUTED, look.how, ref, "probe")
    with held_run(session.holding):
        return contradiction_raise(call_lock(call.id), against) is not None


def _finding(look: _Look, *, last: bool) -> VerdictGiven:
    """A finding as a verdict. What did not happen is sent again, unless it was tried often enough."""
    if isinstance(look.found, ToolOutcome):
        ref, value = look.found.external_ref, look.found.value
        return VerdictGiven(Verdict.EXECUTED, FollowUp.NONE, "PROBE", look.how, ref, "probe", value)
    then = FollowUp.FAIL if last else FollowUp.RETRY
    return VerdictGiven(Verdict.NOT_EXECUTED, then, "PROBE", look.how, None, "probe")


def _close_step(session: Session) -> bool:
    """Nothing is open: one commit takes what the step gave into the head, verdicts and closed calls included.

    Where the snapshot is refused, what is stored stands, and the worker goes on from the draft as far as that may go (T11).
    """
    refs, prepared, refused = session.refs(), None, None
    with held_run(session.holding) as (run, _):
        head_lock(run.id)
        snapshot = _step_draft(session, run, refs)
        try:
            prepared = session.prepared(snapshot, Trigger.AFTER_EFFECT if refs else Trigger.CURSOR)
        except SaveRefused as error:
            if not refs:
                raise
            refused = error.outcome
        else:
            saved(snapshot_save(prepared, fence=session.holding.fence))
    session.step_closed()
    if refused is not None:
        record_refused_save(session.holding, refused)
        session.work_on(snapshot)
    elif prepared is not None:
        session.moved(snapshot, prepared.digest)
    session.reread()
    return True


def _step_draft(session: Session, run: Any, refs: Sequence[ResultRef]) -> Snapshot:
    """The revision that closes the step, with the promises that it keeps marked as kept in the caller's transaction."""
    for ref in refs:
        if ref.ok:
            obligation_fulfil(run_id=run.id, step_name=ref.step_name, call_id=ref.call)
    contract = session.snapshot.contract
    now = contract_now(run_id=run.id, goal=contract.goal, version=contract.version)
    if refs or unsent_calls(ids=session.snapshot.barrier):
        return session.next_snapshot(
            Phase.TOOL_RESULT_RECORDED, node="route", results=tuple(refs), contract=now, closes_step=True
        )
    return session.next_snapshot(Phase.READY_TO_DECIDE, node="think", barrier=(), contract=now, closes_step=True)
