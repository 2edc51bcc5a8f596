"""Standing grants: what a person has allowed in advance, within a scope, for a time and a number of uses."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import F, Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_delete, no_truncate, starts_without
from receipts.models import ToolCall


class Grant(models.Model):
    """One tool of one agent, as both are defined now, may be called without asking, while a condition holds."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    owner = models.CharField(max_length=200)
    agent = models.CharField(max_length=100)
    tool = models.CharField(max_length=100)
    tool_hash = models.CharField(max_length=64)
    condition = models.CharField(max_length=500, db_default="")
    reason = models.TextField()
    given_at = models.DateTimeField(db_default=ClockTimestamp())
    expires_at = models.DateTimeField()
    max_uses = models.IntegerField()
    uses = models.IntegerField(db_default=0)
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.CharField(max_length=200, db_default="")
    revocation_reason = models.TextField(db_default="")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(uses__gte=0, uses__lte=F("max_uses")), name="grant_within_its_uses"),
            models.CheckConstraint(condition=Q(expires_at__gt=F("given_at")), name="grant_has_an_end"),
            models.CheckConstraint(condition=~Q(reason=""), name="grant_has_reason"),
            models.CheckConstraint(
                condition=Q(revoked_at=None, revoked_by="", revocation_reason="")
                | Q(revoked_at__isnull=False) & ~Q(revoked_by="") & ~Q(revocation_reason=""),
                name="grant_revoked_with_reason",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "agent", "tool"], condition=Q(revoked_at=None), name="grant_live"),
        ]
        triggers: ClassVar = [
            starts_without("NEW.uses <> 0 OR NEW.revoked_at IS NOT NULL"),
            pgtrigger.ReadOnly(
                name="grant_frozen",
                fields=[
                    *("id", "tenant", "owner", "agent", "tool", "tool_hash", "condition"),
                    *("reason", "given_at", "expires_at", "max_uses"),
                ],
            ),
            pgtrigger.Protect(
                name="revoked_once",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.revoked_at IS NOT NULL"),
            ),
            pgtrigger.Protect(
                name="used_one_by_one",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("NEW.uses NOT IN (OLD.uses, OLD.uses + 1)"),
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.tool} of {self.agent} by {self.owner}"


class GrantUse(models.Model):
    """A call that was sent by a grant, written in the commit that sent it."""

    tool_call = models.OneToOneField(ToolCall, primary_key=True, on_delete=models.PROTECT, related_name="grant_use")
    grant = models.ForeignKey(Grant, on_delete=models.PROTECT, related_name="used_by")
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.tool_call_id} by {self.grant_id}"
