"""The audit chain of a tenant: human and control acts, and refused acts. Each event's hash covers the one before."""

import hashlib
import json
from typing import Any
from uuid import UUID

import rfc8785
from django.db import transaction

from accounts.errors import Refused
from accounts.models import AuditEvent, AuditHead
from accounts.statements import fetch
from accounts.states import Actor

# The clock is read once the end of the chain is locked, so times go with the numbers.
_CHAIN_END = """
WITH head AS (SELECT seq, hash FROM accounts_audithead WHERE tenant_id = %(tenant)s FOR NO KEY UPDATE)
SELECT seq, hash, clock_timestamp() FROM head"""

_APPEND = """
WITH event AS (
    INSERT INTO accounts_auditevent (tenant_id, seq, actor, action, object_type, object_id, detail, canonical, at,
        prev_hash, hash)
    VALUES (%(tenant)s, %(seq)s, %(actor)s, %(action)s, %(object_type)s, %(object_id)s, %(detail)s, %(canonical)s,
        %(at)s, %(previous)s, %(hash)s)
    RETURNING id, tenant_id, seq, hash),
why AS (
    INSERT INTO accounts_auditreason (event_id, reason)
    SELECT event.id, %(reason)s FROM event WHERE %(reason)s::text <> '')
UPDATE accounts_audithead h SET seq = event.seq, hash = event.hash FROM event WHERE h.tenant_id = event.tenant_id"""


def audit_append(
    *, actor: Actor, action: str, object_type: str, object_id: UUID | int, detail: dict[str, Any], reason: str = ""
) -> None:
    """Append one event inside the caller's transaction. Locks the chain's end, so it comes last (ruling 37).

    `detail` holds ids, digests and enums; never bodies, arguments or a person's words, which have rows of their own (T24).
    `reason`: why, where no such row says it; it is kept beside the event, which holds its digest.
    """
    if reason:
        detail = {**detail, "reason_digest": _digest(reason)}
    seq, previous, at = fetch(_CHAIN_END, {"tenant": actor.tenant_id})[0]
    event = {
        "seq": seq + 1,
        "at": at.isoformat(),
        "actor": actor.label,
        "door": actor.door,
        "action": action,
        "object": [object_type, str(object_id)],
        "detail": detail,
        "prev": previous,
    }
    canonical = rfc8785.dumps(event)
    digest = hashlib.sha256(canonical).hexdigest()
    row = {
        "tenant": actor.tenant_id,
        "seq": seq + 1,
        "actor": actor.label,
        "action": action,
        "object_type": object_type,
        "object_id": str(object_id),
        "detail": json.dumps({**detail, "door": actor.door}),
        "canonical": canonical,
        "at": at,
        "previous": previous,
        "hash": digest,
        "reason": reason,
    }
    fetch(_APPEND, row)


def _digest(reason: str) -> str:
    return hashlib.sha256(reason.encode()).hexdigest()


def audit_refused(*, actor: Actor, action: str, object_type: str, object_id: UUID, refused: Refused) -> None:
    """Record a refused act in a transaction of its own, after the refused one has ended (ruling 14)."""
    with transaction.atomic():
        audit_append(
            actor=actor,
            action=f"{action}.refused",
            object_type=object_type,
            object_id=object_id,
            detail={"code": refused.code},
        )


def audit_verify(tenant_id: UUID) -> int:
    """Walk the chain of a tenant. Returns the number of events; raises ValueError naming the first broken one."""
    previous, count = "0" * 64, 0
    for event in AuditEvent.objects.filter(tenant_id=tenant_id).select_related("why").order_by("seq").iterator():
        count += 1
        canonical = bytes(event.canonical)
        intact = event.seq == count and event.prev_hash == previous and _shown_as_hashed(event, canonical)
        if not intact or hashlib.sha256(canonical).hexdigest() != event.hash:
            raise ValueError(f"audit event {event.seq} does not continue the chain")
        previous = event.hash
    head = AuditHead.objects.get(tenant_id=tenant_id)
    if (head.seq, head.hash) != (count, previous):
        raise ValueError(f"the chain ends at {count}, its head says {head.seq}")
    return count


def _shown_as_hashed(event: AuditEvent, canonical: bytes) -> bool:
    """True if the columns that people read say what the hashed bytes say."""
    try:
        hashed = json.loads(canonical)
    except ValueError:
        return False
    return bool(
        hashed["detail"] | {"door": hashed["door"]} == event.detail
        and _reason_as_hashed(event)
        and [event.object_type, event.object_id] == hashed["object"]
        and (event.seq, event.at.isoformat(), event.actor, event.action, event.prev_hash)
        == tuple(hashed[name] for name in ("seq", "at", "actor", "action", "prev"))
    )


def _reason_as_hashed(event: AuditEvent) -> bool:
    """True if the words beside the event, where there are any, are those that it was sealed with."""
    said = getattr(event, "why", None)
    return said is None or _digest(said.reason) == event.detail.get("reason_digest")
