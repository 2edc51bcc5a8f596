"""What outlives a run and grants no right to resume one: long-term memory, and how far the research in a workspace got."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_truncate
from runs.models.run import Run
from runs.models.workspace import Workspace


class MemoryItem(models.Model):
    """One thing that an agent was told to remember, for every later thread of the tenant. Encrypted."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    subject = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64)
    body = models.BinaryField()
    data_key_id = models.UUIDField()
    source_run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="remembered")
    source_call_id = models.UUIDField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "subject", "sha256"], name="memory_item_once"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.subject


class WorkspaceProgress(models.Model):
    """How far the research got, as a run said it together with a report version. Encrypted; never an execution cursor."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="progress")
    version = models.IntegerField()
    sha256 = models.CharField(max_length=64)
    body = models.BinaryField()
    data_key_id = models.UUIDField()
    report_version_id = models.UUIDField(unique=True)
    source_run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="progress")
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "version"], name="workspace_progress_once"),
            models.CheckConstraint(condition=Q(version__gte=1), name="workspace_progress_positive"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"v{self.version}"
