"""Records of reports: their versions, where each is published, and the body of one."""

from django.db.models import Prefetch, QuerySet
from rest_framework import serializers

from console.records.calls import PublicationRecord
from receipts.models import Publication, ReportVersion
from receipts.selectors import report_body


class ReportVersionSummary(serializers.Serializer[ReportVersion]):
    """One immutable version, without its body. `report` is what all versions share."""

    id = serializers.UUIDField()
    report = serializers.UUIDField(source="report_id")
    slug = serializers.CharField(source="report.slug")
    run = serializers.UUIDField(source="run_id")
    version = serializers.IntegerField(source="version_no")
    title = serializers.CharField()
    sha256 = serializers.CharField()
    committed_at = serializers.DateTimeField()
    publications = PublicationRecord(many=True)


class ReportVersionRecord(ReportVersionSummary):
    """One version with its Markdown body. A link `call:ID` leads from a number to the call that it came from."""

    call = serializers.UUIDField(source="tool_call_id")
    sources = serializers.ListField(source="source_calls", child=serializers.UUIDField())
    body = serializers.SerializerMethodField()

    def get_body(self, version: ReportVersion) -> str:
        return report_body(version)


def version_rows(versions: QuerySet[ReportVersion]) -> QuerySet[ReportVersion]:
    """The same versions, oldest first, with what their records need, in two queries."""
    publications = Prefetch("publications", Publication.objects.order_by("changed_at", "id"))
    return versions.select_related("report").prefetch_related(publications).order_by("committed_at", "id")
