"""Records of what was written about a run on its way: moves, turns, wakeups, refused writes, saves, lapsed facts, task writes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch, QuerySet
from rest_framework import serializers

from checkpoints.models import Lapse, SaveAttempt, TaskWrite
from checkpoints.states import SaveStatus, Trigger
from console.records.calls import AttemptRecord
from receipts.models import Attempt, ModelCall, Proposal
from receipts.states import Disposition, ModelCallStatus
from runs.models import Refusal, Run, RunTransition, Wakeup
from runs.states import RefusalKind, RunStatus, WakeupCause, WakeupStatus


class TransitionRecord(serializers.Serializer[RunTransition]):
    """One move of a run's status: why, by whom, and under which fence where a worker did it."""

    id = serializers.IntegerField()
    from_status = serializers.ChoiceField(choices=list(RunStatus), allow_null=True)
    to_status = serializers.ChoiceField(choices=list(RunStatus))
    cause = serializers.CharField()
    detail = serializers.CharField()
    by = serializers.CharField(source="actor")
    fence = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField()


class RefusalRecord(serializers.Serializer[Refusal]):
    """A write or a resume that was refused. It names what was refused by id and digest, and never holds it."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=list(RefusalKind))
    subject = serializers.UUIDField(source="subject_id", allow_null=True)
    fence = serializers.IntegerField(allow_null=True)
    expected_revision = serializers.IntegerField(allow_null=True)
    actual_revision = serializers.IntegerField(allow_null=True)
    evidence_digest = serializers.CharField(allow_null=True)
    detail = serializers.DictField()
    at = serializers.DateTimeField()


class SaveRecord(serializers.Serializer[SaveAttempt]):
    """A save that was refused (`kind`, `path`, `why`), or whose acknowledgement was lost, and what a probe found.

    An acknowledged save has no row here: its checkpoint carries its save id.
    """

    save_id = serializers.UUIDField()
    trigger = serializers.ChoiceField(choices=list(Trigger))
    expected_revision = serializers.IntegerField()
    fence = serializers.IntegerField()
    status = serializers.ChoiceField(choices=list(SaveStatus))
    kind = serializers.CharField(allow_null=True)
    path = serializers.CharField()
    why = serializers.CharField()
    evidence_digest = serializers.CharField(allow_null=True)
    at = serializers.DateTimeField()
    resolved_at = serializers.DateTimeField(allow_null=True)
    resolved_fence = serializers.IntegerField(allow_null=True)


class LapseRecord(serializers.Serializer[Lapse]):
    """An observation that had passed its half-life when the run was about to rest on it."""

    call = serializers.UUIDField(source="tool_call_id")
    step = serializers.CharField(source="step_name")
    observed_at = serializers.DateTimeField()
    half_life_seconds = serializers.FloatField()
    at = serializers.DateTimeField()


class ProposalRecord(serializers.Serializer[Proposal]):
    """One proposal of a sealed turn, and what became of it."""

    ordinal = serializers.IntegerField()
    tool = serializers.CharField()
    args_digest = serializers.CharField()
    disposition = serializers.ChoiceField(choices=list(Disposition))
    call = serializers.UUIDField(source="tool_call_id", allow_null=True)
    refusal = serializers.CharField()


class TurnRecord(serializers.Serializer[ModelCall]):
    """One turn asked of the model: by digests, never by its words."""

    id = serializers.UUIDField()
    turn_no = serializers.IntegerField()
    at_revision = serializers.IntegerField()
    status = serializers.ChoiceField(choices=list(ModelCallStatus))
    model = serializers.CharField()
    request_digest = serializers.CharField()
    response_digest = serializers.CharField(allow_null=True)
    response_id = serializers.CharField()
    input_tokens = serializers.IntegerField(allow_null=True)
    output_tokens = serializers.IntegerField(allow_null=True)
    attempts = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    sealed_at = serializers.DateTimeField(allow_null=True)
    sealed_fence = serializers.IntegerField(allow_null=True)
    tries = AttemptRecord(many=True)
    proposals = ProposalRecord(many=True)


class WakeupRecord(serializers.Serializer[Wakeup]):
    """A stored reason to look at the run again, and the fence under which it was consumed."""

    id = serializers.UUIDField()
    cause = serializers.ChoiceField(choices=list(WakeupCause))
    status = serializers.ChoiceField(choices=list(WakeupStatus))
    wait = serializers.UUIDField(source="wait_id", allow_null=True)
    consumed_fence = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()


class TaskRecord(serializers.Serializer[TaskWrite]):
    """What one call of a super-step gave while others were still out: beside the revision, and not one."""

    id = serializers.IntegerField()
    base_revision = serializers.IntegerField()
    call = serializers.UUIDField(source="tool_call_id")
    digest = serializers.CharField()
    fence = serializers.IntegerField()
    at = serializers.DateTimeField()


def _turns(run: Run) -> QuerySet[ModelCall]:
    """The turns of a run with what their records need, in three queries."""
    tries = Prefetch("tries", Attempt.objects.order_by("attempt_no"))
    proposals = Prefetch("proposals", Proposal.objects.order_by("ordinal"))
    return ModelCall.objects.filter(run=run).prefetch_related(tries, proposals)


@dataclass(frozen=True)
class RunList:
    """One list of what was written about a run: its rows, the order in which they were written, and their record."""

    rows: Callable[[Run], QuerySet[Any]]
    order: tuple[str, ...]
    record: type[serializers.Serializer[Any]]


TRANSITIONS = RunList(lambda run: RunTransition.objects.filter(run=run), ("id",), TransitionRecord)
TURNS = RunList(_turns, ("turn_no",), TurnRecord)
TASKS = RunList(lambda run: TaskWrite.objects.filter(run=run), ("id",), TaskRecord)
WAKEUPS = RunList(lambda run: Wakeup.objects.filter(run=run), ("created_at", "id"), WakeupRecord)
REFUSALS = RunList(lambda run: Refusal.objects.filter(run=run), ("id",), RefusalRecord)
SAVES = RunList(lambda run: SaveAttempt.objects.filter(run=run), ("at", "save_id"), SaveRecord)
LAPSES = RunList(lambda run: Lapse.objects.filter(run=run), ("at", "tool_call_id"), LapseRecord)
