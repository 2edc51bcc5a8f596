"""The handoff notes of a run, its one resumable head, the saves that were tried, and what stands beside the head."""

from typing import ClassVar, get_args

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.models import (
    ClockTimestamp,
    Tenant,
    among,
    append_only,
    no_delete,
    no_truncate,
    one_of,
    rule,
    starts_without,
)
from checkpoints.states import (
    PHASE_KEEPING_TRIGGERS,
    PHASE_MOVES,
    SAVE_MOVES,
    Encoding,
    Phase,
    SaveRefusal,
    SaveStatus,
    Trigger,
)
from receipts.models import ToolCall
from runs.models import Run

_MOVES = ",".join(f"{start}:{end}" for start, end in PHASE_MOVES)
_KEEPING = ", ".join(f"'{trigger}'" for trigger in sorted(PHASE_KEEPING_TRIGGERS))


def names_a_revision(
    revision: str, digest: str, operation: pgtrigger.Operation = pgtrigger.Insert | pgtrigger.Update
) -> pgtrigger.Trigger:
    """The trigger of a row that names a stored revision of its run by number and digest, asked at the end of the transaction.

    A foreign key would need an index of its own for each revision and lock the row. Revisions are never deleted and their
    envelopes never change, so that it is there once is enough.
    """
    return pgtrigger.Trigger(
        name="names_a_revision",
        when=pgtrigger.After,
        timing=pgtrigger.Deferred,
        operation=operation,
        func=f"""
            IF NOT EXISTS (SELECT FROM checkpoints_checkpoint c WHERE c.run_id = NEW.run_id
                           AND c.revision = NEW.{revision} AND c.digest = NEW.{digest}) THEN
                RAISE EXCEPTION '% names a revision that is not stored with that digest', TG_TABLE_NAME
                    USING ERRCODE = 'foreign_key_violation';
            END IF;
            RETURN NULL;
        """,
    )


