"""Claims on an intent, and a person's leave for a second effect of it (ruling 25)."""

from uuid import UUID

from accounts.models import ClockTimestamp
from accounts.statements import fetch
from receipts.models import Claim, SecondEffect, ToolCall

_CLAIM_TRIES = 5  # a rival may give its claim up between the try and the look


_CLAIM_LIVE = """
SELECT tool_call_id FROM receipts_claim
WHERE tenant_id = %(tenant)s AND lineage_id = %(lineage)s AND intent_key = %(intent)s AND released_at IS NULL"""

_CLAIM = """
INSERT INTO receipts_claim (tenant_id, lineage_id, intent_key, tool_call_id)
VALUES (%(tenant)s, %(lineage)s, %(intent)s, %(call)s) ON CONFLICT DO NOTHING"""


def claim_take(call: ToolCall, *, lineage_id: UUID) -> UUID | None:
    """Claim the call's intent for its lineage, once while it is live (ruling 25). None when this call has the claim, or the
    call of the lineage that has it instead.

    A rival that is claiming it at the same time is waited for: only its commit or its rollback decides. Several claims of
    one transaction are taken in the order of their intent keys, so that two runs never wait for each other.
    """
    claim = {"tenant": call.tenant_id, "lineage": lineage_id, "intent": call.intent_key, "call": call.id}
    for _ in range(_CLAIM_TRIES):
        live = fetch(_CLAIM_LIVE, claim)
        if live:
            holder: UUID = live[0][0]
            return None if holder == call.id else holder
        fetch(_CLAIM, claim)
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
