"""Evidence that speaks against what was accepted about a call."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, no_delete, no_truncate, one_of, starts_without
from receipts.models.calls import ToolCall
from receipts.states import Closing, EvidenceSource

HAPPENED = ["EXECUTED", "NOT_EXECUTED"]


class Contradiction(models.Model):
    """A flag: something says otherwise than what was accepted (T38). It flips nothing; a person closes it, once."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, related_name="contradictions")
    attempt_no = models.IntegerField()
    source = models.CharField(max_length=16)
    accepted = models.CharField(max_length=16)
    says = models.CharField(max_length=16)
    evidence = models.TextField()
    external_ref = models.CharField(max_length=500, null=True)
    raised_by = models.CharField(max_length=200)
    raised_at = models.DateTimeField(db_default=ClockTimestamp())
    closing = models.CharField(max_length=16, null=True)
    closing_reason = models.TextField(db_default="")
    closed_by = models.CharField(max_length=200, null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            one_of("source", list(EvidenceSource), "contradiction_source_known"),
            one_of("accepted", HAPPENED, "contradiction_accepted_known"),
            one_of("says", HAPPENED, "contradiction_says_known"),
            models.CheckConstraint(condition=~Q(accepted=models.F("says")), name="contradiction_contradicts"),
            models.CheckConstraint(condition=~Q(evidence=""), name="contradiction_has_evidence"),
            models.CheckConstraint(
                condition=Q(closing=None, closed_by=None, closed_at=None)
                | Q(closing__in=list(Closing), closed_by__isnull=False, closed_at__isnull=False),
                name="contradiction_closed_by_somebody",
            ),
            models.UniqueConstraint(
                fields=["tool_call", "attempt_no", "source"],
                condition=Q(closed_at=None),
                name="one_open_contradiction_a_source",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "raised_at"], condition=Q(closed_at=None), name="contradiction_open"),
        ]
        triggers: ClassVar = [
            pgtrigger.Protect(
                name="closed_once", operation=pgtrigger.Update, condition=pgtrigger.Q(old__closed_at__isnull=False)
            ),
            pgtrigger.ReadOnly(
                name="evidence_frozen",
                fields=["tenant", "tool_call", "attempt_no", "source", "accepted", "says", "evidence", "external_ref"],
            ),
            starts_without("NEW.closed_at IS NOT NULL"),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.accepted}, but {self.source} says {self.says}"
