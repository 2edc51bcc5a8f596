"""Records of saved views of lists."""

from rest_framework import serializers

from accounts.models import SavedView


class ViewRecord(serializers.Serializer[SavedView]):
    """A list as somebody looks at it: `query` is its address behind the question mark."""

    id = serializers.UUIDField()
    listed = serializers.CharField()
    name = serializers.CharField()
    query = serializers.CharField()
    shared = serializers.BooleanField()
    person = serializers.CharField(source="membership.user.username")
    created_at = serializers.DateTimeField()
