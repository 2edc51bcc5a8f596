"""A run, its inputs and the moves of its status."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import F, Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_delete, no_truncate, one_of, starts_as
from runs.models.identity import AgentVersion, Thread
from runs.models.workspace import Workspace
from runs.states import (
    ENDED_RUN,
    LIVE_RUN,
    RUN_MOVES,
    THREAD_ROOT,
    HoldReason,
    Origin,
    RecoveryPolicy,
    RunStatus,
)


class Run(models.Model):
    """One admitted execution. `lineage_id` is shared with the runs that it continues, forks, or is a child of (ruling 25)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="runs")
    agent_version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT)
    lineage_id = models.UUIDField()
    origin = models.CharField(max_length=16, db_default=Origin.NEW)
    root_run_id = models.UUIDField()
    parent_run = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    continued_from = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="continuations")
    forked_from = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="forks")
    forked_from_revision = models.IntegerField(null=True)
    # Up to which turn and which message of its source a continued or forked run goes on with its conversation.
    inherited_turns = models.IntegerField(db_default=0)
    inherited_messages = models.BigIntegerField(db_default=0)
    title = models.CharField(max_length=200)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, null=True, related_name="runs")
    status = models.CharField(max_length=16, db_default=RunStatus.QUEUED)
    hold_reason = models.CharField(max_length=32, null=True)
    hold_detail = models.CharField(max_length=500, db_default="")
    recovery_policy = models.CharField(max_length=16, db_default=RecoveryPolicy.RESUME_IN_PLACE)
    admission_key = models.CharField(max_length=200)
    takeovers = models.IntegerField(db_default=0)
    max_takeovers = models.IntegerField(db_default=5)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    due_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=500, db_default="")
    settlement = models.JSONField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="run_in_tenant"),
            models.UniqueConstraint(fields=["tenant", "admission_key"], name="run_admission_once"),
            models.UniqueConstraint(
                fields=["thread"],
                condition=Q(status__in=sorted(LIVE_RUN), origin__in=sorted(THREAD_ROOT)),
                name="one_live_root_per_thread",
            ),
            models.UniqueConstraint(fields=["continued_from"], name="run_continued_once"),
            one_of("origin", list(Origin), "run_origin_known"),
            models.CheckConstraint(
                condition=Q(origin__in=["CONTINUED", "FORKED"], inherited_turns__gte=0, inherited_messages__gte=0)
                | Q(inherited_turns=0, inherited_messages=0),
                name="run_inherits_from_source",
            ),
            models.CheckConstraint(
                condition=Q(origin="CHILD", parent_run__isnull=False) | (~Q(origin="CHILD") & Q(parent_run=None)),
                name="run_child_has_parent",
            ),
            models.CheckConstraint(
                condition=Q(origin="CONTINUED", continued_from__isnull=False)
                | (~Q(origin="CONTINUED") & Q(continued_from=None)),
                name="run_continued_has_source",
            ),
            models.CheckConstraint(
                condition=Q(
                    origin="FORKED",
                    forked_from__isnull=False,
                    forked_from_revision__isnull=False,
                    forked_from_revision__gte=1,
                )
                | (~Q(origin="FORKED") & Q(forked_from=None, forked_from_revision=None)),
                name="run_forked_has_source",
            ),
            models.CheckConstraint(
                condition=(Q(origin="CHILD") & ~Q(root_run_id=F("id"))) | (~Q(origin="CHILD") & Q(root_run_id=F("id"))),
                name="run_child_has_root",
            ),
            models.CheckConstraint(condition=~Q(origin="NEW") | Q(lineage_id=F("id")), name="run_new_has_own_lineage"),
            one_of("status", list(RunStatus), "run_status_known"),
            one_of("recovery_policy", list(RecoveryPolicy), "run_policy_known"),
            models.CheckConstraint(
                condition=Q(status="HELD", hold_reason__in=list(HoldReason))
                | (~Q(status="HELD") & Q(hold_reason=None)),
                name="run_held_has_reason",
            ),
            models.CheckConstraint(condition=Q(due_at=None) | Q(status="QUEUED"), name="run_due_is_queued"),
            models.CheckConstraint(
                condition=Q(status__in=sorted(ENDED_RUN), ended_at__isnull=False)
                | Q(status__in=sorted(LIVE_RUN), ended_at__isnull=True),
                name="run_end_is_dated",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-created_at", "-id"], name="run_newest"),
            models.Index(fields=["tenant", "status", "-created_at", "-id"], name="run_by_status"),
            models.Index(fields=["tenant", "ended_at"], condition=Q(ended_at__isnull=False), name="run_ended"),
            models.Index(
                fields=["status"], condition=Q(status__in=["QUEUED", "RUNNING", "STOPPING"]), name="run_to_sweep"
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=RUN_MOVES),
            starts_as(RunStatus.QUEUED),
            pgtrigger.ReadOnly(
                name="origin_frozen",
                fields=[
                    *("tenant", "thread", "lineage_id", "origin", "root_run_id", "parent_run"),
                    *("continued_from", "forked_from", "forked_from_revision", "admission_key"),
                    *("inherited_turns", "inherited_messages", "recovery_policy"),
                ],
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return str(self.id)


class RunInput(models.Model):
    """A named upload of a run."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="inputs")
    name = models.CharField(max_length=32)
    filename = models.CharField(max_length=255)
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["run", "name"], name="run_input_once")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.name}: {self.filename}"


class RunTransition(models.Model):
    """One move of a run's status, with its cause."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="transitions")
    from_status = models.CharField(max_length=16, null=True)
    to_status = models.CharField(max_length=16)
    cause = models.CharField(max_length=64)
    detail = models.TextField(db_default="")
    actor = models.CharField(max_length=200)
    fence = models.BigIntegerField(null=True)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        indexes: ClassVar = [models.Index(fields=["run", "id"], name="transition_order")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.from_status} to {self.to_status}"
