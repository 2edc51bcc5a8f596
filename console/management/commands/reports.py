"""`manage.py reports`: the reports of a tenant, and what a run published."""

import re
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from accounts.errors import NotFound, Refused
from console.lists.reports import REPORTS
from console.management.lists import add_where, where
from console.management.noun import Asked, Noun, Shown, Usage, clock, facts, shown, table
from console.pages.report.export import KINDS, report_taken
from console.records import records_of
from console.records.reports import ReportRecord, ReportVersionRecord, report_rows, version_rows
from console.settings import PUBLIC_URL
from receipts.models import ReportVersion
from runs.selectors import access_run

HEADS = ("ID", "VERSIONS", "PUBLISHED", "AGENT", "WRITTEN", "TITLE")
RECEIPT_LINK = re.compile(r"\[([^\]]*)\]\(call:[0-9a-f-]{36}\)")


class Command(Noun):
    help = "Reports."
    noun: ClassVar[str] = "report of run"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The reports of your tenant, the newest first.")
        add_where(listing, REPORTS)
        self.add_limit(listing)
        showing = self.verb("show", self.show, "The newest version of a run's report, or the one that is asked for.")
        showing.add_argument("run", type=UUID)
        showing.add_argument("--version", type=int, help="the number of the version")
        taking = self.verb(
            "export", self.export, "A version as a file: nothing in it runs, and it says where it is from."
        )
        taking.add_argument("run", type=UUID)
        taking.add_argument("--version", type=int, help="the number of the version (the newest of the run)")
        taking.add_argument("--kind", choices=list(KINDS), default="md", help="%(default)s")
        taking.add_argument("--file", type=Path, required=True, help="where it is written")

    def list(self, asked: Asked) -> Shown:
        rows = report_rows(where(REPORTS, asked)).order_by("-id")
        records = records_of(ReportRecord, self.limited(rows, asked))
        lines = [
            (r["id"], r["versions"], r["published"] or "", r["agent"], clock(r["written_at"]), r["title"])
            for r in records
        ]
        return Shown(records, table(HEADS, lines, "There is no report."))

    def export(self, asked: Asked) -> Shown | Refused:
        found = _version(asked)
        taken = report_taken(
            actor=asked.actor,
            report_id=found.report_id,
            version=found.version_no,
            kind=asked["kind"],
            base=PUBLIC_URL,
        )
        if isinstance(taken, Refused):
            return taken
        try:
            asked["file"].write_bytes(taken.content)
        except OSError as error:
            raise Usage(f"{asked['file']} can't be written: {error.strerror}.") from error
        record = {"file": str(asked["file"]), "bytes": len(taken.content), "version": found.version_no}
        return Shown(record, facts({name: str(value) for name, value in record.items()}))

    def show(self, asked: Asked) -> Shown:
        found = _version(asked)
        record = ReportVersionRecord(found).data
        where = [
            f"{p['channel']} {p['status']} {clock(p['changed_at'])} {p['external_ref'] or ''}"
            for p in record["publications"]
        ]
        names = {name: record[name] for name in ("report", "run", "version", "title", "sha256")}
        head = facts({**names, "written": clock(record["committed_at"]), "published": "\n".join(where)})
        body = shown(RECEIPT_LINK.sub(r"\1", record["body"]))
        return Shown(record, f"{head}\n\n{body}")


def _version(asked: Asked) -> ReportVersion:
    """The version of the run that is asked for, or its newest. Raises NotFound."""
    versions = version_rows(ReportVersion.objects.filter(run=access_run(actor=asked.actor, id=asked["run"])))
    if asked["version"] is not None:
        versions = versions.filter(version_no=asked["version"])
    found = versions.last()
    if found is None:
        raise NotFound
    return found
