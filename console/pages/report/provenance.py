"""Where a report version comes from, as every export of it says at its end: version, digest, run, call, approvals, places."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.urls import reverse

from approvals.models import Decision
from console.pages.report.versions import ShownVersion
from console.pages.text import plain
from receipts.models import Publication
from runs.models import Run


@dataclass(frozen=True)
class Provenance:
    """What is said of a version, each line a name and a value. `base` is the console's own address."""

    title: str
    facts: tuple[tuple[str, str], ...]
    base: str

    def address(self, href: str) -> str:
        """A link of the report as one that leads somewhere from outside of the console too."""
        kind, _, call = href.partition("call:")
        return f"{self.base}/calls/{call}/" if not kind and call else href


def provenance_of(version: ShownVersion, now: datetime, base: str) -> Provenance:
    """What is stored of where a version comes from. `now` is when it is exported, by the database's clock; `base` the
    console's address.
    """
    row = version.row
    run = Run.objects.select_related("agent_version__agent").get(id=row.run_id)
    agent = run.agent_version
    facts = [
        ("Version", str(row.version_no)),
        ("SHA-256 of the stored Markdown", row.sha256),
        ("Written", moment(row.committed_at)),
        ("By", f"{agent.agent.key} {agent.version}, run {run.id}, call {row.tool_call_id}, fence {row.fence}"),
        *_decisions(version),
        *((f"On {one.row.channel}", _place(one.row, asserted=one.asserted)) for one in version.publications),
        ("Numbers from", ", ".join(f"{call.step_name} {call.id}" for call in version.sources) or "no receipt"),
        ("Exported", moment(now)),
        ("Kept at", f"{base}{reverse('report', args=[row.report_id])}?version={row.version_no}"),
    ]
    return Provenance(plain(row.title), tuple((name, plain(value)) for name, value in facts), base)


def _decisions(version: ShownVersion) -> list[tuple[str, str]]:
    """Who approved what of it when, and why; that nobody was asked, where nobody was."""
    calls = {version.row.tool_call_id, *(one.row.tool_call_id for one in version.publications if one.row.tool_call_id)}
    decided = Decision.objects.filter(wait__tool_call__in=calls).select_related("wait__tool_call")
    found = [
        (
            "Approved" if one.verdict == "APPROVE" else "Rejected",
            f"{one.wait.tool_call.step_name} by {one.actor.removeprefix('person:')}, {moment(one.at)}: {one.reason}",
        )
        for one in decided.defer("wait__tool_call__args").order_by("at")
    ]
    return found or [("Approved", "nobody was asked about this version")]


def _place(row: Publication, *, asserted: bool) -> str:
    there = f", there as {row.external_ref}" if row.external_ref else ""
    said = f"{row.status.lower()} {moment(row.changed_at)}{there}"
    return f"{said}, said by a person" if asserted else said


def moment(at: datetime) -> str:
    """A moment that reads the same anywhere."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
