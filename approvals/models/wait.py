"""Waits bound to an exact checkpoint revision and exact arguments, and what people decided about them."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import (
    ClockTimestamp,
    Tenant,
    among,
    append_only,
    no_delete,
    no_truncate,
    one_of,
    rule,
    starts_as,
)
from approvals.states import LIVE_WAIT, WAIT_MOVES, OnDeadline, PolicyOutcome, Risk, WaitKind, WaitStatus
from checkpoints.models import names_a_revision
from receipts.models import ToolCall
from runs.models import Run

DEFAULT_VALIDITY_SECONDS = 24 * 3600

# What a rule demands of the people who decide (policies.Demand), and for how long the decision may be used.
DEMANDED = (
    *("quorum", "required_role", "required_group", "starter_may_decide", "dwell_seconds", "step_up", "risk"),
    *("batchable", "on_deadline", "validity_seconds", "reminder_seconds", "escalate_seconds", "escalate_to"),
)


class PolicyDecision(models.Model):
    """What the policy said about a call, and by which rules."""

    pk = models.CompositePrimaryKey("tool_call_id", "id")
    id = models.UUIDField(default=new_id, editable=False)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, related_name="policy_decisions", db_index=False)
    policy_version = models.CharField(max_length=64)
    outcome = models.CharField(max_length=20)
    rule = models.CharField(max_length=500)
    # How many people have to say the same of the outcome of the call, where nobody knows it.
    verdict_people = models.SmallIntegerField(db_default=1)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            rule("policy_outcome_known", among("outcome", PolicyOutcome)),
            rule("verdict_people_one_or_two", "verdict_people IN (1, 2)"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.outcome


class Wait(models.Model):
    """One call, waiting for one decision, bound to revision, digest, arguments, tool definition and policy. Of the kind
    QUESTION the call is what the model asks people, and its arguments are the question.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="waits")
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, related_name="waits")
    kind = models.CharField(max_length=8, db_default=WaitKind.APPROVAL)
    checkpoint_revision = models.IntegerField()
    checkpoint_digest = models.CharField(max_length=64)
    args_digest = models.CharField(max_length=64)
    tool_hash = models.CharField(max_length=64)
    policy_version = models.CharField(max_length=64)
    policy_rule = models.CharField(max_length=500)
    quorum = models.SmallIntegerField(db_default=1)
    required_role = models.CharField(max_length=16, db_default="approver")
    required_group = models.CharField(max_length=64, db_default="")
    starter_may_decide = models.BooleanField(db_default=True)
    dwell_seconds = models.IntegerField(db_default=0)
    step_up = models.BooleanField(db_default=False)
    risk = models.CharField(max_length=8, db_default=Risk.NORMAL)
    batchable = models.BooleanField(db_default=False)
    on_deadline = models.CharField(max_length=8, db_default=OnDeadline.EXPIRE)
    validity_seconds = models.IntegerField(db_default=DEFAULT_VALIDITY_SECONDS)
    reminder_seconds = models.IntegerField(null=True)
    escalate_seconds = models.IntegerField(null=True)
    escalate_to = models.CharField(max_length=80, db_default="")
    remind_at = models.DateTimeField(null=True)
    reminded_at = models.DateTimeField(null=True)
    escalate_at = models.DateTimeField(null=True)
    escalated_at = models.DateTimeField(null=True)
    status = models.CharField(max_length=16, db_default=WaitStatus.OPEN)
    status_reason = models.CharField(max_length=500, db_default="")
    opened_fence = models.BigIntegerField()
    opened_at = models.DateTimeField(db_default=ClockTimestamp())
    deadline = models.DateTimeField()
    valid_until = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="wait_in_tenant"),
            models.UniqueConstraint(
                fields=["id", "checkpoint_revision", "checkpoint_digest", "args_digest"], name="wait_binding"
            ),
            models.UniqueConstraint(
                fields=["tool_call"], condition=Q(status__in=sorted(LIVE_WAIT)), name="one_live_wait_per_call"
            ),
            one_of("status", list(WaitStatus), "wait_status_known"),
            one_of("kind", list(WaitKind), "wait_kind_known"),
            models.CheckConstraint(
                condition=(Q(kind=WaitKind.APPROVAL) & ~Q(status=WaitStatus.ANSWERED))
                | (
                    Q(kind=WaitKind.QUESTION, quorum=1, batchable=False, on_deadline=OnDeadline.EXPIRE)
                    & ~Q(status=WaitStatus.APPROVED)
                ),
                name="wait_is_of_one_kind",
            ),
            one_of("risk", list(Risk), "wait_risk_known"),
            one_of("on_deadline", list(OnDeadline), "wait_on_deadline_known"),
            models.CheckConstraint(condition=Q(quorum__gte=1), name="wait_asks_somebody"),
            models.CheckConstraint(
                condition=Q(dwell_seconds__gte=0, validity_seconds__gte=0)
                & (Q(reminder_seconds=None) | Q(reminder_seconds__gt=0))
                & (Q(escalate_seconds=None, escalate_to="") | (Q(escalate_seconds__gt=0) & ~Q(escalate_to=""))),
                name="wait_times_sound",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-opened_at", "-id"], name="wait_newest"),
            models.Index(fields=["tenant", "deadline"], condition=Q(status="OPEN"), name="wait_open"),
            models.Index(fields=["tenant", "kind", "deadline"], condition=Q(status="OPEN"), name="wait_open_of_kind"),
            models.Index(
                fields=["tenant", "deadline"], condition=Q(status="OPEN", risk=Risk.HIGH), name="wait_open_grave"
            ),
            models.Index(fields=["deadline"], condition=Q(status="OPEN"), name="wait_due"),
            models.Index(fields=["tenant", "closed_at"], condition=Q(closed_at__isnull=False), name="wait_closed"),
            models.Index(fields=["run"], condition=Q(status__in=sorted(LIVE_WAIT)), name="wait_live"),
            models.Index(
                fields=["tenant", "policy_version"],
                condition=Q(status__in=sorted(LIVE_WAIT)),
                name="wait_by_policy",
            ),
            models.Index(
                fields=["remind_at"],
                condition=Q(status="OPEN", remind_at__isnull=False, reminded_at=None),
                name="wait_to_remind",
            ),
            models.Index(
                fields=["escalate_at"],
                condition=Q(status="OPEN", escalate_at__isnull=False, escalated_at=None),
                name="wait_to_escalate",
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=WAIT_MOVES),
            names_a_revision("checkpoint_revision", "checkpoint_digest"),
            starts_as(WaitStatus.OPEN),
            pgtrigger.ReadOnly(
                name="binding_frozen",
                fields=[
                    *(
                        "run",
                        "tool_call",
                        "kind",
                        "checkpoint_revision",
                        "checkpoint_digest",
                        "args_digest",
                        "tool_hash",
                    ),
                    *("policy_version", "policy_rule", *DEMANDED, "remind_at", "escalate_at"),
                ],
            ),
            pgtrigger.Trigger(
                name="decided_by_decision",
                when=pgtrigger.Before,
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "NEW.status IN ('APPROVED', 'REJECTED', 'ANSWERED') AND OLD.status = 'OPEN'"
                ),
                func="""
                    IF NOT EXISTS (
                        SELECT 1 FROM approvals_decision d WHERE d.wait_id = NEW.id
                        AND d.verdict = ANY (CASE NEW.status WHEN 'APPROVED' THEN '{APPROVE}'::text[]
                            WHEN 'ANSWERED' THEN '{ANSWER}' ELSE '{REJECT,DECLINE}' END))
                       OR (NEW.status = 'ANSWERED'
                           AND NOT EXISTS (SELECT 1 FROM approvals_answer a WHERE a.wait_id = NEW.id)) THEN
                        RAISE EXCEPTION 'a wait is decided by its decision only' USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            pgtrigger.Trigger(
                name="opens_between_steps",
                when=pgtrigger.Before,
                operation=pgtrigger.Insert,
                func="""
                    IF EXISTS (SELECT 1 FROM receipts_toolcall t WHERE t.run_id = NEW.run_id AND t.status = 'DISPATCHED')
                       OR EXISTS (SELECT 1 FROM receipts_modelcall m
                                  WHERE m.run_id = NEW.run_id AND m.status = 'DISPATCHED') THEN
                        RAISE EXCEPTION 'a wait opens only while nothing of its run is on the wire'
                            USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"wait {self.status}"