class Checkpoint(models.Model):
    """One immutable revision. The digest covers the canonical body, chained to the parent's."""

    save_id = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="checkpoints", db_constraint=False, db_index=False
    )
    revision = models.IntegerField()
    parent_digest = models.CharField(max_length=64, null=True)
    format_version = models.IntegerField()
    phase = models.CharField(max_length=24)
    next_node = models.CharField(max_length=128)
    trigger = models.CharField(max_length=16)
    fence = models.BigIntegerField()
    intent_version = models.IntegerField()
    digest = models.CharField(max_length=64)
    encoding = models.CharField(max_length=8, db_default=Encoding.FULL)
    body = models.BinaryField(null=True)
    data_key_id = models.UUIDField()
    body_bytes = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    purged_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "revision"], name="checkpoint_revision_once"),
            rule("checkpoint_revision_positive", "revision > 0"),
            rule("checkpoint_has_parent", "(revision = 1) = (parent_digest IS NULL)"),
            rule("checkpoint_digest_form", "length(digest) = 64 AND ltrim(digest, '0123456789abcdef') = ''"),
            rule("checkpoint_purge_is_dated", "(body IS NULL) = (purged_at IS NOT NULL)"),
            rule("checkpoint_encoding_known", among("encoding", Encoding)),
            rule("checkpoint_first_is_full", "revision > 1 OR encoding = 'FULL'"),
            rule("checkpoint_phase_known", among("phase", Phase)),
            rule("checkpoint_trigger_known", among("trigger", Trigger)),
        ]
        triggers: ClassVar = [
            pgtrigger.ReadOnly(name="envelope_frozen", exclude=["body", "data_key_id", "purged_at"]),
            pgtrigger.Trigger(
                name="chain_kept",
                when=pgtrigger.After,  # of the whole statement, so that it may purge a chain in any order
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.body IS NOT NULL AND NEW.body IS NULL"),
                func="""
                    IF EXISTS (SELECT 1 FROM checkpoints_head h
                               WHERE h.run_id = OLD.run_id AND h.revision = OLD.revision) THEN
                        RAISE EXCEPTION 'the head of a run keeps its body' USING ERRCODE = 'check_violation';
                    END IF;
                    IF EXISTS (SELECT 1 FROM checkpoints_checkpoint c WHERE c.run_id = OLD.run_id
                               AND c.revision = OLD.revision + 1 AND c.encoding = 'DELTA' AND c.body IS NOT NULL) THEN
                        RAISE EXCEPTION 'the next revision is stored as what changed since this one'
                            USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"revision {self.revision}"


class Head(models.Model):
    """The one resumable revision of a run. Moves by exactly one, and not while a wait is live."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.PROTECT, related_name="head")
    revision = models.IntegerField()
    digest = models.CharField(max_length=64)
    phase = models.CharField(max_length=24)
    trigger = models.CharField(max_length=16)

    class Meta:
        triggers: ClassVar = [
            pgtrigger.Trigger(
                name="starts_at_one",
                when=pgtrigger.Before,
                operation=pgtrigger.Insert,
                func="""
                    IF NEW.revision <> 1 OR NEW.phase <> 'READY_TO_DECIDE' THEN
                        RAISE EXCEPTION 'a first head is revision 1, READY_TO_DECIDE'
                            USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            pgtrigger.Trigger(
                name="moves_by_one",
                when=pgtrigger.After,
                operation=pgtrigger.Update,
                func=f"""
                    IF NEW.revision <> OLD.revision + 1 THEN
                        RAISE EXCEPTION 'a head moves by exactly one' USING ERRCODE = 'check_violation';
                    END IF;
                    IF OLD.phase || ':' || NEW.phase <> ALL ('{{{_MOVES}}}')
                       AND NOT (OLD.phase = NEW.phase AND NEW.trigger IN ({_KEEPING})
                                AND OLD.phase NOT IN ('FINISHED', 'STOPPED')) THEN
                        RAISE EXCEPTION 'illegal phase move % to %', OLD.phase, NEW.phase
                            USING ERRCODE = 'check_violation';
                    END IF;
                    SELECT EXISTS (SELECT FROM approvals_wait w
                                   WHERE w.run_id = NEW.run_id AND w.status IN ('OPEN', 'APPROVED', 'REJECTED', 'ANSWERED')),
                           EXISTS (SELECT FROM checkpoints_checkpoint c WHERE c.run_id = NEW.run_id
                                   AND c.revision = NEW.revision AND c.digest = NEW.digest) INTO frozen, stored;
                    IF frozen THEN
                        RAISE EXCEPTION 'a head is frozen while a wait is live' USING ERRCODE = 'check_violation';
                    END IF;
                    IF NOT stored THEN
                        RAISE EXCEPTION 'a head names a revision that is not stored with that digest'
                            USING ERRCODE = 'foreign_key_violation';
                    END IF;
                    RETURN NULL;
                """,  # noqa: S608  the literals are this app's own states
                declare=[("frozen", "boolean"), ("stored", "boolean")],
            ),
            names_a_revision("revision", "digest", operation=pgtrigger.Insert),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} at {self.revision}"


class SaveAttempt(models.Model):
    """A save that was refused, or whose acknowledgement was lost, and what a probe found. An acknowledged save has none.

    Never holds the refused content: its place and its digest.
    """

    save_id = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="save_attempts")
    trigger = models.CharField(max_length=16)
    expected_revision = models.IntegerField()
    fence = models.BigIntegerField()
    status = models.CharField(max_length=16)
    kind = models.CharField(max_length=32, null=True)
    path = models.CharField(max_length=500, db_default="")
    why = models.CharField(max_length=500, db_default="")
    evidence_digest = models.CharField(max_length=64, null=True)
    at = models.DateTimeField(db_default=ClockTimestamp())
    resolved_at = models.DateTimeField(null=True)
    resolved_fence = models.BigIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            one_of("trigger", list(Trigger), "save_attempt_trigger_known"),
            one_of("status", list(SaveStatus), "save_attempt_status_known"),
            models.CheckConstraint(
                condition=Q(kind=None) | Q(kind__in=list(get_args(SaveRefusal))), name="save_attempt_kind_known"
            ),
            models.CheckConstraint(
                condition=Q(resolved_at=None, resolved_fence=None)
                & (Q(status="UNKNOWN", kind=None) | Q(status="NOT_SAVED", kind__isnull=False))
                | Q(
                    resolved_at__isnull=False,
                    resolved_fence__isnull=False,
                    status__in=["SAVED", "NOT_SAVED"],
                    kind=None,
                ),
                name="save_attempt_refused_or_probed",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["run", "-at"], name="save_attempts_of_run"),
            models.Index(fields=["run"], condition=Q(status="UNKNOWN"), name="save_attempt_unknown"),
        ]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=SAVE_MOVES),
            starts_without("NEW.resolved_at IS NOT NULL"),
            pgtrigger.ReadOnly(name="attempt_frozen", exclude=["status", "resolved_at", "resolved_fence"]),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.status} at {self.expected_revision}"


class TaskWrite(models.Model):
    """What one call of a super-step gave while others were still out: never repeated, and not a revision (F20)."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="task_writes", db_index=False)
    base_revision = models.IntegerField()
    tool_call = models.OneToOneField(ToolCall, on_delete=models.PROTECT, related_name="task_write")
    digest = models.CharField(max_length=64)
    fence = models.BigIntegerField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        indexes: ClassVar = [models.Index(fields=["run", "base_revision"], name="task_writes_of_step")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"task write at {self.base_revision}"


class Lapse(models.Model):
    """What a call observed does not hold any more: it had passed its half-life when a run was about to rest on it."""

    tool_call = models.OneToOneField(ToolCall, primary_key=True, on_delete=models.PROTECT, related_name="lapse")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="lapses")
    # Without the epoch: what is read again goes under this name with the next one.
    step_name = models.CharField(max_length=200)
    observed_at = models.DateTimeField()
    half_life_seconds = models.FloatField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        indexes: ClassVar = [models.Index(fields=["run", "at"], name="lapses_of_run")]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(half_life_seconds__gt=0), name="lapse_half_life_positive"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.step_name} lapsed"
