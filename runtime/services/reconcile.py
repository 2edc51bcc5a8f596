"""A person's verdict on a call of unknown outcome."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from approvals.selectors import two_have_to_say
from checkpoints.services import (
    head_lock,
    obligation_fulfil,
)
from receipts.errors import (
    AttemptsMoved,
    NotUncertain,
    RetryNeedsApprover,
    RetryOnEndedRun,
    VerdictGiven,
    YouGaveVerdict,
)
from receipts.selectors import (
    access_call,
    blocking_unknown,
    final_verdict,
    last_turn_sent,
    last_verdict,
    late_answers,
    open_word,
)
from receipts.services import VerdictGiven as GivenVerdict
from receipts.services import call_lock, contradiction_raise, verdict_store, word_close, word_store
from receipts.states import FollowUp, Verdict, WordClosing, can_reconcile
from runs.canonical import digest
from runs.faults import reach
from runs.leases import lease_lock_any, lease_tell
from runs.live import hint_changed
from runs.services import (
    budget_settle_held,
    message_append,
    parent_wake,
    run_lock,
    run_move,
)
from runs.states import (
    ENDED_RUN,
    HoldReason,
    RunStatus,
    WakeupCause,
)
from runs.wakeups import hint_run
from runtime.loop.late import against
from runtime.services.guards import (
    REASON_LIMIT,
    audit,
    audited,
    text_refusal,
    wake,
)


@dataclass(frozen=True)
class VerdictRequest:
    """What a person says about a call of unknown outcome, and on what evidence.

    `seen_attempts`, where it is given, is the attempt that the person was looking at: a later one needs another look.
    """

    verdict: Verdict
    evidence: str
    external_ref: str = ""
    follow_up: FollowUp = FollowUp.NONE
    seen_attempts: int | None = None


@dataclass(frozen=True)
class Reconciled:
    """The verdict and its facts are stored. `status` is what the call is now. `settled` is False where a second person has to say
    the same first: then the word is stored, and nothing else.
    """

    call_id: UUID
    verdict: str
    status: str
    settled: bool = True


def call_reconcile(*, actor: Actor, call_id: UUID, said: VerdictRequest) -> Reconciled | Refused:
    """Store a person's verdict on a call of unknown outcome, with its facts at once (ruling 28).

    Where the tenant, or the rule by which it was sent, wants two people to say the same of a call with an effect, the first one's word is stored and settles nothing; the
    second one's, if it is the same, is the verdict, and takes the first one's place where it is not. Going on without
    knowing takes one. Needs the permission to reconcile; a RETRY needs approver too (ruling 5). On an ended run the obligation is settled
    here as well and RETRY is refused. The run, if this call held it, is queued. Raises NotFound.
    """
    run_id = access_call(actor=actor, id=call_id).run_id
    with transaction.atomic():
        outcome = _reconcile(actor, run_id, call_id, said)
    if isinstance(outcome, Reconciled):
        reach("after_verdict_committed", str(said.verdict))
    return audited(outcome, actor, "call.reconcile", "call", call_id)


def _reconcile(actor: Actor, run_id: UUID, call_id: UUID, said: VerdictRequest) -> Reconciled | Refused:
    refused = _verdict_refusal(actor, said)
    if refused is not None:
        return refused
    lease_lock_any(run_id)
    run = run_lock(run_id)
    head_lock(run_id)
    call = call_lock(call_id)
    refused = _verdict_too_late(actor, call, run, said)
    if refused is not None:
        return refused
    given = GivenVerdict(
        said.verdict, said.follow_up, "HUMAN", said.evidence.strip(), said.external_ref.strip() or None, actor.label
    )
    first = open_word(call)
    if said.verdict != Verdict.PROCEED_UNKNOWN and two_have_to_say(call) and not _said_before(first, given):
        return _first_word(actor, call, given, first)
    row = verdict_store(call, given)
    if said.verdict != Verdict.PROCEED_UNKNOWN:
        agreed = _said_before(first, given)
        word_close(call, WordClosing.CONFIRMED if agreed else WordClosing.MOOT, by=row if agreed else None)
    if said.verdict != Verdict.PROCEED_UNKNOWN:
        happened = said.verdict == Verdict.EXECUTED
        budget_settle_held(run_id=run_id, receipt_id=call_id, last_attempt=call.attempts, spent=happened)
        if run.status in ENDED_RUN:
            parent_wake(run, f"child:{run_id}:{row.id}")
    # A later verdict on a call that the run went on without moves no head, so its obligation is settled here (ruling 33).
    if said.verdict == Verdict.EXECUTED and (run.status in ENDED_RUN or not call.blocking):
        obligation_fulfil(run_id=run_id, step_name=call.step_name, call_id=call_id)
    if said.verdict != Verdict.PROCEED_UNKNOWN and not call.blocking and run.status not in ENDED_RUN:
        _tell(run, call, given)
    _flag_late_answers(call)
    wake_reconciled(run, f"recon:{call_id}:{row.id}", actor=row.actor)
    audit(actor, "call.reconcile", "call", call_id, _verdict_detail(said, run_id, call.attempts))
    call.refresh_from_db(fields=["status"])
    return Reconciled(call_id, str(said.verdict), str(call.status))


def _said_before(first: Any, given: GivenVerdict) -> bool:
    """Whether another person has said the same of this attempt."""
    same = first is not None and (first.verdict, first.follow_up) == (given.verdict, given.follow_up)
    return bool(same and first.actor != given.actor)


def _first_word(actor: Actor, call: Any, given: GivenVerdict, before: Any) -> Reconciled:
    """Store what a first person says. It takes the place of their own word before, or of another one's that says otherwise."""
    if before is not None:
        word_close(call, WordClosing.REPLACED if before.actor == given.actor else WordClosing.DISAGREED)
    word = word_store(call, given)
    hint_changed(tenant_id=call.tenant_id, run_id=call.run_id)
    about = {"word": str(word.id), "verdict": str(given.verdict), "then": str(given.follow_up)}
    audit(actor, "call.first_word", "call", call.id, about | {"seen_attempts": call.attempts})
    return Reconciled(call.id, str(given.verdict), str(call.status), settled=False)


