"""The word of a first person about a call that two people have to agree on."""

from accounts.models import ClockTimestamp
from receipts.models import FirstWord, Reconciliation, ToolCall
from receipts.services.verdicts import VerdictGiven
from receipts.states import WordClosing


def word_store(call: ToolCall, given: VerdictGiven) -> FirstWord:
    """Store what a first person says of a locked call. One of an earlier attempt is closed."""
    word_close(call, WordClosing.MOOT)
    return FirstWord.objects.create(
        tenant_id=call.tenant_id,
        tool_call=call,
        seen_attempts=call.attempts,
        verdict=given.verdict,
        follow_up=given.follow_up,
        evidence=given.evidence,
        external_ref=given.external_ref,
        actor=given.actor,
    )


def word_close(call: ToolCall, how: WordClosing, *, by: Reconciliation | None = None) -> None:
    """Close the open word about a locked call, if there is one. `by` is the verdict that says the same."""
    FirstWord.objects.filter(tool_call=call, closed_at=None).update(
        closing=how, closed_at=ClockTimestamp(), reconciliation=by
    )
