"""The versions of a report as a page shows them, with where each of them is published."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.db.models import Prefetch, QuerySet

from accounts.states import Actor, Permission
from receipts.models import Publication, Report, ReportVersion, ToolCall
from receipts.selectors import report_body
from receipts.states import PublicationStatus

VERSIONS = 100  # shown of one report, the newest ones


@dataclass(frozen=True)
class ShownPublication:
    """Where a version is. `asserted`: only a person says that it is there."""

    row: Publication
    asserted: bool


@dataclass
class ShownVersion:
    """One version with its publications; its body is read when it is asked for."""

    row: ReportVersion

    @cached_property
    def publications(self) -> list[ShownPublication]:
        rows = sorted(self.row.publications.all(), key=lambda one: (one.channel != "console", one.channel))
        return [ShownPublication(one, _asserted(one)) for one in rows]

    @property
    def published(self) -> bool:
        return any(one.row.status == PublicationStatus.PUBLISHED for one in self.publications)

    @cached_property
    def body(self) -> str:
        return report_body(self.row)

    @cached_property
    def sources(self) -> list[ToolCall]:
        """The calls that its numbers come from, in order."""
        found = ToolCall.objects.defer("args").select_related("run").in_bulk(list(self.row.source_calls))
        return [found[call] for call in self.row.source_calls if call in found]


def _asserted(publication: Publication) -> bool:
    """True if the publication rests on a person's verdict. Reads what `versions_of` has fetched."""
    call = publication.tool_call
    return call is not None and any(verdict.method == "HUMAN" for verdict in call.reconciliations.all())


def versions_of(reports: Sequence[Report]) -> dict[UUID, list[ShownVersion]]:
    """The versions of some reports, the newest first, in a fixed number of queries."""
    publications = Publication.objects.select_related("tool_call").defer("tool_call__args")
    publications = publications.prefetch_related("tool_call__reconciliations")
    rows = ReportVersion.objects.filter(report__in=reports).select_related("run")
    rows = rows.prefetch_related(Prefetch("publications", queryset=publications)).order_by("-version_no")
    found: dict[UUID, list[ShownVersion]] = {report.id: [] for report in reports}
    for row in rows[: VERSIONS * max(1, len(reports))]:
        found[row.report_id].append(ShownVersion(row))
    return found


def reports_visible(actor: Actor) -> QuerySet[Report]:
    """The reports of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Report.objects.none()
    return Report.objects.filter(tenant_id=actor.tenant_id)


def chosen(versions: Sequence[ShownVersion], asked: int) -> ShownVersion | None:
    """The version that is asked for; without a number the newest published one, else the newest. None if not there."""
    if asked:
        return next((version for version in versions if version.row.version_no == asked), None)
    return next((version for version in versions if version.published), versions[0] if versions else None)


def in_order(one: ShownVersion, other: ShownVersion) -> tuple[ShownVersion, ShownVersion]:
    """Two versions, the older one first."""
    older, newer = sorted((one, other), key=lambda version: version.row.version_no)
    return older, newer
