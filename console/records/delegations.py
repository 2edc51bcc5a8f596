"""Records of delegations."""

from rest_framework import serializers

from approvals.models import Delegation


class DelegationRecord(serializers.Serializer[Delegation]):
    """For this time `taker` decides with the authority of `giver`, unless it was ended before."""

    id = serializers.UUIDField()
    giver = serializers.CharField()
    taker = serializers.CharField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    given_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    ended_by = serializers.CharField()
