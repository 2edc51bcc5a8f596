"""Writes of what happened, outside the hot path: unknown outcomes, verdicts, reports, publications, cancellations.

Every function runs in the caller's transaction, with the lease and the run already locked.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Max

from accounts.models import ClockTimestamp
from accounts.selectors import current_data_key, sealed_body
from receipts.models import (
    Attempt,
    Claim,
    Contradiction,
    Effect,
    ModelCall,
    Publication,
    Reconciliation,
    Report,
    ReportVersion,
    Result,
    SecondEffect,
    ToolCall,
)
from receipts.selectors import accepted_outcome, result_bytes
from receipts.states import (
    UNSENT_CALL,
    AttemptOutcome,
    CallStatus,
    Closing,
    EffectClass,
    EvidenceSource,
    FollowUp,
    ModelCallStatus,
    PublicationStatus,
    ResultSource,
    Verdict,
)
from runs.canonical import canonical, digest, parse
from runs.services import artifact_store

_CLAIM_TRIES = 5  # a rival may give its claim up between the try and the look


def attempt_lost(attempt: Attempt, *, why: str) -> None:
    """Settle an attempt that gave no answer: NO_RESPONSE, and its receipt UNCERTAIN. Its budget stays held."""
    Attempt.objects.filter(id=attempt.id, outcome=None).update(
        outcome=AttemptOutcome.NO_RESPONSE, finished_at=ClockTimestamp(), error=why
    )
    if attempt.tool_call_id is not None:
        ToolCall.objects.filter(id=attempt.tool_call_id, status=CallStatus.DISPATCHED).update(
            status=CallStatus.UNCERTAIN
        )
        Publication.objects.filter(tool_call_id=attempt.tool_call_id, status=PublicationStatus.DISPATCHED).update(
            status=PublicationStatus.UNCERTAIN, changed_at=ClockTimestamp()
        )
    elif attempt.model_call_id is not None:
        ModelCall.objects.filter(id=attempt.model_call_id, status=ModelCallStatus.DISPATCHED).update(
            status=ModelCallStatus.UNCERTAIN
        )


def receipt_of(attempt: Attempt) -> UUID:
    """The tool call or model call that an attempt belongs to."""
    receipt = attempt.tool_call_id or attempt.model_call_id
    if receipt is None:
        raise LookupError(f"attempt {attempt.id} belongs to no receipt")
    return receipt


def attempt_find(*, receipt_id: UUID, attempt_no: int) -> Attempt:
    """One attempt of a tool call or a model call."""
    tool = Attempt.objects.filter(tool_call_id=receipt_id, attempt_no=attempt_no)
    return tool.first() or Attempt.objects.get(model_call_id=receipt_id, attempt_no=attempt_no)


def attempt_refused(
    attempt: Attempt, *, why: str, retry_in: float, outcome: AttemptOutcome = AttemptOutcome.ERROR_RETRYABLE
) -> None:
    """Settle an attempt that was answered “not now” or “not so long”: the same logical call waits for its next try."""
    Attempt.objects.filter(id=attempt.id, outcome=None).update(outcome=outcome, finished_at=ClockTimestamp(), error=why)
    retry_at = ClockTimestamp() + timedelta(seconds=retry_in)
    if attempt.tool_call_id is not None:
        ToolCall.objects.filter(id=attempt.tool_call_id, status=CallStatus.DISPATCHED).update(
            status=CallStatus.RETRY_WAIT, retry_at=retry_at
        )
    elif attempt.model_call_id is not None:
        ModelCall.objects.filter(id=attempt.model_call_id, status=ModelCallStatus.DISPATCHED).update(
            status=ModelCallStatus.RETRY_WAIT, retry_at=retry_at
        )


def model_call_failed(model_call_id: UUID, *, attempt_no: int, why: str, outcome: AttemptOutcome) -> None:
    """Settle a model call that the provider refused for good: ERROR_FINAL, ERROR_REFUSED or CONTEXT_OVERFLOW."""
    Attempt.objects.filter(model_call_id=model_call_id, attempt_no=attempt_no, outcome=None).update(
        outcome=outcome, finished_at=ClockTimestamp(), error=why
    )
    ModelCall.objects.filter(id=model_call_id).exclude(status=ModelCallStatus.FAILED).update(
        status=ModelCallStatus.FAILED, retry_at=None
    )


def call_fail(call: ToolCall, *, why: str, attempt_no: int, fence: int) -> None:
    """Close a call that was tried often enough, or whose approval lapsed: FAILED, with a result that says so."""
    ToolCall.objects.filter(id=call.id).update(status=CallStatus.FAILED, error=why, retry_at=None)
    _result(call, source=ResultSource.LIVE, ok=False, value={"error": why}, attempt_no=attempt_no, fence=fence)
    Publication.objects.filter(tool_call=call).exclude(status=PublicationStatus.FAILED).update(
        status=PublicationStatus.FAILED, changed_at=ClockTimestamp()
    )
    claim_release(call)


def call_refuse(call: ToolCall, *, to: CallStatus, why: str) -> None:
    """Close a call that did not happen: DENIED by policy, REJECTED by a person or by time, or CANCELLED.

    It was never sent, or each time it was sent it is known not to have happened.
    """
    ToolCall.objects.filter(id=call.id).update(status=to, error=why, retry_at=None)
    Publication.objects.filter(tool_call=call).exclude(status=PublicationStatus.FAILED).update(
        status=PublicationStatus.FAILED, changed_at=ClockTimestamp()
    )
    claim_release(call)


def calls_cancel(*, run_id: UUID, why: str) -> int:
    """Cancel every call of a run that was not sent. Calls of unknown outcome stay as they are."""
    unsent = list(ToolCall.objects.filter(run_id=run_id, status__in=UNSENT_CALL))
    for call in unsent:
        call_refuse(call, to=CallStatus.CANCELLED, why=why)
    ModelCall.objects.filter(run_id=run_id, status__in=["UNCERTAIN", "RETRY_WAIT"]).update(
        status=ModelCallStatus.CANCELLED, retry_at=None
    )
    return len(unsent)


def unknown_reads_release(*, run_id: UUID) -> None:
    """A READ_ONLY call of unknown outcome does not block anybody once its run has ended (ruling 36)."""
    ToolCall.objects.filter(run_id=run_id, status=CallStatus.UNCERTAIN, effect_class="READ_ONLY").update(blocking=False)


def claim_take(call: ToolCall, *, lineage_id: UUID) -> UUID | None:
    """Claim the call's intent for its lineage, once while it is live (ruling 25). None when this call has the claim, or the
    call of the lineage that has it instead.

    A rival that is claiming it at the same time is waited for: only its commit or its rollback decides. Several claims of
    one transaction are taken in the order of their intent keys, so that two runs never wait for each other.
    """
    claim = Claim(tenant_id=call.tenant_id, lineage_id=lineage_id, intent_key=call.intent_key, tool_call=call)
    live = Claim.objects.filter(
        tenant_id=call.tenant_id, lineage_id=lineage_id, intent_key=call.intent_key, released_at=None
    )
    for _ in range(_CLAIM_TRIES):
        Claim.objects.bulk_create([claim], ignore_conflicts=True)
        holder: UUID | None = live.values_list("tool_call_id", flat=True).first()
        if holder is not None:
            return None if holder == call.id else holder
    raise RuntimeError(f"the claim of call {call.id} was released")


def second_effect_of(call: ToolCall, *, lineage_id: UUID) -> SecondEffect | None:
    """The leave that a person has given for another effect of a call's intent, or None."""
    return SecondEffect.objects.filter(
        tenant_id=call.tenant_id, lineage_id=lineage_id, intent_key=call.intent_key
    ).first()


