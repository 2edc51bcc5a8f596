"""What was seen on the way. Observation only."""

from typing import ClassVar

from django.db import models


class TraceEvent(models.Model):
    """One thing that a process saw. Without keys to what it tells of, and free to be lost: nothing reads it back."""

    trace_id = models.CharField(max_length=32)
    tenant_id = models.UUIDField()
    run_id = models.UUIDField()
    thread_id = models.UUIDField()
    checkpoint_id = models.UUIDField(null=True)
    node_id = models.CharField(max_length=128)
    tool_call_id = models.UUIDField(null=True)
    name = models.CharField(max_length=64)
    attrs = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["run_id", "id"], name="trace_of_run")]

    def __str__(self) -> str:
        return self.name
