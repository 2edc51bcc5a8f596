"""Records of what outlives a run: workspaces with their progress, and long-term memory."""

from typing import Any

from rest_framework import serializers

from runs.models import MemoryItem, Workspace
from runs.selectors import Progress, memory_text


class WorkspaceRecord(serializers.Serializer[Workspace]):
    """A workspace and how many versions of progress it has."""

    id = serializers.UUIDField()
    title = serializers.CharField()
    created_at = serializers.DateTimeField()
    versions = serializers.IntegerField()


class QuestionRecord(serializers.Serializer[Any]):
    """One question of the research and where it stands."""

    id = serializers.CharField()
    text = serializers.CharField()
    status = serializers.ChoiceField(choices=["OPEN", "ANSWERED", "DROPPED"])


class ProgressRecord(serializers.Serializer[Progress]):
    """One version of workspace progress. It is no execution checkpoint and no run is resumed from it."""

    version = serializers.IntegerField()
    summary = serializers.CharField()
    questions = QuestionRecord(many=True)
    bodies = serializers.ListField(child=serializers.UUIDField())
    report_version = serializers.UUIDField(source="row.report_version_id")
    run = serializers.UUIDField(source="row.source_run_id")
    at = serializers.DateTimeField(source="row.at")


class MemoryRecord(serializers.Serializer[MemoryItem]):
    """One thing that an agent remembers, and the run and call that kept it."""

    id = serializers.UUIDField()
    subject = serializers.CharField()
    text = serializers.SerializerMethodField()
    run = serializers.UUIDField(source="source_run_id")
    call = serializers.UUIDField(source="source_call_id")
    at = serializers.DateTimeField()

    def get_text(self, item: MemoryItem) -> str:
        return memory_text(item)
