"""The list of reports, with where each of their versions is."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.states import Actor
from console.lists.cells import Cell, Column
from console.lists.fields import Choice, Identifier, Moment, Words, by, picks, tail_of
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort
from console.lists.runs import agents_of
from console.lists.tails import ends_with, whole_id
from console.pages.report.versions import ShownVersion, reports_visible, versions_of
from receipts.models import Publication, Report, ReportVersion
from receipts.states import PublicationStatus


@dataclass(frozen=True)
class Places:
    """The versions of a report as a cell shows them, with where each of them is."""

    versions: Sequence[ShownVersion]

    def __str__(self) -> str:
        return "; ".join(_said(version) for version in self.versions)


def _said(version: ShownVersion) -> str:
    places = (f"{one.row.status} {one.row.channel}" for one in version.publications)
    return f"v{version.row.version_no} {', '.join(places)}".rstrip()


def _versions(**lookups: object) -> Exists:
    return Exists(ReportVersion.objects.filter(report=OuterRef("pk"), **lookups))


def _named(rows: QuerySet[Report], text: str) -> QuerySet[Report]:
    named, tail = whole_id(text), tail_of(text)
    if named:
        return rows.filter(id=named)
    found = Q(_versions(title__icontains=text))
    return rows.filter(found | ends_with(tail)) if tail else rows.filter(found)


def _in_thread(rows: QuerySet[Report], thread: str) -> QuerySet[Report]:
    named = whole_id(thread)
    return rows.filter(thread_id=named) if named else rows.filter(thread__key=thread)


def _published(rows: QuerySet[Report], wanted: Sequence[str]) -> QuerySet[Report]:
    return rows.filter(Exists(_places().filter(status__in=wanted)))


def _on(rows: QuerySet[Report], channel: str) -> QuerySet[Report]:
    return rows.filter(Exists(_places().filter(channel=channel)))


def _places() -> QuerySet[Publication]:
    return Publication.objects.filter(report_version__report=OuterRef("pk"))


def _rows(actor: Actor) -> QuerySet[Report]:
    return reports_visible(actor).select_related("thread__agent")


def _dress(reports: Sequence[Report]) -> None:
    versions = versions_of(reports)
    for report in reports:
        report.places = Places(versions[report.id])  # type: ignore[attr-defined]  # what its cells show


def _places_of(report: Report) -> Places:
    places: Places = report.places  # type: ignore[attr-defined]
    return places


def _title(report: Report) -> Cell:
    versions = _places_of(report).versions
    return Cell("link", versions[0].row.title if versions else report.slug, url=f"/reports/{report.id}/")


def _newest(report: Report) -> Cell:
    versions = _places_of(report).versions
    return Cell("when", versions[0].row.committed_at if versions else None)


REPORTS = Listing(
    key="reports",
    row="report",
    title="Reports",
    url_name="reports",
    say="What was published stays published and readable, whatever happens to its run.",
    rows=_rows,
    fields=(
        Words("q", "Title or id", _named, "A part of the title of a version, an id, or the end of one."),
        Choice("agent", "Agent", by("thread__agent__key"), picks=agents_of),
        Words("thread", "Thread", _in_thread, "Its key or its id."),
        Identifier(
            "run", "Run", lambda rows, run: rows.filter(_versions(run=run)), "The whole id of one that wrote to it."
        ),
        Choice("status", "A version is", _published, picks=picks(*PublicationStatus), several=True),
        Words("channel", "Where", _on, "As console or wiki."),
        Moment(
            "since",
            "Written since",
            lambda rows, at: rows.filter(_versions(committed_at__gte=at)),
            "A day as 2026-11-30, or 12 h for 12 hours ago.",
        ),
        Moment("until", "Written until", lambda rows, at: rows.filter(_versions(committed_at__lt=at)), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("id",))),
        Sort("oldest", "oldest first", Order(("id",), descending=False)),
    ),
    columns=(
        Column("title", "Report", _title),
        Column(
            "versions",
            "Versions, and where they are",
            lambda report: Cell("places", _places_of(report), url=f"/reports/{report.id}/"),
        ),
        Column("agent", "Agent", lambda report: Cell("text", report.thread.agent.key)),
        Column("thread", "Thread", lambda report: Cell("thread", report.thread.key)),
        Column("newest", "Newest", _newest),
        Column("id", "Id", lambda report: Cell("id", report.id)),
    ),
    shown=("title", "versions", "agent", "thread", "newest"),
    empty=Empty("There is no report yet.", "A run writes one; it appears here by itself.", "run-new", "New run"),
    dress=_dress,
)
