"""The policies of a tenant: every saved text is a version, and one of them is in force."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.models import ClockTimestamp, Tenant, append_only, no_delete, no_truncate


class PolicyVersion(models.Model):
    """One text of a tenant's policy as a person saved it. It is a draft until it is activated, and never changed."""

    pk = models.CompositePrimaryKey("tenant_id", "number")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False)
    number = models.IntegerField()
    text = models.TextField()
    digest = models.CharField(max_length=64)
    summary = models.CharField(max_length=200)
    saved_by = models.CharField(max_length=200)
    saved_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(number__gte=1), name="policy_version_counted"),
            models.CheckConstraint(condition=~Q(summary=""), name="policy_version_says_what_it_is"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"v{self.number}"


class PolicyHead(models.Model):
    """The version that is in force. Number 0 is the built-in policy. Whoever goes by it reads this row FOR SHARE (ruling 35)."""

    tenant = models.OneToOneField(Tenant, primary_key=True, on_delete=models.PROTECT)
    number = models.IntegerField(db_default=0)

    class Meta:
        triggers: ClassVar = [
            pgtrigger.Trigger(
                name="is_a_version",
                when=pgtrigger.Before,
                operation=pgtrigger.Insert | pgtrigger.Update,
                condition=pgtrigger.Condition("NEW.number <> 0"),
                func="""
                    IF NOT EXISTS (SELECT 1 FROM approvals_policyversion v
                                   WHERE v.tenant_id = NEW.tenant_id AND v.number = NEW.number) THEN
                        RAISE EXCEPTION 'no such version of the policy' USING ERRCODE = 'foreign_key_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} goes by v{self.number}"


class PolicyActivation(models.Model):
    """Who put which version in force, when and why."""

    pk = models.CompositePrimaryKey("tenant_id", "seq")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False)
    seq = models.IntegerField()
    number = models.IntegerField()
    before = models.IntegerField()
    activated_by = models.CharField(max_length=200)
    reason = models.TextField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(reason=""), name="activation_has_reason"),
            models.CheckConstraint(condition=~Q(number=models.F("before")), name="activation_changes"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"v{self.number} by {self.activated_by}"
