"""Reports, their immutable versions, and where each is published."""

from typing import ClassVar

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_delete, no_truncate, one_of, starts_without
from receipts.models.calls import ToolCall
from receipts.states import PUBLICATION_MOVES, PublicationStatus
from runs.models import Run, Thread


class Report(models.Model):
    """A report of a thread. Its versions are immutable."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="reports")
    slug = models.CharField(max_length=100)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["thread", "slug"], name="report_slug_once"),
            models.UniqueConstraint(fields=["tenant", "id"], name="report_in_tenant"),
        ]

    def __str__(self) -> str:
        return self.slug


class ReportVersion(models.Model):
    """One immutable version of a report."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    report = models.ForeignKey(Report, on_delete=models.PROTECT, related_name="versions")
    version_no = models.IntegerField()
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="report_versions")
    tool_call = models.OneToOneField(ToolCall, on_delete=models.PROTECT, related_name="report_version")
    title = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64)
    source_calls = ArrayField(models.UUIDField())
    fence = models.BigIntegerField()
    committed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["report", "version_no"], name="report_version_once"),
            models.UniqueConstraint(fields=["tenant", "id"], name="report_version_in_tenant"),
            models.CheckConstraint(condition=Q(version_no__gte=1), name="report_version_positive"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"v{self.version_no}"


class Publication(models.Model):
    """A report version on a channel. `console` is published in the commit that writes the version."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    report_version = models.ForeignKey(ReportVersion, on_delete=models.PROTECT, related_name="publications")
    channel = models.CharField(max_length=32)
    tool_call = models.OneToOneField(ToolCall, on_delete=models.PROTECT, null=True, related_name="publication")
    status = models.CharField(max_length=16)
    external_ref = models.CharField(max_length=500, null=True)
    changed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            one_of("status", list(PublicationStatus), "publication_status_known"),
            models.CheckConstraint(
                condition=Q(channel="console") | Q(tool_call__isnull=False), name="publication_outside_has_call"
            ),
            models.UniqueConstraint(
                fields=["report_version", "channel"], condition=~Q(status="FAILED"), name="one_publication_per_channel"
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=PUBLICATION_MOVES),
            starts_without("NEW.status <> 'REQUESTED' AND (NEW.status <> 'PUBLISHED' OR NEW.channel <> 'console')"),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.status}"
