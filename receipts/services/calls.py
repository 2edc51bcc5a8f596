"""Writes of calls that are closed, doubted or answered without being sent."""

from typing import Any
from uuid import UUID

from accounts.models import ClockTimestamp
from accounts.selectors import current_data_key, sealed_body
from accounts.statements import fetch
from receipts.models import ModelCall, Publication, Reconciliation, Result, ToolCall
from receipts.selectors import proved_result
from receipts.services.claims import claim_release
from receipts.statements import RELEASE_READS, NewCall
from receipts.states import UNSENT_CALL, CallStatus, ModelCallStatus, PublicationStatus, ResultSource
from runs.canonical import canonical, digest, parse


def call_fail(call: ToolCall, *, why: str, attempt_no: int, fence: int) -> None:
    """Close a call that was tried often enough, or whose approval lapsed: FAILED, with a result that says so."""
    ToolCall.objects.filter(id=call.id).update(status=CallStatus.FAILED, error=why, retry_at=None)
    result_store(call, source=ResultSource.LIVE, ok=False, value={"error": why}, attempt_no=attempt_no, fence=fence)
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


def call_author(new: NewCall, *, instead_of: ToolCall, author: str, revision: int) -> ToolCall:
    """Record the call that a person wrote in the place of one that they rejected, PROPOSED like a model's (T42).

    The rejected call is locked. The database lets a key be live once.
    """
    key_id = current_data_key(instead_of.tenant_id)
    return ToolCall.objects.create(
        id=new.id,
        tenant_id=instead_of.tenant_id,
        run_id=instead_of.run_id,
        ordinal=new.ordinal,
        tool=new.tool,
        tool_version=new.tool_version,
        tool_hash=new.tool_hash,
        effect_class=new.effect_class,
        proposed_by="HUMAN",
        author=author,
        instead_of_id=instead_of.instead_of_id or instead_of.id,
        step_name=new.step_name,
        args_digest=new.args_digest,
        args=sealed_body(key_id=key_id, plain=new.args),
        data_key_id=key_id,
        idempotency_key=new.idempotency_key,
        intent_key=new.intent_key,
        proposed_revision=revision,
        turn_no=instead_of.turn_no,
    )


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
    fetch(RELEASE_READS, {"run": run_id})


def call_reuse(call: ToolCall, other: ToolCall) -> Result:
    """Answer a call that was never sent from the stored result of another call with the same intent (T07)."""
    ToolCall.objects.filter(id=call.id, status=CallStatus.PROPOSED).update(
        status=CallStatus.SUCCEEDED, external_ref=other.external_ref
    )
    found = Result.objects.get(tool_call=other)
    return result_store(call, source=ResultSource.REUSED, ok=found.ok, value=parse(proved_result(found)))


def result_store(
    call: ToolCall,
    *,
    source: ResultSource,
    ok: bool,
    value: dict[str, Any],
    attempt_no: int | None = None,
    reconciliation: Reconciliation | None = None,
    answered_wait_id: UUID | None = None,
    fence: int | None = None,
) -> Result:
    """Store the accepted result of a call, for the services of this app. The database keeps it the only one."""
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
        answered_wait_id=answered_wait_id,
        fence=fence,
    )


def call_await(call: ToolCall, status: CallStatus) -> None:
    """Mark a call as waiting for people: for a decision, or for an answer to what it asks."""
    ToolCall.objects.filter(id=call.id, status=CallStatus.PROPOSED).update(status=status)


def call_answered(call: ToolCall, *, value: dict[str, Any], wait_id: UUID, fence: int) -> Result:
    """Close a question with what a person has answered as its result. `wait_id`: the wait that keeps who did, and when."""
    ToolCall.objects.filter(id=call.id, status=CallStatus.AWAITING_INPUT).update(status=CallStatus.SUCCEEDED)
    return result_store(call, source=ResultSource.HUMAN, ok=True, value=value, answered_wait_id=wait_id, fence=fence)


def call_lock(id: UUID) -> ToolCall:
    """Lock a call, after lease, run, head and obligation (ruling 37)."""
    return ToolCall.objects.select_for_update(no_key=True).get(id=id)


def call_doubt(call: ToolCall, *, why: str) -> None:
    """A call that waited for its next try may not be tried without a person after all: its outcome counts as unknown."""
    ToolCall.objects.filter(id=call.id, status=CallStatus.RETRY_WAIT).update(
        status=CallStatus.UNCERTAIN, retry_at=None, error=why
    )
    Publication.objects.filter(tool_call=call, status=PublicationStatus.DISPATCHED).update(
        status=PublicationStatus.UNCERTAIN, changed_at=ClockTimestamp()
    )
