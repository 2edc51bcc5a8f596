"""Records of reports: their versions, where each is published, and the body of one."""

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import Coalesce
from rest_framework import serializers

from console.records.calls import PublicationRecord
from receipts.models import Publication, Report, ReportVersion
from receipts.selectors import report_body
from receipts.states import PublicationStatus


class ReportRecord(serializers.Serializer[Report]):
    """A report: what its versions share, and how far they have got. `published` is the number of the newest one that is published."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    agent = serializers.CharField(source="thread.agent.key")
    thread = serializers.UUIDField(source="thread_id")
    thread_key = serializers.CharField(source="thread.key")
    title = serializers.CharField()
    versions = serializers.IntegerField(source="newest")
    published = serializers.IntegerField(allow_null=True)
    written_at = serializers.DateTimeField(allow_null=True)


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


def report_rows(reports: QuerySet[Report]) -> QuerySet[Report]:
    """The same reports with what their records need, in one query."""
    versions = ReportVersion.objects.filter(report=OuterRef("pk")).order_by("-version_no")
    published = versions.filter(publications__status=PublicationStatus.PUBLISHED)
    return reports.annotate(
        title=Coalesce(Subquery(versions.values("title")[:1]), "slug"),
        newest=Coalesce(Subquery(versions.values("version_no")[:1]), 0),
        published=Subquery(published.values("version_no")[:1]),
        written_at=Subquery(versions.values("committed_at")[:1]),
    )


def version_rows(versions: QuerySet[ReportVersion]) -> QuerySet[ReportVersion]:
    """The same versions, oldest first, with what their records need, in two queries."""
    publications = Prefetch("publications", Publication.objects.order_by("changed_at", "id"))
    return versions.select_related("report").prefetch_related(publications).order_by("committed_at", "id")
