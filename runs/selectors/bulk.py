"""Reads of acts on many runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, QuerySet

from accounts.errors import NotFound
from accounts.statements import fetch
from accounts.states import Actor, Permission
from runs.canonical import canonical, digest
from runs.models import Bulk, BulkItem, ControlRequest
from runs.states import OPEN_CONTROL, BulkAct, BulkStatus, ControlKind


def bulks_visible(actor: Actor) -> QuerySet[Bulk]:
    """The acts on many runs of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Bulk.objects.none()
    return Bulk.objects.filter(tenant_id=actor.tenant_id)


def access_bulk(*, actor: Actor, id: UUID) -> Bulk:
    """One of them. Raises NotFound."""
    bulk = bulks_visible(actor).filter(id=id).first()
    if bulk is None:
        raise NotFound
    return bulk


@dataclass(frozen=True)
class BulkProgress:
    """How far an act on many runs is."""

    pending: int
    done: int
    refused: int

    @property
    def over(self) -> bool:
        return self.pending == 0


def bulk_progress(bulk_id: UUID) -> BulkProgress:
    """How many of its runs wait, are done, and were refused."""
    rows = BulkItem.objects.filter(bulk=bulk_id).values_list("status").annotate(n=Count("id")).order_by()
    counts = dict(rows)
    return BulkProgress(
        *(counts.get(status, 0) for status in (BulkStatus.PENDING, BulkStatus.DONE, BulkStatus.REFUSED))
    )


def bulk_digest(act: BulkAct, run_ids: Sequence[UUID]) -> str:
    """The digest of a set of runs, in whatever order they are given: what a preview shows and an act names. Where they are to go on it
    is that of their pauses as well: one that somebody asks for since then is not taken back.
    """
    named = sorted(str(id) for id in run_ids)
    if act == BulkAct.RESUME:
        open_ones = ControlRequest.objects.filter(
            run__in=run_ids, kind=ControlKind.PAUSE, status__in=sorted(OPEN_CONTROL)
        )
        named += sorted(str(id) for id in open_ones.values_list("id", flat=True))
    return digest(canonical(named))


_PENDING = """
SELECT i.id, i.run_id FROM runs_bulkitem i WHERE i.status = 'PENDING' AND (%(bulk)s::uuid IS NULL OR i.bulk_id = %(bulk)s)
  AND (i.taken_at IS NULL OR i.taken_at < clock_timestamp() - interval '60 seconds')
ORDER BY i.bulk_id, i.place LIMIT %(limit)s"""


def bulk_items_pending(*, limit: int, bulk_id: UUID | None = None) -> list[tuple[int, UUID]]:
    """Items that nobody acts on, of one act or of all, with their runs; the oldest act first."""
    return [(item, run) for item, run in fetch(_PENDING, {"bulk": bulk_id, "limit": limit})]


@dataclass(frozen=True)
class BulkOrder:
    """What is to be done to one run, and in whose name."""

    run_id: UUID
    act: str
    reason: str
    tenant_id: UUID
    requested_by: str
    door: str
    accepted_at: datetime


def bulk_order(item_id: int) -> BulkOrder:
    """What is to be done to the run of one item."""
    item = BulkItem.objects.select_related("bulk").get(id=item_id)
    bulk = item.bulk
    return BulkOrder(item.run_id, bulk.act, bulk.reason, bulk.tenant_id, bulk.requested_by, bulk.door, bulk.accepted_at)