def _tell(run: Any, call: Any, given: GivenVerdict) -> None:
    """The model hears of a late verdict in its next request, by a notice; the old answer stays (ruling 33)."""
    happened = "it happened" if given.verdict == Verdict.EXECUTED else "it did not happen"
    where = f" (external reference {given.external_ref})" if given.external_ref else ""
    text = f"A person looked at {call.step_name}, whose outcome nobody knew: {happened}{where}."
    message_append(
        run=run, role="notice", text=text, after_turn=max(run.inherited_turns, last_turn_sent(run_id=run.id))
    )
    lease_tell(run.id)


def _verdict_detail(said: VerdictRequest, run_id: UUID, attempts: int) -> dict[str, Any]:
    return {
        "verdict": str(said.verdict),
        "then": str(said.follow_up),
        "evidence_digest": digest(said.evidence.strip().encode()),
        "run": str(run_id),
        "seen_attempts": attempts,
    }


def _flag_late_answers(call: Any) -> None:
    """A verdict against an answer that came late is stored, and flagged: its retry waits until a person has looked (T38)."""
    for row in late_answers(call):
        if "outcome" in row.detail:
            contradiction_raise(call, against(row.detail["attempt"], row.detail, str(row.fence)))


def wake_reconciled(run: Any, dedupe_key: str, *, actor: str) -> None:
    """Write the wakeup of a run after an act on one of its calls; queue the run if no call keeps it held any more."""
    if run.status in ENDED_RUN:
        hint_changed(tenant_id=run.tenant_id, run_id=run.id)
        return
    wake(run, WakeupCause.RECONCILED, dedupe_key)
    held_by_call = run.status == RunStatus.HELD and run.hold_reason == HoldReason.UNCERTAIN_CALL
    if held_by_call and blocking_unknown(run_id=run.id) is None:
        run_move(run, RunStatus.QUEUED, cause="RECONCILED", actor=actor)
        hint_run(run_id=run.id)


def _verdict_refusal(actor: Actor, said: VerdictRequest) -> Refused | None:
    if not actor.may(Permission.RECONCILE):
        return NotAllowed({"permission": "reconcile", "actor": actor.name})
    refused = text_refusal("evidence", said.evidence, REASON_LIMIT, needed=True)
    refused = refused or text_refusal("external_ref", said.external_ref, 500, one_line=True)
    if refused is not None:
        return refused
    not_executed = said.verdict == Verdict.NOT_EXECUTED
    if not_executed == (said.follow_up == FollowUp.NONE):
        why = "NOT_EXECUTED needs RETRY or FAIL." if not_executed else "only NOT_EXECUTED takes a follow-up."
        return Invalid({"field": "then", "reason": why})
    if said.follow_up == FollowUp.RETRY and not actor.may(Permission.DECIDE):
        return RetryNeedsApprover()
    return None


def _verdict_too_late(actor: Actor, call: Any, run: Any, said: VerdictRequest) -> Refused | None:
    before = final_verdict(call) or last_verdict(call)
    if before is not None and before.seen_attempts != call.attempts:
        before = None  # it was said of an earlier attempt
    final = before is not None and before.verdict != Verdict.PROCEED_UNKNOWN
    if before is not None and (final or not can_reconcile(call.status) or before.verdict == said.verdict):
        by = before.actor.partition(":")[2]
        kind = YouGaveVerdict if before.actor == actor.label else VerdictGiven
        return kind({"by": by, "verdict": before.verdict, "at": f"{before.at:%Y-%m-%d %H:%M:%S} UTC"})
    if not can_reconcile(call.status):
        return NotUncertain({"status": call.status})
    if said.seen_attempts not in (None, call.attempts):
        return AttemptsMoved({"seen": said.seen_attempts, "attempts": call.attempts})
    if said.follow_up == FollowUp.RETRY and (run.status in ENDED_RUN or not call.blocking):
        return RetryOnEndedRun()
    return None