def second_effect_grant(call: ToolCall, *, lineage_id: UUID, actor: str, reason: str) -> None:
    """Give leave for another effect of a call's intent, once, with the call locked."""
    SecondEffect.objects.create(
        tenant_id=call.tenant_id,
        lineage_id=lineage_id,
        intent_key=call.intent_key,
        tool_call=call,
        granted_by=actor,
        reason=reason,
    )


def call_reuse(call: ToolCall, other: ToolCall) -> Result:
    """Answer a call that was never sent from the stored result of another call with the same intent (T07)."""
    ToolCall.objects.filter(id=call.id, status=CallStatus.PROPOSED).update(
        status=CallStatus.SUCCEEDED, external_ref=other.external_ref
    )
    found = Result.objects.get(tool_call=other)
    return _result(call, source=ResultSource.REUSED, ok=found.ok, value=parse(result_bytes(found)))


def claim_release(call: ToolCall) -> None:
    """Give up a claim of a call that is known not to have happened."""
    Claim.objects.filter(tool_call=call, released_at=None).update(released_at=ClockTimestamp())


@dataclass(frozen=True)
class VerdictGiven:
    """What a person or a probe says about a call of unknown outcome."""

    verdict: Verdict
    follow_up: FollowUp
    method: str
    evidence: str
    external_ref: str | None
    actor: str
    value: dict[str, Any] | None = None


