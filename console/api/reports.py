"""Reports over HTTP: the versions of a run or of a report, and the body of one. Readable whatever became of the run."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import NotFound
from console.api.view import ApiView, operation
from console.records import records_of
from console.records.reports import ReportVersionRecord, ReportVersionSummary, version_rows
from receipts.models import ReportVersion
from receipts.selectors import access_report
from receipts.states import PublicationStatus
from runs.selectors import access_run


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
