"""Writes of an act on many runs: what was asked for, and what came of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from accounts.audit import audit_append
from accounts.models import ClockTimestamp
from accounts.statements import fetch
from accounts.states import Actor
from runs.models import Bulk, BulkItem
from runs.states import BulkAct, BulkStatus

_AGAIN = 60  # seconds after which an item is taken from somebody who took it and said nothing

_TAKE = """
WITH free AS (SELECT id, taken_at IS NOT NULL AS again FROM runs_bulkitem WHERE id = %(id)s AND status = 'PENDING'
  AND (taken_at IS NULL OR taken_at < clock_timestamp() - %(again)s * interval '1 second') FOR UPDATE)
UPDATE runs_bulkitem taken SET taken_at = clock_timestamp() FROM free WHERE taken.id = free.id RETURNING free.again"""


@dataclass(frozen=True)
class Taken:
    """An item is one's own to act on. `again`: somebody took it before and said nothing, and may have acted."""

    again: bool


def bulk_store(*, actor: Actor, act: BulkAct, reason: str, query: str, digest: str, run_ids: Sequence[UUID]) -> Bulk:
    """Store what was asked for and its runs in their order, with its audit event, in the caller's transaction."""
    bulk = Bulk.objects.create(
        tenant_id=actor.tenant_id,
        act=act,
        reason=reason,
        query=query,
        digest=digest,
        total=len(run_ids),
        requested_by=actor.label,
        door=actor.door,
    )
    BulkItem.objects.bulk_create(
        [BulkItem(tenant_id=actor.tenant_id, bulk=bulk, run_id=id, place=place) for place, id in enumerate(run_ids)],
        batch_size=2000,
    )
    detail: dict[str, Any] = {"act": str(act), "runs": len(run_ids), "digest": digest}
    audit_append(actor=actor, action="bulk.accept", object_type="bulk", object_id=bulk.id, detail=detail)
    return bulk


def bulk_item_take(item_id: int) -> Taken | None:
    """Take one item to act on it; None where somebody else has it or it is closed."""
    taken = fetch(_TAKE, {"id": item_id, "again": _AGAIN})
    return Taken(taken[0][0]) if taken else None


def bulk_item_close(item_id: int, *, status: BulkStatus, code: str = "", said: str = "") -> None:
    """Say what came of one item, once."""
    BulkItem.objects.filter(id=item_id, status=BulkStatus.PENDING).update(
        status=status, code=code, said=said, closed_at=ClockTimestamp()
    )