def verdict_store(call: ToolCall, given: VerdictGiven, *, fence: int | None = None) -> Reconciliation:
    """Write a verdict and its facts at once (ruling 28): receipt, result, effect, publication. Not the head.

    The call must be locked and UNCERTAIN. The database refuses a second final verdict for the same attempts.
    """
    reconciliation = Reconciliation.objects.create(
        tool_call=call,
        verdict=given.verdict,
        follow_up=given.follow_up,
        method=given.method,
        seen_attempts=call.attempts,
        evidence=given.evidence,
        external_ref=given.external_ref,
        actor=given.actor,
    )
    if given.verdict == Verdict.EXECUTED:
        _executed(call, given, reconciliation, fence)
    elif given.verdict == Verdict.NOT_EXECUTED and given.follow_up == FollowUp.FAIL:
        _not_executed(call, given, reconciliation, fence)
    elif given.verdict == Verdict.NOT_EXECUTED:
        ToolCall.objects.filter(id=call.id).update(status=CallStatus.RETRY_WAIT, retry_at=ClockTimestamp())
    else:
        ToolCall.objects.filter(id=call.id).update(blocking=False)
    return reconciliation


def _executed(call: ToolCall, given: VerdictGiven, reconciliation: Reconciliation, fence: int | None) -> None:
    ToolCall.objects.filter(id=call.id).update(status=CallStatus.SUCCEEDED, external_ref=given.external_ref)
    value = given.value or {"asserted_by": given.actor, "external_ref": given.external_ref}
    _result(call, source=ResultSource(given.method), ok=True, value=value, reconciliation=reconciliation, fence=fence)
    if call.effect_class != EffectClass.READ_ONLY:
        _effect(call, given)
    _publication_move(call, PublicationStatus.PUBLISHED, given.external_ref)


def _effect(call: ToolCall, given: VerdictGiven) -> None:
    Effect.objects.get_or_create(
        idempotency_key=call.idempotency_key,
        defaults={
            "tenant_id": call.tenant_id,
            "run_id": call.run_id,
            "tool_call": call,
            "kind": call.tool,
            "target": "outside",
            "external_ref": given.external_ref,
            "payload_digest": call.args_digest,
        },
    )


def _not_executed(call: ToolCall, given: VerdictGiven, reconciliation: Reconciliation, fence: int | None) -> None:
    ToolCall.objects.filter(id=call.id).update(status=CallStatus.FAILED, error="did not happen")
    value = {"error": "did not happen", "asserted_by": given.actor}
    _result(call, source=ResultSource(given.method), ok=False, value=value, reconciliation=reconciliation, fence=fence)
    _publication_move(call, PublicationStatus.FAILED, None)
    claim_release(call)


def _publication_move(call: ToolCall, to: PublicationStatus, external_ref: str | None) -> None:
    Publication.objects.filter(tool_call=call, status=PublicationStatus.UNCERTAIN).update(
        status=to, external_ref=external_ref, changed_at=ClockTimestamp()
    )


def _result(
    call: ToolCall,
    *,
    source: ResultSource,
    ok: bool,
    value: dict[str, Any],
    attempt_no: int | None = None,
    reconciliation: Reconciliation | None = None,
    fence: int | None = None,
) -> Result:
    plain = canonical(value)
    key_id = current_data_key(call.tenant_id)
    return Result.objects.create(
        tool_call=call,
        source=source,
        ok=ok,
        attempt_no=attempt_no,
        value=sealed_body(key_id=key_id, plain=plain),
        data_key_id=key_id,
        digest=digest(plain),
        reconciliation=reconciliation,
        fence=fence,
    )


@dataclass(frozen=True)
class ReportText:
    """A report version before it is stored."""

    slug: str
    title: str
    body: str
    source_calls: tuple[UUID, ...]


