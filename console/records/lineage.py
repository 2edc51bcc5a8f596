"""Records of what runs have to do with each other: where one comes from, what a fork would meet, and what a replay shows."""

from typing import Any
from uuid import UUID

from rest_framework import serializers

from accounts.states import Actor
from console.pages.tree import NODES, Node, steps_of, tree_of
from console.records.calls import CallSummary
from runs.selectors import access_run, lineage_of
from runs.states import RunStatus
from runtime.services import Preview, Replay, ReplayStep


class LineageCall(CallSummary):
    """A call of any run of the lineage."""

    run = serializers.UUIDField(source="run_id")


class PreviewRecord(serializers.Serializer[Preview]):
    """What a fork of a revision would begin with (`kept`), reuse, be held by or refused, and do again."""

    revision = serializers.IntegerField()
    turn_no = serializers.IntegerField()
    kept = LineageCall(many=True)
    reused = LineageCall(many=True)
    holding = LineageCall(many=True)
    refused = LineageCall(many=True)
    repeated = LineageCall(many=True)
    turns = serializers.IntegerField()


class ReplayStepRecord(serializers.Serializer[ReplayStep]):
    """One stored output. `intact` says whether its bytes still have the digest that was stored with them."""

    kind = serializers.ChoiceField(choices=["MESSAGE", "TURN", "CALL"])
    turn_no = serializers.IntegerField()
    name = serializers.CharField()
    status = serializers.CharField()
    attempts = serializers.IntegerField()
    digest = serializers.CharField()
    output = serializers.JSONField()
    intact = serializers.BooleanField()
    call = serializers.UUIDField(source="call_id", allow_null=True)


class ReplayRecord(serializers.Serializer[Replay]):
    """The stored outputs of a run in their order. Nothing was asked for it."""

    run = serializers.UUIDField(source="run.id")
    steps = ReplayStepRecord(many=True)
    phases = serializers.SerializerMethodField()

    def get_phases(self, replay: Replay) -> list[dict[str, Any]]:
        return [{"revision": revision, "phase": phase} for revision, phase in replay.phases]


class RelativeRecord(serializers.Serializer[Node]):
    """A run of a lineage. `how` says what it is to the run above or before it; continuations stand at the `level` of their source, forks
    and children below theirs.
    """

    id = serializers.UUIDField(source="run.id")
    title = serializers.CharField(source="run.title")
    status = serializers.ChoiceField(source="run.status", choices=list(RunStatus))
    how = serializers.CharField()
    level = serializers.IntegerField()
    continued_from = serializers.UUIDField(source="run.continued_from_id", allow_null=True)
    forked_from = serializers.UUIDField(source="run.forked_from_id", allow_null=True)
    forked_from_revision = serializers.IntegerField(source="run.forked_from_revision", allow_null=True)
    parent_run = serializers.UUIDField(source="run.parent_run_id", allow_null=True)
    created_by = serializers.CharField(source="run.created_by")
    created_at = serializers.DateTimeField(source="run.created_at")
    ended_at = serializers.DateTimeField(source="run.ended_at", allow_null=True)


class FamilyRecord(serializers.Serializer[Any]):
    """The runs of a lineage in the order of its tree, at most 200 of them; `more` says that there are others."""

    lineage = serializers.UUIDField()
    runs = RelativeRecord(many=True)
    more = serializers.BooleanField()


def family_shown(actor: Actor, id: UUID) -> dict[str, Any]:
    """The lineage of a run. Raises NotFound."""
    run = access_run(actor=actor, id=id)
    family = lineage_of(run, limit=NODES + 1)
    nodes = [step.node for step in steps_of(tree_of(family[:NODES], run.id)) if step.node]
    return FamilyRecord({"lineage": run.lineage_id, "runs": nodes, "more": len(family) > NODES}).data
