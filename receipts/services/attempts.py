"""Writes of how an attempt ended where it brought no result."""

from datetime import timedelta
from uuid import UUID

from accounts.models import ClockTimestamp
from receipts.models import Attempt, ModelCall, Publication, ToolCall
from receipts.states import AttemptOutcome, CallStatus, ModelCallStatus, PublicationStatus


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
