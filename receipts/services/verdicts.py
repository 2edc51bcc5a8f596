"""Writes of verdicts with their facts."""

from dataclasses import dataclass
from typing import Any

from accounts.models import ClockTimestamp
from receipts.models import Effect, Publication, Reconciliation, ToolCall
from receipts.services.calls import call_doubt, result_store
from receipts.services.claims import claim_release
from receipts.states import CallStatus, EffectClass, FollowUp, PublicationStatus, ResultSource, Verdict


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
    result_store(
        call, source=ResultSource(given.method), ok=True, value=value, reconciliation=reconciliation, fence=fence
    )
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
    result_store(
        call, source=ResultSource(given.method), ok=False, value=value, reconciliation=reconciliation, fence=fence
    )
    _publication_move(call, PublicationStatus.FAILED, None)
    claim_release(call)


def _publication_move(call: ToolCall, to: PublicationStatus, external_ref: str | None) -> None:
    Publication.objects.filter(tool_call=call, status=PublicationStatus.UNCERTAIN).update(
        status=to, external_ref=external_ref, changed_at=ClockTimestamp()
    )


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
