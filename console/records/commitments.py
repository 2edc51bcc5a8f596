"""Records of the constraints that runs accepted and the assumptions that they rest on."""

from rest_framework import serializers

from checkpoints.models import Commitment
from checkpoints.states import CommitmentKind, CommitmentStatus, SourceKind


class CommitmentRecord(serializers.Serializer[Commitment]):
    """A constraint or an assumption with its source. `denies` names what policy denies while the run carries it."""

    id = serializers.UUIDField()
    run = serializers.UUIDField(source="run_id")
    kind = serializers.ChoiceField(choices=list(CommitmentKind))
    statement = serializers.CharField()
    denies = serializers.ListField(child=serializers.CharField())
    source_kind = serializers.ChoiceField(choices=list(SourceKind))
    source_ref = serializers.CharField()
    source_version = serializers.CharField()
    accepted_at = serializers.DateTimeField()
    accepted_revision = serializers.IntegerField()
    status = serializers.ChoiceField(choices=list(CommitmentStatus))
    withdrawn_by = serializers.CharField(allow_null=True)
    withdrawal_reason = serializers.CharField()
    withdrawn_at = serializers.DateTimeField(allow_null=True)
