"""Records of standing grants and of the calls that were sent by them."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from approvals.models import Grant, GrantUse
from console.records import records_of


class GrantSummary(serializers.Serializer[Grant]):
    """A standing grant: its scope, its owner, its time and its uses."""

    id = serializers.UUIDField()
    owner = serializers.CharField()
    agent = serializers.CharField()
    tool = serializers.CharField()
    tool_hash = serializers.CharField()
    condition = serializers.CharField()
    reason = serializers.CharField()
    given_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    max_uses = serializers.IntegerField()
    uses = serializers.IntegerField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    revoked_by = serializers.CharField()
    revocation_reason = serializers.CharField()


class GrantUseRecord(serializers.Serializer[GrantUse]):
    """A call that was sent by a grant."""

    call = serializers.UUIDField(source="tool_call_id")
    run = serializers.UUIDField(source="tool_call.run_id")
    step = serializers.CharField(source="tool_call.step_name")
    at = serializers.DateTimeField()


class GrantRecord(GrantSummary):
    """A standing grant with every call that was sent by it, the newest first."""

    used_by = serializers.SerializerMethodField()

    @extend_schema_field(GrantUseRecord(many=True))
    def get_used_by(self, grant: Grant) -> list[dict[str, object]]:
        rows = grant.used_by.select_related("tool_call").order_by("-at")
        return records_of(GrantUseRecord, rows)
