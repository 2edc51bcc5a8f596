"""Reads of reports and where they are published."""

from typing import Any
from uuid import UUID

from django.db.models import F

from accounts.errors import NotFound
from accounts.states import Actor, Permission
from receipts.models import Publication, Report, ReportVersion
from receipts.states import PublicationStatus
from runs.selectors import artifact_bytes


def access_report(*, actor: Actor, id: UUID) -> Report:
    """The report with this id in the actor's tenant. Raises NotFound."""
    reports = Report.objects.filter(tenant_id=actor.tenant_id) if actor.may(Permission.READ) else Report.objects.none()
    report = reports.select_related("thread").filter(id=id).first()
    if report is None:
        raise NotFound
    return report


def report_body(version: ReportVersion) -> str:
    """The Markdown of a report version."""
    return artifact_bytes(tenant_id=version.tenant_id, sha256=version.sha256).decode()


def published_reports(*, run_id: UUID) -> list[dict[str, Any]]:
    """The report versions that a run has published, and where."""
    published = Publication.objects.filter(report_version__run_id=run_id, status=PublicationStatus.PUBLISHED)
    rows = published.order_by("report_version__version_no", "channel")
    named = rows.values("channel", slug=F("report_version__report__slug"), version=F("report_version__version_no"))
    return [dict(row) for row in named]


def run_report_versions(*, run_id: UUID) -> frozenset[UUID]:
    """The ids of the report versions that a run has written."""
    return frozenset(ReportVersion.objects.filter(run_id=run_id).values_list("id", flat=True))
