"""The contract that a run carries: its goal, what it has promised, and what it accepted as given."""

from typing import ClassVar

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import (
    ClockTimestamp,
    Tenant,
    append_only,
    no_delete,
    no_truncate,
    one_of,
    starts_as,
)
from accounts.selectors import plain_body
from checkpoints.states import (
    COMMITMENT_MOVES,
    OBLIGATION_MOVES,
    CommitmentKind,
    CommitmentStatus,
    ObligationStatus,
    SourceKind,
)
from runs.models import Run


class Intent(models.Model):
    """The goal of a run and each revision of it, with who revised it and why. The goal is encrypted, as messages are."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="intents")
    version = models.IntegerField()
    body = models.BinaryField()
    data_key_id = models.UUIDField()
    revised_by = models.CharField(max_length=200)
    reason = models.TextField()
    digest = models.CharField(max_length=64)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "version"], name="intent_version_once"),
            models.CheckConstraint(condition=Q(version__gte=1), name="intent_version_positive"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"goal {self.version}"

    @property
    def goal(self) -> str:
        """The goal in words. Raises BodyChanged when it was changed in the store."""
        return plain_body(key_id=self.data_key_id, body=self.body).decode()


class Obligation(models.Model):
    """A promise that must be fulfilled or released before its run can complete."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="obligations")
    statement = models.TextField()
    step_name = models.CharField(max_length=200)
    promised_at = models.DateTimeField(db_default=ClockTimestamp())
    status = models.CharField(max_length=16, db_default=ObligationStatus.OPEN)
    fulfilled_by = models.UUIDField(null=True)
    released_by = models.CharField(max_length=200, null=True)
    release_reason = models.TextField(db_default="")
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "step_name"], name="obligation_step_once"),
            one_of("status", list(ObligationStatus), "obligation_status_known"),
            models.CheckConstraint(
                condition=~Q(status="FULFILLED") | Q(fulfilled_by__isnull=False), name="obligation_fulfilled_by_call"
            ),
            models.CheckConstraint(
                condition=~Q(status="RELEASED") | (Q(released_by__isnull=False) & ~Q(release_reason="")),
                name="obligation_released_by_person",
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=OBLIGATION_MOVES),
            starts_as(ObligationStatus.OPEN),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.step_name} {self.status}"


class Commitment(models.Model):
    """A constraint that a run accepted, or an assumption that it rests on, with its source. Withdrawn once, by a person."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="commitments")
    kind = models.CharField(max_length=16)
    statement = models.TextField()
    denies = ArrayField(models.CharField(max_length=200), default=list)
    source_kind = models.CharField(max_length=16)
    source_ref = models.CharField(max_length=200)
    source_version = models.CharField(max_length=64)
    accepted_at = models.DateTimeField(db_default=ClockTimestamp())
    accepted_revision = models.IntegerField()
    status = models.CharField(max_length=16, db_default=CommitmentStatus.LIVE)
    withdrawn_by = models.CharField(max_length=200, null=True)
    withdrawal_reason = models.TextField(db_default="")
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            one_of("kind", list(CommitmentKind), "commitment_kind_known"),
            one_of("source_kind", list(SourceKind), "commitment_source_known"),
            one_of("status", list(CommitmentStatus), "commitment_status_known"),
            models.CheckConstraint(
                condition=~Q(statement="") & ~Q(source_ref="") & ~Q(source_version=""), name="commitment_has_source"
            ),
            models.CheckConstraint(condition=Q(accepted_revision__gte=1), name="commitment_accepted_at_revision"),
            models.CheckConstraint(
                condition=Q(status="LIVE", withdrawn_by=None, withdrawn_at=None, withdrawal_reason="")
                | (
                    Q(status="WITHDRAWN", withdrawn_by__isnull=False, withdrawn_at__isnull=False)
                    & ~Q(withdrawal_reason="")
                ),
                name="commitment_withdrawn_by_person",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["run", "accepted_at"], name="commitment_of_run")]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=COMMITMENT_MOVES),
            starts_as(CommitmentStatus.LIVE),
            pgtrigger.ReadOnly(
                name="statement_frozen",
                exclude=["status", "withdrawn_by", "withdrawal_reason", "withdrawn_at"],
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.status}"
