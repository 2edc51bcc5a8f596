"""A stop or a pause of more than one run: of a thread, an agent or a tenant. It stands until a person lifts it."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, no_delete, no_truncate, one_of, starts_as
from runs.models.identity import Agent, Thread
from runs.states import SCOPE_MOVES, ControlKind, ScopeKind, ScopeStatus


class ScopeControl(models.Model):
    """One act on a scope. It is carried to each live run of it as a request of that run, and meets each new one while it stands."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    kind = models.CharField(max_length=8)
    scope = models.CharField(max_length=8)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, db_index=False)
    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, null=True, db_index=False)
    status = models.CharField(max_length=16, db_default=ScopeStatus.STANDING)
    reason = models.TextField()
    requested_by = models.CharField(max_length=200)
    accepted_at = models.DateTimeField(db_default=ClockTimestamp())
    aborted_at = models.DateTimeField(null=True)
    aborted_by = models.CharField(max_length=200, db_default="")
    abort_reason = models.TextField(db_default="")
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.CharField(max_length=200, db_default="")
    lift_reason = models.TextField(db_default="")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="scope_control_in_tenant"),
            models.UniqueConstraint(
                fields=["tenant", "kind", "agent", "thread"],
                condition=Q(status="STANDING"),
                nulls_distinct=False,
                name="one_standing_control_per_scope",
            ),
            one_of("kind", list(ControlKind), "scope_control_kind_known"),
            models.CheckConstraint(
                condition=Q(scope="TENANT", agent=None, thread=None)
                | Q(scope="AGENT", agent__isnull=False, thread=None)
                | Q(scope="THREAD", agent=None, thread__isnull=False),
                name="scope_control_names_its_scope",
            ),
            models.CheckConstraint(
                condition=Q(aborted_at=None, aborted_by="", abort_reason="")
                | (Q(kind="STOP", aborted_at__isnull=False) & ~Q(aborted_by="") & ~Q(abort_reason="")),
                name="scope_control_abort_is_of_a_stop",
            ),
            models.CheckConstraint(
                condition=Q(status="STANDING", lifted_at=None, lifted_by="", lift_reason="")
                | (Q(status="LIFTED", lifted_at__isnull=False) & ~Q(lifted_by="") & ~Q(lift_reason="")),
                name="scope_control_lift_is_signed",
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=SCOPE_MOVES),
            starts_as(ScopeStatus.STANDING),
            pgtrigger.ReadOnly(
                name="act_frozen",
                fields=["tenant", "kind", "scope", "agent", "thread", "reason", "requested_by", "accepted_at"],
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {ScopeKind(self.scope).value}"
