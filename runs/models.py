"""Identity, eligibility, status, stop requests, budgets, messages, wakeups and refused writes."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, append_only, no_delete, one_of
from runs.states import (
    CONTROL_MOVES,
    ENDED_RUN,
    LIVE_RUN,
    OPEN_CONTROL,
    RUN_MOVES,
    WAKEUP_MOVES,
    BudgetEntryKind,
    BudgetUnit,
    ControlStatus,
    HoldReason,
    RecoveryPolicy,
    RefusalKind,
    RunStatus,
    WakeupCause,
    WakeupStatus,
)


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
    manifest_digest = models.CharField(max_length=64)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["agent", "manifest_digest"], name="agent_manifest_once")
        ]
        triggers: ClassVar = [append_only()]

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

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    media_type = models.CharField(max_length=100)
    body = models.BinaryField()
    data_key_id = models.UUIDField()
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant", "sha256"], name="artifact_once")]
        triggers: ClassVar = [append_only()]

    def __str__(self) -> str:
        return self.sha256


class Run(models.Model):
    """One admitted execution."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="runs")
    agent_version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT)
    lineage_id = models.UUIDField()
    title = models.CharField(max_length=200)
    status = models.CharField(max_length=16, db_default=RunStatus.QUEUED)
    hold_reason = models.CharField(max_length=32, null=True)
    hold_detail = models.CharField(max_length=500, db_default="")
    recovery_policy = models.CharField(max_length=16, db_default=RecoveryPolicy.RESUME_IN_PLACE)
    admission_key = models.CharField(max_length=200)
    takeovers = models.IntegerField(db_default=0)
    max_takeovers = models.IntegerField(db_default=5)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=500, db_default="")
    settlement = models.JSONField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="run_in_tenant"),
            models.UniqueConstraint(fields=["tenant", "admission_key"], name="run_admission_once"),
            models.UniqueConstraint(
                fields=["thread"], condition=Q(status__in=sorted(LIVE_RUN)), name="one_live_run_per_thread"
            ),
            one_of("status", list(RunStatus), "run_status_known"),
            one_of("recovery_policy", list(RecoveryPolicy), "run_policy_known"),
            models.CheckConstraint(
                condition=Q(status="HELD", hold_reason__in=list(HoldReason))
                | (~Q(status="HELD") & Q(hold_reason=None)),
                name="run_held_has_reason",
            ),
            models.CheckConstraint(
                condition=Q(status__in=sorted(ENDED_RUN), ended_at__isnull=False)
                | Q(status__in=sorted(LIVE_RUN), ended_at__isnull=True),
                name="run_end_is_dated",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-created_at", "-id"], name="run_newest"),
            models.Index(fields=["tenant", "status", "-created_at", "-id"], name="run_by_status"),
            models.Index(
                fields=["status"], condition=Q(status__in=["QUEUED", "RUNNING", "STOPPING"]), name="run_to_sweep"
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=RUN_MOVES),
            no_delete(),
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
        triggers: ClassVar = [append_only()]

    def __str__(self) -> str:
        return f"{self.name}: {self.filename}"


class Lease(models.Model):
    """Who may continue a run now. The fence rises by one at each acquisition and never falls."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.PROTECT, related_name="lease")
    fence = models.BigIntegerField(db_default=0)
    owner = models.CharField(max_length=200, null=True)
    acquired_at = models.DateTimeField(null=True)
    renewed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    step_deadline = models.DateTimeField(null=True)
    stop_requested = models.BooleanField(db_default=False)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(fence__gte=0), name="lease_fence_not_negative"),
            models.CheckConstraint(
                condition=Q(owner=None, expires_at=None) | Q(owner__isnull=False, expires_at__isnull=False),
                name="lease_owner_has_expiry",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="lease_held")
        ]
        triggers: ClassVar = [
            pgtrigger.Trigger(
                name="fence_rises",
                when=pgtrigger.Before,
                operation=pgtrigger.Update,
                func="""
                    IF NEW.fence < OLD.fence THEN
                        RAISE EXCEPTION 'a fence never falls' USING ERRCODE = 'check_violation';
                    END IF;
                    IF NEW.owner IS NOT NULL AND NEW.owner IS DISTINCT FROM OLD.owner
                       AND NEW.fence <> OLD.fence + 1 THEN
                        RAISE EXCEPTION 'an acquisition raises the fence by one' USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            no_delete(),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} fence {self.fence}"


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
        triggers: ClassVar = [append_only()]

    def __str__(self) -> str:
        return f"{self.from_status} to {self.to_status}"


