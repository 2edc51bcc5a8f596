"""What a run is made from: the agent and its pinned version, the thread, and stored bytes."""

from typing import ClassVar

from django.db import models

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_truncate


class Agent(models.Model):
    """A registered agent as a tenant uses it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    key = models.CharField(max_length=100)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "key"], name="agent_key_once"),
            models.UniqueConstraint(fields=["tenant", "id"], name="agent_in_tenant"),
        ]

    def __str__(self) -> str:
        return self.key


class AgentVersion(models.Model):
    """The exact version that a run is pinned to: model, instructions, tools and limits, by digest."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="versions")
    version = models.CharField(max_length=64)
    model = models.CharField(max_length=100)
    gateway = models.CharField(max_length=32)
    manifest = models.JSONField()
    # What each tool says that it does, by its key, for whoever compares two versions. No part of what a run is pinned to.
    tool_texts = models.JSONField(default=dict, db_default={})
    manifest_digest = models.CharField(max_length=64)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["agent", "manifest_digest"], name="agent_manifest_once")
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.agent_id} {self.version}"


class Thread(models.Model):
    """The conversation that carries runs, one live run at a time."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT)
    key = models.CharField(max_length=200)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["agent", "key"], name="thread_key_once"),
            models.UniqueConstraint(fields=["tenant", "id"], name="thread_in_tenant"),
        ]

    def __str__(self) -> str:
        return self.key


class Artifact(models.Model):
    """Stored bytes, by their SHA-256: uploads, results, model turns, report bodies. Encrypted with the tenant's key."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False)
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    media_type = models.CharField(max_length=100)
    body = models.BinaryField()
    data_key_id = models.UUIDField()
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant", "sha256"], name="artifact_once")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.sha256
