"""Records of flags: evidence against what was accepted about a call."""

from rest_framework import serializers

from receipts.models import Contradiction
from receipts.states import Closing, EvidenceSource


class ContradictionRecord(serializers.Serializer[Contradiction]):
    """A flag. `closing` is null while it is open; an open one keeps its call from being sent again."""

    id = serializers.UUIDField()
    call = serializers.UUIDField(source="tool_call_id")
    step = serializers.CharField(source="tool_call.step_name")
    run = serializers.UUIDField(source="tool_call.run_id")
    attempt_no = serializers.IntegerField()
    origin = serializers.ChoiceField(source="source", choices=list(EvidenceSource))
    accepted = serializers.CharField()
    says = serializers.CharField()
    evidence = serializers.CharField()
    external_ref = serializers.CharField(allow_null=True)
    raised_by = serializers.CharField()
    raised_at = serializers.DateTimeField()
    closing = serializers.ChoiceField(choices=list(Closing), allow_null=True)
    closing_reason = serializers.CharField()
    closed_by = serializers.CharField(allow_null=True)
    closed_at = serializers.DateTimeField(allow_null=True)
