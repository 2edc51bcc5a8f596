"""Records of runs: where a run stands, what it waits for, what it called, what it promised and what it published."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Prefetch, prefetch_related_objects
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from approvals.models import Wait
from checkpoints.models import Commitment, Intent, Obligation
from checkpoints.states import Phase
from console.records.calls import CallSummary
from console.records.commitments import CommitmentRecord
from console.records.obligations import ObligationRecord
from console.records.reports import ReportVersionSummary, version_rows
from console.records.waits import WaitSummary
from receipts.models import ReportVersion, ToolCall
from runs.models import Budget, ControlRequest, Refusal, Run, RunInput
from runs.selectors import hold_refusal
from runs.states import (
    GUARD_OF,
    BudgetUnit,
    ControlKind,
    ControlStatus,
    HoldReason,
    NextAct,
    Origin,
    RecoveryPolicy,
    RunStatus,
    next_acts,
)


class RunRecord(serializers.Serializer[Run]):
    """A run as a list shows it. A queued run with `due_at` waits until then for its next try. `phase`, `revision` and `digest` are those of its head, the one resumable checkpoint."""

    id = serializers.UUIDField()
    title = serializers.CharField()
    status = serializers.ChoiceField(choices=list(RunStatus))
    hold_reason = serializers.ChoiceField(choices=list(HoldReason), allow_null=True)
    hold_detail = serializers.CharField()
    due_at = serializers.DateTimeField(allow_null=True)
    phase = serializers.ChoiceField(source="head.phase", choices=list(Phase))
    revision = serializers.IntegerField(source="head.revision")
    digest = serializers.CharField(source="head.digest")
    agent = serializers.CharField(source="agent_version.agent.key")
    agent_version = serializers.CharField(source="agent_version.version")
    thread = serializers.CharField(source="thread.key")
    thread_id = serializers.UUIDField()
    workspace = serializers.UUIDField(source="workspace_id", allow_null=True)
    tags = serializers.SerializerMethodField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    end_reason = serializers.CharField()
    waits = WaitSummary(many=True)
    calls = CallSummary(source="tool_calls", many=True)

    def get_tags(self, run: Run) -> list[str]:
        return sorted(one.tag for one in run.tags.all())


class InputRecord(serializers.Serializer[RunInput]):
    """One named upload."""

    name = serializers.CharField()
    filename = serializers.CharField()
    sha256 = serializers.CharField()
    size = serializers.IntegerField()


class ControlRecord(serializers.Serializer[ControlRequest]):
    """A stop or a pause in its three times: accepted, adopted by the worker, settled. `aborted_at` says since when nobody waits for what was on the wire."""

    id = serializers.UUIDField()
    status = serializers.ChoiceField(choices=list(ControlStatus))
    reason = serializers.CharField()
    by = serializers.CharField(source="requested_by")
    accepted_at = serializers.DateTimeField()
    adopted_at = serializers.DateTimeField(allow_null=True)
    settled_at = serializers.DateTimeField(allow_null=True)
    scope_control = serializers.UUIDField(source="scope_control_id", allow_null=True)
    aborted_at = serializers.DateTimeField(allow_null=True)
    aborted_by = serializers.CharField()
    abort_reason = serializers.CharField()


class BudgetRecord(serializers.Serializer[Budget]):
    """What of a unit is reserved, held for unknown outcomes, and spent, and its cap; null: nothing is refused."""

    unit = serializers.ChoiceField(choices=list(BudgetUnit))
    cap = serializers.IntegerField(allow_null=True)
    reserved = serializers.IntegerField()
    held_unknown = serializers.IntegerField()
    spent = serializers.IntegerField()


class GoalRecord(serializers.Serializer[Intent]):
    """One version of the goal, with who revised it and why."""

    version = serializers.IntegerField()
    goal = serializers.CharField()
    by = serializers.CharField(source="revised_by")
    reason = serializers.CharField()
    at = serializers.DateTimeField()


class HoldRecord(serializers.Serializer[Refusal]):
    """The refusal of the resume guard that holds a run. `guard` is its number in the order in which they are asked."""

    guard = serializers.SerializerMethodField()
    kind = serializers.CharField()
    subject = serializers.UUIDField(source="subject_id", allow_null=True)
    fence = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField()

    def get_guard(self, refusal: Refusal) -> int:
        return GUARD_OF[refusal.kind]


class RunDetail(RunRecord):
    """A run with everything around it. `goal` is the newest of `goals`, `stop` and `pause` the newest that were asked for.

    `held_by` is the guard that holds it, `next_acts` what a person can do about it now, what helps it on first.
    """

    goal = serializers.SerializerMethodField()
    goals = GoalRecord(source="intents", many=True)
    stop = serializers.SerializerMethodField()
    pause = serializers.SerializerMethodField()
    inputs = InputRecord(many=True)
    obligations = ObligationRecord(many=True)
    commitments = CommitmentRecord(many=True)
    reports = ReportVersionSummary(source="report_versions", many=True)
    budgets = BudgetRecord(many=True)
    origin = serializers.ChoiceField(choices=list(Origin))
    lineage = serializers.UUIDField(source="lineage_id")
    parent_run = serializers.UUIDField(source="parent_run_id", allow_null=True)
    continued_from = serializers.UUIDField(source="continued_from_id", allow_null=True)
    forked_from = serializers.UUIDField(source="forked_from_id", allow_null=True)
    forked_from_revision = serializers.IntegerField(allow_null=True)
    recovery_policy = serializers.ChoiceField(choices=list(RecoveryPolicy))
    takeovers = serializers.IntegerField()
    max_takeovers = serializers.IntegerField()
    fence = serializers.IntegerField(source="lease.fence")
    worker = serializers.CharField(source="lease.owner", allow_null=True)
    settlement = serializers.DictField(allow_null=True)
    held_by = serializers.SerializerMethodField()
    next_acts = serializers.SerializerMethodField()

    @extend_schema_field(HoldRecord(allow_null=True))
    def get_held_by(self, run: Run) -> dict[str, Any] | None:
        refusal = hold_refusal(run)
        return HoldRecord(refusal).data if refusal else None

    @extend_schema_field(serializers.ListField(child=serializers.ChoiceField(choices=list(NextAct))))
    def get_next_acts(self, run: Run) -> list[str]:
        return [str(act) for act in next_acts(run.status, run.hold_reason)]

    def get_goal(self, run: Run) -> str:
        return [intent.goal for intent in run.intents.all()][-1]

    @extend_schema_field(ControlRecord(allow_null=True))
    def get_stop(self, run: Run) -> dict[str, Any] | None:
        return _newest(run, ControlKind.STOP)

    @extend_schema_field(ControlRecord(allow_null=True))
    def get_pause(self, run: Run) -> dict[str, Any] | None:
        return _newest(run, ControlKind.PAUSE)


def _newest(run: Run, kind: ControlKind) -> dict[str, Any] | None:
    requests = [request for request in run.controls.all() if request.kind == kind]
    return ControlRecord(requests[-1]).data if requests else None


def _list_parts() -> list[Any]:
    waits = Wait.objects.select_related("tool_call").defer("tool_call__args").order_by("opened_at", "id")
    calls = ToolCall.objects.defer("args").order_by("ordinal")
    related = ("head", "agent_version__agent", "thread", "tags")
    return [*related, Prefetch("waits", waits), Prefetch("tool_calls", calls)]


def _detail_parts() -> list[Any]:
    return [
        "lease",
        Prefetch("intents", Intent.objects.order_by("version")),
        Prefetch("controls", ControlRequest.objects.order_by("accepted_at", "id")),
        Prefetch("inputs", RunInput.objects.order_by("name")),
        Prefetch("commitments", Commitment.objects.order_by("accepted_at", "id")),
        Prefetch("obligations", Obligation.objects.order_by("promised_at", "id")),
        Prefetch("report_versions", version_rows(ReportVersion.objects.all())),
        Prefetch("budgets", Budget.objects.order_by("unit")),
    ]


def runs_with_parts(runs: Sequence[Run]) -> Sequence[Run]:
    """Runs with what their records need, in a fixed number of queries."""
    prefetch_related_objects(runs, *_list_parts())
    return runs


def run_with_parts(run: Run) -> Run:
    """A run with what its detail needs, in a fixed number of queries."""
    prefetch_related_objects([run], *_list_parts(), *_detail_parts())
    return run
