"""Reports over HTTP: the versions of a run or of a report, and the body of one. Readable whatever became of the run."""

from uuid import UUID

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import NotFound, Refused
from console.api.lists import narrowed
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, read
from console.api.view import ApiView, operation, paged
from console.lists.reports import REPORTS
from console.pages.report.export import KINDS, report_taken
from console.records import records_of
from console.records.reports import ReportRecord, ReportVersionRecord, ReportVersionSummary, report_rows, version_rows
from console.settings import PUBLIC_URL
from receipts.models import ReportVersion
from receipts.selectors import access_report
from receipts.states import PublicationStatus
from runs.selectors import access_run

NEWEST_FIRST = Order(("id",))


class ReportQuery(PageQuery):
    """Filters of the list of reports, as its page takes them. `q` looks into titles and ids, `status` and `channel` say where a version
    is; `since` and `until`, of when one was written, are a day, a moment or so long ago (`12 h`).
    """

    q = Text(required=False)
    agent = Text(required=False)
    thread = Text(required=False)
    run = Text(required=False)
    status = serializers.ListField(child=serializers.ChoiceField(choices=list(PublicationStatus)), required=False)
    channel = Text(required=False)
    since = Text(required=False)
    until = Text(required=False)


class Reports(ApiView):
    """The reports of the tenant."""

    @operation("reports_list", paged(ReportRecord), query=ReportQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(ReportQuery, request.query_params)
        return self.page(
            "reports", report_rows(narrowed(REPORTS, self.actor, query)), NEWEST_FIRST, query, ReportRecord
        )


class RunReports(ApiView):
    """The report versions that a run wrote."""

    @operation("runs_reports", ReportVersionSummary(many=True))
    def get(self, request: Request, id: UUID) -> Response:
        """The oldest first."""
        versions = version_rows(ReportVersion.objects.filter(run=access_run(actor=self.actor, id=id)))
        return Response(records_of(ReportVersionSummary, versions))


class ReportVersions(ApiView):
    """The versions of a report."""

    @operation("reports_versions", ReportVersionSummary(many=True))
    def get(self, request: Request, id: UUID) -> Response:
        """The oldest first, over all runs of its thread."""
        versions = version_rows(ReportVersion.objects.filter(report=access_report(actor=self.actor, id=id)))
        return Response(records_of(ReportVersionSummary, versions))


class OneReportVersion(ApiView):
    """One version of a report."""

    @operation("reports_show", ReportVersionRecord)
    def get(self, request: Request, id: UUID, version: int) -> Response:
        """The version with its Markdown body and the calls that its numbers came from."""
        report = access_report(actor=self.actor, id=id)
        found = version_rows(ReportVersion.objects.filter(report=report, version_no=version)).first()
        if found is None:
            raise NotFound
        return Response(ReportVersionRecord(found).data)


class CurrentReportVersion(ApiView):
    """The edition that one can read now."""

    @operation("reports_current", ReportVersionRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """The newest version that is published anywhere, whatever has become of its run."""
        versions = version_rows(ReportVersion.objects.filter(report=access_report(actor=self.actor, id=id)))
        published = versions.filter(publications__status=PublicationStatus.PUBLISHED)
        found = published.order_by("-version_no").first()
        if found is None:
            raise NotFound
        return Response(ReportVersionRecord(found).data)


class ExportQuery(Strict):
    """As what a version is taken along."""

    kind = serializers.ChoiceField(choices=list(KINDS), default="md")


class ReportExport(ApiView):
    """A version of a report as a file."""

    @operation(
        "reports_export",
        OpenApiTypes.BINARY,
        query=ExportQuery,
        can=(404, 413),
        media_type="application/octet-stream",
    )
    def get(self, request: Request, id: UUID, version: int) -> HttpResponse:
        """Markdown, HTML or PDF. Nothing in it runs or is fetched, and it says at its end where it comes from."""
        base = PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")
        kind = read(ExportQuery, request.query_params)["kind"]
        taken = report_taken(actor=self.actor, report_id=id, version=version, kind=kind, base=base)
        if isinstance(taken, Refused):
            return refused_response(taken)
        response = HttpResponse(taken.content, content_type=taken.media_type)
        response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=taken.name)
        return response