def report_version_store(
    call: ToolCall, text: ReportText, *, thread_id: UUID, fence: int, channel: str
) -> ReportVersion:
    """Store the next version of a report, and its publication: on the console at once, elsewhere only requested."""
    report, _ = Report.objects.get_or_create(tenant_id=call.tenant_id, thread_id=thread_id, slug=text.slug)
    Report.objects.select_for_update(no_key=True).get(id=report.id)
    last = report.versions.aggregate(last=Max("version_no"))["last"] or 0
    version = ReportVersion.objects.create(
        tenant_id=call.tenant_id,
        report=report,
        version_no=last + 1,
        run_id=call.run_id,
        tool_call=call,
        title=text.title,
        sha256=artifact_store(tenant_id=call.tenant_id, data=text.body.encode(), media_type="text/markdown"),
        source_calls=list(text.source_calls),
        fence=fence,
    )
    console = channel == "console"
    Publication.objects.create(
        tenant_id=call.tenant_id,
        report_version=version,
        channel=channel,
        tool_call=None if console else call,
        status=PublicationStatus.PUBLISHED if console else PublicationStatus.REQUESTED,
    )
    return version


def publication_exists(call: ToolCall) -> bool:
    """True once the report version that a call would publish has been stored."""
    return Publication.objects.filter(tool_call=call).exists()


def call_await_approval(call: ToolCall) -> None:
    """Mark a call as waiting for a decision."""
    ToolCall.objects.filter(id=call.id, status=CallStatus.PROPOSED).update(status=CallStatus.AWAITING_APPROVAL)


def call_lock(id: UUID) -> ToolCall:
    """Lock a call, after lease, run, head and obligation (ruling 37)."""
    return ToolCall.objects.select_for_update(no_key=True).get(id=id)


@dataclass(frozen=True)
class Against:
    """Something that speaks of one attempt of a call: whether it happened, and how one knows."""

    attempt_no: int
    source: EvidenceSource
    says: Verdict
    evidence: str
    external_ref: str | None
    raised_by: str


def contradiction_raise(call: ToolCall, against: Against) -> Contradiction | None:
    """Raise a flag where evidence speaks against what was accepted (T38). The call must be locked.

    It flips nothing. While it is open, the call is not sent again: DISPATCH asks for it on the call's own row. Returns
    None where nothing is contradicted or where the same source has an open flag already.
    """
    accepted = accepted_outcome(call, against.attempt_no)
    if accepted is None or accepted == against.says:
        return None
    same = Contradiction.objects.filter(tool_call=call, attempt_no=against.attempt_no, source=against.source)
    if same.filter(closed_at=None).exists():
        return None
    ToolCall.objects.filter(id=call.id).update(contradicted=True)
    return Contradiction.objects.create(tenant_id=call.tenant_id, tool_call=call, accepted=accepted, **vars(against))


def contradiction_close(flag: Contradiction, *, closing: Closing, reason: str, actor: str) -> None:
    """Close a flag on a person's word. The call, which must be locked, may be sent again once no flag of it is open."""
    Contradiction.objects.filter(id=flag.id, closed_at=None).update(
        closing=closing, closing_reason=reason, closed_by=actor, closed_at=ClockTimestamp()
    )
    if not Contradiction.objects.filter(tool_call_id=flag.tool_call_id, closed_at=None).exists():
        ToolCall.objects.filter(id=flag.tool_call_id).update(contradicted=False)


def call_give_up(call: ToolCall, *, why: str, actor: str, reason: str) -> None:
    """A person has a retry not sent after all: the outcome counts as unknown, and the run goes on without it.

    The verdict before stays as it was given. The call must be locked and RETRY_WAIT.
    """
    call_doubt(call, why=why)
    ToolCall.objects.filter(id=call.id).update(blocking=False)
    Reconciliation.objects.create(
        tool_call=call,
        verdict=Verdict.PROCEED_UNKNOWN,
        follow_up=FollowUp.NONE,
        method="HUMAN",
        seen_attempts=call.attempts,
        evidence=reason,
        actor=actor,
    )


def call_doubt(call: ToolCall, *, why: str) -> None:
    """A call that waited for its next try may not be tried without a person after all: its outcome counts as unknown."""
    ToolCall.objects.filter(id=call.id, status=CallStatus.RETRY_WAIT).update(
        status=CallStatus.UNCERTAIN, retry_at=None, error=why
    )
    Publication.objects.filter(tool_call=call, status=PublicationStatus.DISPATCHED).update(
        status=PublicationStatus.UNCERTAIN, changed_at=ClockTimestamp()
    )
