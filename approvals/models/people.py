"""Who looks at a wait, and who stands in for whom."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import F, Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_delete, no_truncate
from approvals.models.wait import Wait


class Assignment(models.Model):
    """Who looks at a wait: they took it, or somebody gave it to them. It tells the others; it keeps nobody from deciding.

    Where the same call is asked about anew, whoever looked at it looks at that: `carried_from` is what went on so.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    wait = models.ForeignKey(Wait, on_delete=models.PROTECT, related_name="assignments")
    person = models.CharField(max_length=200)
    assigned_by = models.CharField(max_length=200)
    reason = models.TextField(db_default="")
    at = models.DateTimeField(db_default=ClockTimestamp())
    ended_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=200, db_default="")
    carried_from = models.OneToOneField("self", on_delete=models.PROTECT, null=True, related_name="carried_to")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["wait"], condition=Q(ended_at=None), name="one_person_looks_at_a_wait"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["person"], condition=Q(ended_at=None), name="assignment_of_person"),
        ]
        triggers: ClassVar = [
            pgtrigger.ReadOnly(
                name="assignment_frozen",
                fields=["id", "wait", "person", "assigned_by", "reason", "at", "carried_from"],
            ),
            pgtrigger.Protect(
                name="ended_once",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.ended_at IS NOT NULL"),
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.person} looks"


class Look(models.Model):
    """When a person was first shown a wait whole, and where. A wait is bound to one revision, so it is a look at that one."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    wait = models.ForeignKey(Wait, on_delete=models.PROTECT, related_name="looks", db_index=False)
    actor = models.CharField(max_length=200)
    door = models.CharField(max_length=16)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["wait", "actor"], name="one_first_look")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.actor} looked"


class Delegation(models.Model):
    """For this time one person decides with another one's authority. It is given by the person themselves, never onwards."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    giver = models.CharField(max_length=200)
    taker = models.CharField(max_length=200)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.TextField()
    given_at = models.DateTimeField(db_default=ClockTimestamp())
    ended_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=200, db_default="")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="delegation_has_a_time"),
            models.CheckConstraint(condition=~Q(giver=F("taker")), name="delegation_to_another"),
            models.CheckConstraint(condition=~Q(reason=""), name="delegation_has_reason"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "taker"], condition=Q(ended_at=None), name="delegation_to_person"),
        ]
        triggers: ClassVar = [
            pgtrigger.ReadOnly(
                name="delegation_frozen",
                fields=["id", "tenant", "giver", "taker", "starts_at", "ends_at", "reason", "given_at"],
            ),
            pgtrigger.Protect(
                name="ended_once",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.ended_at IS NOT NULL"),
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.taker} for {self.giver}"
