"""Who may continue a run, who asked to stop it, and what wakes it."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant, no_delete, no_truncate, one_of, starts_as, starts_without
from runs.models.run import Run
from runs.models.scope import ScopeControl
from runs.states import (
    CONTROL_MOVES,
    OPEN_CONTROL,
    WAKEUP_MOVES,
    ControlKind,
    ControlStatus,
    WakeupCause,
    WakeupStatus,
)


class Lease(models.Model):
    """Who may continue a run now. The fence rises by one at each acquisition and never falls."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.PROTECT, related_name="lease")
    fence = models.BigIntegerField(db_default=0)
    owner = models.CharField(max_length=200, null=True)
    acquired_at = models.DateTimeField(null=True)
    renewed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    step_deadline = models.DateTimeField(null=True)
    # The advisory lock that the holder's process has; None where only the time counts (the liveness hint).
    lock_key = models.IntegerField(null=True)
    stop_requested = models.BooleanField(db_default=False)
    pause_requested = models.BooleanField(db_default=False)
    # How often somebody has told the run something that its worker has to read before it asks the model again.
    news = models.BigIntegerField(db_default=0)

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
            starts_without("NEW.fence <> 0 OR NEW.owner IS NOT NULL OR NEW.stop_requested OR NEW.pause_requested"),
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
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} fence {self.fence}"


class ControlRequest(models.Model):
    """A stop or a pause, in three times: accepted, adopted, settled."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="controls")
    kind = models.CharField(max_length=8, db_default=ControlKind.STOP)
    status = models.CharField(max_length=16, db_default=ControlStatus.ACCEPTED)
    reason = models.TextField()
    requested_by = models.CharField(max_length=200)
    accepted_at = models.DateTimeField(db_default=ClockTimestamp())
    adopted_at = models.DateTimeField(null=True)
    adopted_fence = models.BigIntegerField(null=True)
    settled_at = models.DateTimeField(null=True)
    # Who has had a stop not wait for what was on the wire, and why.
    aborted_at = models.DateTimeField(null=True)
    aborted_by = models.CharField(max_length=200, db_default="")
    abort_reason = models.TextField(db_default="")
    # The stop or pause of the parent that this one follows from.
    cascade_of = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="cascade")
    # The act on a whole scope that this one carries out.
    scope_control = models.ForeignKey(ScopeControl, on_delete=models.PROTECT, null=True, related_name="requests")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="control_in_tenant"),
            one_of("kind", list(ControlKind), "control_kind_known"),
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
            models.CheckConstraint(
                condition=Q(aborted_at=None, aborted_by="", abort_reason="")
                | (Q(kind="STOP", aborted_at__isnull=False) & ~Q(aborted_by="") & ~Q(abort_reason="")),
                name="control_abort_is_of_a_stop",
            ),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=CONTROL_MOVES),
            starts_as(ControlStatus.ACCEPTED),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.status}"


class SweepFailure(models.Model):
    """A run that the sweep fails on: what it tried, and what came of it. It is gone once a sweep gets past it.

    Not a fact of the run: the one table here whose rows are deleted.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="sweep_failures")
    step = models.CharField(max_length=32)
    error = models.CharField(max_length=500)
    times = models.IntegerField(db_default=1)
    first_at = models.DateTimeField(db_default=ClockTimestamp())
    last_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["run", "step"], name="sweep_failure_once")]

    def __str__(self) -> str:
        return f"{self.step}: {self.error}"


class SweepMark(models.Model):
    """When the sweep last ended: one row, so that pages can say that nobody sweeps."""

    single = models.BooleanField(primary_key=True, default=True, editable=False)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(single=True), name="sweep_mark_once")]

    def __str__(self) -> str:
        return f"swept at {self.at}"


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
            starts_as(WakeupStatus.PENDING),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return self.dedupe_key
