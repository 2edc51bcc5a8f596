"""Records of acts on many runs: what would be done, and what came of each run."""

from typing import Any

from rest_framework import serializers

from console.lists.bulk import BulkSet
from console.records import records_of
from runs.models import Bulk, BulkItem
from runs.selectors import bulk_progress
from runs.states import BulkAct, BulkStatus


class BulkRecord(serializers.Serializer[Bulk]):
    """An act on many runs, and how far it is. `query` is the filter that found them."""

    id = serializers.UUIDField()
    act = serializers.ChoiceField(choices=list(BulkAct))
    reason = serializers.CharField()
    query = serializers.CharField()
    digest = serializers.CharField()
    total = serializers.IntegerField()
    by = serializers.CharField(source="requested_by")
    accepted_at = serializers.DateTimeField()


class BulkItemRecord(serializers.Serializer[BulkItem]):
    """What came of one run: with a code and a sentence where it refused."""

    run = serializers.UUIDField(source="run_id")
    status = serializers.ChoiceField(choices=list(BulkStatus))
    code = serializers.CharField()
    said = serializers.CharField()
    closed_at = serializers.DateTimeField(allow_null=True)


class BulkDetail(BulkRecord):
    """The act with its counts and its runs, in their order."""

    pending = serializers.IntegerField()
    done = serializers.IntegerField()
    refused = serializers.IntegerField()
    items = BulkItemRecord(many=True)


class BulkPreview(serializers.Serializer[Any]):
    """The runs that an act would be done to. `digest` and `count` are what the act has to name."""

    act = serializers.ChoiceField(choices=list(BulkAct))
    count = serializers.IntegerField()
    digest = serializers.CharField()
    left_out = serializers.IntegerField()
    first = serializers.ListField(child=serializers.UUIDField())


def bulk_detail(bulk: Bulk) -> dict[str, Any]:
    """The detail of an act as it is now."""
    progress = bulk_progress(bulk.id)
    items = BulkItem.objects.filter(bulk=bulk).order_by("place")
    counts = {"pending": progress.pending, "done": progress.done, "refused": progress.refused}
    return {**BulkRecord(bulk).data, **counts, "items": records_of(BulkItemRecord, items)}


def bulk_preview(act: BulkAct, found: BulkSet) -> dict[str, Any]:
    """What an act would be done to, for programs."""
    first = [str(id) for id in found.ids[:20]]
    return {
        "act": str(act),
        "count": len(found.ids),
        "digest": found.digest,
        "left_out": found.left_out,
        "first": first,
    }