class ControlRequest(models.Model):
    """A stop, in three times: accepted, adopted, settled."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="controls")
    kind = models.CharField(max_length=8, db_default="STOP")
    status = models.CharField(max_length=16, db_default=ControlStatus.ACCEPTED)
    reason = models.TextField()
    requested_by = models.CharField(max_length=200)
    accepted_at = models.DateTimeField(db_default=ClockTimestamp())
    adopted_at = models.DateTimeField(null=True)
    adopted_fence = models.BigIntegerField(null=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            one_of("kind", ["STOP"], "control_kind_known"),
            one_of("status", list(ControlStatus), "control_status_known"),
            models.UniqueConstraint(
                fields=["run", "kind"], condition=Q(status__in=sorted(OPEN_CONTROL)), name="one_open_control"
            ),
            models.CheckConstraint(
                condition=~Q(status="ADOPTED") | Q(adopted_at__isnull=False), name="control_adopted_is_dated"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["SETTLED", "MOOT"], settled_at__isnull=False)
                | Q(status__in=["ACCEPTED", "ADOPTED"], settled_at__isnull=True),
                name="control_settled_is_dated",
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=CONTROL_MOVES),
            no_delete(),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.status}"


class Budget(models.Model):
    """A run's cap on one unit, and what of it is reserved, held for unknown outcomes, and spent."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="budgets")
    unit = models.CharField(max_length=16)
    cap = models.BigIntegerField()
    reserved = models.BigIntegerField(db_default=0)
    held_unknown = models.BigIntegerField(db_default=0)
    spent = models.BigIntegerField(db_default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "unit"], name="budget_unit_once"),
            one_of("unit", list(BudgetUnit), "budget_unit_known"),
            models.CheckConstraint(
                condition=Q(cap__gte=0, reserved__gte=0, held_unknown__gte=0, spent__gte=0),
                name="budget_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.unit} {self.spent} of {self.cap}"


class BudgetEntry(models.Model):
    """One movement of a budget, for one attempt of one receipt."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT)
    unit = models.CharField(max_length=16)
    receipt_id = models.UUIDField()
    attempt_no = models.IntegerField()
    kind = models.CharField(max_length=16)
    amount = models.BigIntegerField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["receipt_id", "attempt_no", "unit", "kind"], name="budget_entry_once"),
            one_of("kind", list(BudgetEntryKind), "budget_entry_kind_known"),
        ]
        triggers: ClassVar = [append_only()]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount} {self.unit}"


class Message(models.Model):
    """What a person said in a thread, or a notice that the model hears with its next request."""

    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="messages")
    run = models.ForeignKey(Run, on_delete=models.PROTECT)
    seq = models.BigIntegerField()
    role = models.CharField(max_length=16)
    after_turn = models.IntegerField(db_default=0)
    sha256 = models.CharField(max_length=64)
    body = models.BinaryField()
    data_key_id = models.UUIDField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["thread", "seq"], name="message_seq_once"),
            one_of("role", ["user", "notice"], "message_role_known"),
        ]
        triggers: ClassVar = [append_only()]

    def __str__(self) -> str:
        return f"{self.role} {self.seq}"


class Wakeup(models.Model):
    """A durable reason to look at a run again. The queue only carries hints of it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="wakeups")
    wait_id = models.UUIDField(null=True)
    cause = models.CharField(max_length=16)
    dedupe_key = models.CharField(max_length=200, unique=True)
    status = models.CharField(max_length=16, db_default=WakeupStatus.PENDING)
    consumed_fence = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            one_of("cause", list(WakeupCause), "wakeup_cause_known"),
            one_of("status", list(WakeupStatus), "wakeup_status_known"),
            models.CheckConstraint(
                condition=Q(status="CONSUMED", consumed_fence__isnull=False)
                | (~Q(status="CONSUMED") & Q(consumed_fence=None)),
                name="wakeup_consumed_under_fence",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["run"], condition=Q(status="PENDING"), name="wakeup_pending"),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=WAKEUP_MOVES),
            no_delete(),
        ]

    def __str__(self) -> str:
        return self.dedupe_key


class Refusal(models.Model):
    """A write or a resume that was refused, and why. Never holds the refused content."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="refusals")
    kind = models.CharField(max_length=32)
    fence = models.BigIntegerField(null=True)
    expected_revision = models.IntegerField(null=True)
    actual_revision = models.IntegerField(null=True)
    subject_id = models.UUIDField(null=True)
    evidence_digest = models.CharField(max_length=64, null=True)
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [one_of("kind", list(RefusalKind), "refusal_kind_known")]
        triggers: ClassVar = [append_only()]

    def __str__(self) -> str:
        return self.kind
