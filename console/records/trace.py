"""The record of a trace event: what was seen, and where."""

from typing import Any

from rest_framework import serializers


class TraceRecord(serializers.Serializer[Any]):
    """One thing that was seen of a run. Observation only: what happened is in checkpoints and receipts."""

    id = serializers.IntegerField()
    trace_id = serializers.CharField()
    run = serializers.UUIDField(source="run_id")
    thread = serializers.UUIDField(source="thread_id")
    checkpoint = serializers.UUIDField(source="checkpoint_id", allow_null=True)
    node = serializers.CharField(source="node_id")
    call = serializers.UUIDField(source="tool_call_id", allow_null=True)
    name = serializers.CharField()
    attributes = serializers.DictField(source="attrs")
    at = serializers.DateTimeField()
