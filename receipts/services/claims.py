"""Claims on an intent, and a person's leave for a second effect of it (ruling 25)."""

from uuid import UUID

from accounts.models import ClockTimestamp
from receipts.models import Claim, SecondEffect, ToolCall

_CLAIM_TRIES = 5  # a rival may give its claim up between the try and the look


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


def claim_release(call: ToolCall) -> None:
    """Give up a claim of a call that is known not to have happened."""
    Claim.objects.filter(tool_call=call, released_at=None).update(released_at=ClockTimestamp())
