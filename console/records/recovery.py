"""The record of what stands of a run after an interruption: each thing under one of three headings, and the evidence."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.records.ledger import RefusalRecord, SaveRecord
from runs.states import HoldReason, NextAct, RecoveryPolicy, RunStatus
from runtime.standing import Checks, Line, Point, Recovery, Standing, Thing


class LineRecord(serializers.Serializer[Line]):
    """One thing of the run and its heading. `id` names a call, or the report of a publication."""

    thing = serializers.ChoiceField(choices=list(Thing))
    id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField()
    status = serializers.CharField()
    standing = serializers.ChoiceField(choices=list(Standing))
    means = serializers.CharField()


class ChecksRecord(serializers.Serializer[Checks]):
    """Is there a valid executor, how much is committed, and how many requests nobody has answered."""

    worker = serializers.CharField(allow_null=True)
    fence = serializers.IntegerField()
    held = serializers.BooleanField()
    committed = serializers.IntegerField()
    unconfirmed = serializers.IntegerField()


class PointRecord(serializers.Serializer[Point]):
    """The head that the run would go on from; `found` says why it can't be, where `readable` is false."""

    revision = serializers.IntegerField(allow_null=True)
    phase = serializers.CharField()
    readable = serializers.BooleanField()
    found = serializers.CharField()


class LostRecord(serializers.Serializer[Any]):
    """A worker that was lost, and what it had sent last and heard nothing of."""

    worker = serializers.CharField()
    fence = serializers.IntegerField()
    taken_over_at = serializers.CharField()
    sending = serializers.CharField(allow_null=True)


class RecoveryRecord(serializers.Serializer[Recovery]):
    """What stands of a run. Everything of its ledger is in `lines` once; `counts` says how many are under each heading."""

    run = serializers.UUIDField(source="run.id")
    status = serializers.ChoiceField(source="run.status", choices=list(RunStatus))
    hold_reason = serializers.ChoiceField(source="run.hold_reason", choices=list(HoldReason), allow_null=True)
    recovery_policy = serializers.ChoiceField(source="run.recovery_policy", choices=list(RecoveryPolicy))
    checks = ChecksRecord()
    point = PointRecord()
    counts = serializers.SerializerMethodField()
    lines = LineRecord(many=True)
    next_acts = serializers.ListField(source="acts", child=serializers.ChoiceField(choices=list(NextAct)))
    lost = LostRecord(many=True)
    refusals = RefusalRecord(many=True)
    saves = SaveRecord(many=True)

    @extend_schema_field(serializers.DictField(child=serializers.IntegerField()))
    def get_counts(self, recovery: Recovery) -> dict[str, int]:
        return {str(standing): len(recovery.under(standing)) for standing in Standing}
