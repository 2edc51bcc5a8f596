"""One act on many runs that a filter has found, and what came of it for each."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_delete, no_truncate, one_of, starts_as
from runs.models.run import Run
from runs.states import BULK_MOVES, BULK_RUNS, BulkAct, BulkStatus


class Bulk(models.Model):
    """What a person asked for, of which set of runs: `query` is the filter that found them, `digest` that of their ids."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    act = models.CharField(max_length=8)
    reason = models.TextField()
    query = models.TextField()
    digest = models.CharField(max_length=64)
    total = models.IntegerField()
    requested_by = models.CharField(max_length=200)
    door = models.CharField(max_length=16)
    accepted_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="bulk_in_tenant"),
            one_of("act", list(BulkAct), "bulk_act_known"),
            models.CheckConstraint(condition=Q(total__gte=1, total__lte=BULK_RUNS), name="bulk_bounded"),
            models.CheckConstraint(condition=~Q(reason=""), name="bulk_has_reason"),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant", "-accepted_at", "-id"], name="bulk_newest")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.act} of {self.total} runs"


class BulkItem(models.Model):
    """One run of it. `taken_at`: since when somebody acts on it; who died over it is followed after a while."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False)
    bulk = models.ForeignKey(Bulk, on_delete=models.PROTECT, related_name="items", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="bulk_items")
    place = models.IntegerField()
    status = models.CharField(max_length=8, db_default=BulkStatus.PENDING)
    code = models.CharField(max_length=64, db_default="")
    said = models.TextField(db_default="")
    taken_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["bulk", "place"], name="bulk_item_place_once"),
            models.UniqueConstraint(fields=["bulk", "run"], name="bulk_item_run_once"),
            one_of("status", list(BulkStatus), "bulk_item_status_known"),
            models.CheckConstraint(
                condition=Q(status=BulkStatus.PENDING, closed_at=None)
                | (~Q(status=BulkStatus.PENDING) & Q(closed_at__isnull=False)),
                name="bulk_item_closed_is_dated",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["bulk", "place"], condition=Q(status=BulkStatus.PENDING), name="bulk_item_pending")
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=BULK_MOVES),
            starts_as(BulkStatus.PENDING),
            pgtrigger.ReadOnly(name="item_frozen", fields=["tenant", "bulk", "run", "place"]),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.run_id}"
