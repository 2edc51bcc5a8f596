"""Evidence that speaks against what was accepted about a call."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_delete, no_truncate, one_of, starts_without
from receipts.models.calls import Reconciliation, ToolCall
from receipts.states import ATTACHMENT_BYTES, Closing, EvidenceSource, Found, WordClosing

HAPPENED = ["EXECUTED", "NOT_EXECUTED"]


class Probe(models.Model):
    """A look under the key of a call that a person asked for. It is stored before anybody is asked, and answered once. What it has
    found is evidence; it is no verdict. `early`: what was not there then may have come after it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, related_name="probes")
    attempt_no = models.IntegerField()
    asked_by = models.CharField(max_length=200)
    asked_at = models.DateTimeField(db_default=ClockTimestamp())
    found = models.CharField(max_length=16, null=True)
    how = models.CharField(max_length=200, db_default="")
    external_ref = models.CharField(max_length=500, null=True)
    early = models.BooleanField(db_default=False)
    answered_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(found=None, answered_at=None, how="", external_ref=None, early=False)
                | (Q(found__in=list(Found), answered_at__isnull=False) & ~Q(how="")),
                name="probe_answered_whole",
            ),
            models.CheckConstraint(condition=Q(early=False) | Q(found="NOT_THERE"), name="probe_early_found_nothing"),
            models.CheckConstraint(
                condition=Q(external_ref=None) | Q(found="THERE"), name="probe_refers_to_what_is_there"
            ),
            models.UniqueConstraint(
                fields=["tool_call"], condition=Q(answered_at=None), name="one_probe_at_a_time_per_call"
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.Protect(
                name="answered_once", operation=pgtrigger.Update, condition=pgtrigger.Q(old__answered_at__isnull=False)
            ),
            pgtrigger.ReadOnly(
                name="asking_frozen", fields=["tenant", "tool_call", "attempt_no", "asked_by", "asked_at"]
            ),
            starts_without("NEW.answered_at IS NOT NULL"),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.tool_call_id}: {self.found or 'asked'}"


class FirstWord(models.Model):
    """What one person says about a call of unknown outcome where two have to say the same. It settles nothing by itself."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, related_name="first_words")
    seen_attempts = models.IntegerField()
    verdict = models.CharField(max_length=16)
    follow_up = models.CharField(max_length=8)
    evidence = models.TextField()
    external_ref = models.CharField(max_length=500, null=True)
    actor = models.CharField(max_length=200)
    at = models.DateTimeField(db_default=ClockTimestamp())
    closing = models.CharField(max_length=16, null=True)
    closed_at = models.DateTimeField(null=True)
    # The verdict of the second person, who said the same.
    reconciliation = models.OneToOneField(
        Reconciliation, on_delete=models.PROTECT, null=True, related_name="first_word"
    )

    class Meta:
        constraints: ClassVar = [
            one_of("verdict", HAPPENED, "first_word_says_whether"),
            models.CheckConstraint(
                condition=Q(closing=None, closed_at=None) | Q(closing__in=list(WordClosing), closed_at__isnull=False),
                name="first_word_closed_whole",
            ),
            models.CheckConstraint(
                condition=Q(reconciliation=None) | Q(closing="CONFIRMED"), name="first_word_confirmed_by_verdict"
            ),
            models.UniqueConstraint(
                fields=["tool_call"], condition=Q(closed_at=None), name="one_open_first_word_per_call"
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.Protect(
                name="closed_once", operation=pgtrigger.Update, condition=pgtrigger.Q(old__closed_at__isnull=False)
            ),
            pgtrigger.ReadOnly(
                name="word_frozen",
                fields=[
                    *("tenant", "tool_call", "seen_attempts", "verdict", "follow_up", "evidence", "external_ref"),
                    *("actor", "at"),
                ],
            ),
            starts_without("NEW.closed_at IS NOT NULL"),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.verdict}"


class Attachment(models.Model):
    """A file that a person has put beside a call, as evidence. Its bytes are kept with the run's artifacts, encrypted, by digest."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, related_name="attachments")
    filename = models.CharField(max_length=255)
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    note = models.TextField(db_default="")
    added_by = models.CharField(max_length=200)
    added_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tool_call", "sha256"], name="attachment_once_per_call"),
            models.CheckConstraint(condition=Q(size__gte=1, size__lte=ATTACHMENT_BYTES), name="attachment_bounded"),
            models.CheckConstraint(condition=~Q(filename=""), name="attachment_is_named"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.filename


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
