"""Records of what a run promised."""

from rest_framework import serializers

from checkpoints.models import Obligation
from checkpoints.states import ObligationStatus


class ObligationRecord(serializers.Serializer[Obligation]):
    """A promise that must be fulfilled or released before its run can complete."""

    id = serializers.UUIDField()
    run = serializers.UUIDField(source="run_id")
    step = serializers.CharField(source="step_name")
    statement = serializers.CharField()
    status = serializers.ChoiceField(choices=list(ObligationStatus))
    promised_at = serializers.DateTimeField()
    fulfilled_by = serializers.UUIDField(allow_null=True)
    released_by = serializers.CharField(allow_null=True)
    release_reason = serializers.CharField()
    closed_at = serializers.DateTimeField(allow_null=True)
