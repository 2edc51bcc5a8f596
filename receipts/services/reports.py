"""Writes of reports and their publications."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Max

from receipts.models import Publication, Report, ReportVersion, ToolCall
from receipts.states import PublicationStatus
from runs.services import artifact_store


@dataclass(frozen=True)
class ReportText:
    """A report version before it is stored."""

    slug: str
    title: str
    body: str
    source_calls: tuple[UUID, ...]


def report_version_store(
    call: ToolCall, text: ReportText, *, thread_id: UUID, fence: int, channel: str
) -> ReportVersion:
    """Store the next version of a report, and its publication: on the console at once, elsewhere only requested."""
    report, _ = Report.objects.get_or_create(tenant_id=call.tenant_id, thread_id=thread_id, slug=text.slug)
    Report.objects.select_for_update(no_key=True).get(id=report.id)
    last = report.versions.aggregate(last=Max("version_no"))["last"] or 0
    version = ReportVersion.objects.create(
        tenant_id=call.tenant_id,
        report=report,
        version_no=last + 1,
        run_id=call.run_id,
        tool_call=call,
        title=text.title,
        sha256=artifact_store(tenant_id=call.tenant_id, data=text.body.encode(), media_type="text/markdown"),
        source_calls=list(text.source_calls),
        fence=fence,
    )
    console = channel == "console"
    Publication.objects.create(
        tenant_id=call.tenant_id,
        report_version=version,
        channel=channel,
        tool_call=None if console else call,
        status=PublicationStatus.PUBLISHED if console else PublicationStatus.REQUESTED,
    )
    return version


def publication_exists(call: ToolCall) -> bool:
    """True once the report version that a call would publish has been stored."""
    return Publication.objects.filter(tool_call=call).exists()
