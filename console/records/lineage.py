"""Records of what runs have to do with each other: where one comes from, what a fork would meet, and what a replay shows."""

from typing import Any

from rest_framework import serializers

from console.records.calls import CallSummary
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

    run = serializers.UUIDField(source="run_id")
    steps = ReplayStepRecord(many=True)
    phases = serializers.SerializerMethodField()

    def get_phases(self, replay: Replay) -> list[dict[str, Any]]:
        return [{"revision": revision, "phase": phase} for revision, phase in replay.phases]
