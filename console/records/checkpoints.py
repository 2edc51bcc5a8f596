"""Records of checkpoints: the envelope of a revision, its verified body, and where two of them differ."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.errors import Refused
from accounts.states import Actor
from checkpoints.errors import Purged, Unreadable, unreadable_refusal
from checkpoints.models import Checkpoint
from checkpoints.selectors import Difference, access_checkpoint, checkpoint_view, snapshot_diff
from checkpoints.states import Phase, Stage, Trigger, stage_of
from runs.models import Run


class RevisionUnreadable(Refused):
    """Nothing is shown of revision {revision}: {found}."""

    code = "REVISION_UNREADABLE"


class CheckpointRecord(serializers.Serializer[Any]):
    """The envelope of one revision. Only the head can be resumed."""

    run = serializers.UUIDField(source="run_id")
    revision = serializers.IntegerField()
    is_head = serializers.SerializerMethodField()
    digest = serializers.CharField()
    parent_digest = serializers.CharField(allow_null=True)
    format_version = serializers.IntegerField()
    phase = serializers.ChoiceField(choices=list(Phase))
    stage = serializers.SerializerMethodField()
    next_node = serializers.CharField()
    trigger = serializers.ChoiceField(choices=list(Trigger))
    fence = serializers.IntegerField()
    goal_version = serializers.IntegerField(source="intent_version")
    body_bytes = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    purged_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.ChoiceField(choices=list(Stage)))
    def get_stage(self, checkpoint: Checkpoint) -> str:
        return stage_of(checkpoint.phase)

    def get_is_head(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.run.head.revision == checkpoint.revision


@dataclass(frozen=True)
class CheckpointReading:
    """One revision as it was read: `body` when its digest held, or else why there is none."""

    checkpoint: Checkpoint
    body: dict[str, Any] | None
    error: Unreadable | None

    @property
    def unreadable(self) -> str | None:
        """What was found instead of the body."""
        return self.error.found if self.error else None


class CheckpointDetail(CheckpointRecord):
    """One revision with its handoff note. `body` is null where `unreadable` says why."""

    unreadable = serializers.CharField(allow_null=True)
    body = serializers.DictField(allow_null=True)

    def to_representation(self, instance: CheckpointReading) -> dict[str, Any]:
        envelope = CheckpointRecord(instance.checkpoint).data
        return {**envelope, "unreadable": instance.unreadable, "body": instance.body}


class DifferenceRecord(serializers.Serializer[Difference]):
    """One place where two revisions differ; null where the place does not exist."""

    path = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


@dataclass(frozen=True)
class Comparison:
    """Two revisions of a run and every place where they differ."""

    before: Checkpoint
    after: Checkpoint
    differences: list[Difference]


class ComparisonRecord(serializers.Serializer[Comparison]):
    """Two revisions of a run and every place where they differ."""

    before = CheckpointRecord()
    after = CheckpointRecord()
    differences = DifferenceRecord(many=True)


def checkpoint_rows(run: Run) -> QuerySet[Checkpoint]:
    """The revisions of a run, oldest first, with what their records need, in one query."""
    rows = Checkpoint.objects.filter(run=run).defer("body").select_related("run__head")
    return rows.order_by("revision")


def checkpoint_at(run: Run, moment: datetime) -> QuerySet[Checkpoint]:
    """The revision that was the head of a run at a moment; none where the run did not exist yet (D-016)."""
    newest = Checkpoint.objects.filter(run=run, created_at__lte=moment).order_by("-revision").values("revision")[:1]
    return checkpoint_rows(run).filter(revision__in=newest)


def checkpoint_read(*, actor: Actor, run_id: UUID, revision: int) -> CheckpointReading:
    """Read one revision and verify its digest. Raises NotFound."""
    checkpoint = access_checkpoint(actor=actor, run_id=run_id, revision=revision)
    try:
        return CheckpointReading(checkpoint, checkpoint_view(checkpoint), None)
    except Unreadable as error:
        return CheckpointReading(checkpoint, None, error)


def checkpoints_compared(*, actor: Actor, run_id: UUID, before: int, after: int) -> Comparison | Refused:
    """Where two revisions of a run differ; refused where one can't be read. Raises NotFound."""
    readings = [checkpoint_read(actor=actor, run_id=run_id, revision=revision) for revision in (before, after)]
    for reading in readings:
        if isinstance(reading.error, Purged):
            return unreadable_refusal(reading.error)
        if reading.error:
            return RevisionUnreadable({"revision": reading.checkpoint.revision, "found": reading.error.found})
    old, new = readings
    return Comparison(old.checkpoint, new.checkpoint, snapshot_diff(old.body, new.body))
