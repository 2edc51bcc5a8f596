"""Records of retention: which bodies of a run's checkpoints go or have gone."""

from typing import Any

from rest_framework import serializers

from checkpoints.states import StoredBody
from runtime.services import Retention


class StoredBodyRecord(serializers.Serializer[StoredBody]):
    """One body. `size` is what it takes in the store, in bytes."""

    revision = serializers.IntegerField()
    encoding = serializers.CharField()
    saved_at = serializers.DateTimeField()
    size = serializers.IntegerField()


class RetentionRecord(serializers.Serializer[Retention]):
    """The bodies of a run that go or have gone, the newest first; how many bytes they are; and how many bodies stay."""

    run = serializers.UUIDField(source="run_id")
    going = StoredBodyRecord(many=True)
    size = serializers.IntegerField()
    kept = serializers.IntegerField()


def retention_records(found: list[Retention]) -> list[dict[str, Any]]:
    """The records of several runs."""
    return [dict(RetentionRecord(one).data) for one in found]
