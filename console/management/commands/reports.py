"""`manage.py reports`: what a run published."""

import re
from typing import ClassVar
from uuid import UUID

from accounts.errors import NotFound
from console.management.noun import Asked, Noun, Shown, clock, facts, shown
from console.records.reports import ReportVersionRecord, version_rows
from receipts.models import ReportVersion
from runs.selectors import access_run

RECEIPT_LINK = re.compile(r"\[([^\]]*)\]\(call:[0-9a-f-]{36}\)")


class Command(Noun):
    help = "Reports."
    noun: ClassVar[str] = "report of run"

    def add_verbs(self) -> None:
        showing = self.verb("show", self.show, "The newest version of a run's report, or the one that is asked for.")
        showing.add_argument("run", type=UUID)
        showing.add_argument("--version", type=int, help="the number of the version")

    def show(self, asked: Asked) -> Shown:
        versions = version_rows(ReportVersion.objects.filter(run=access_run(actor=asked.actor, id=asked["run"])))
        if asked["version"] is not None:
            versions = versions.filter(version_no=asked["version"])
        found = versions.last()
        if found is None:
            raise NotFound
        record = ReportVersionRecord(found).data
        where = [
            f"{p['channel']} {p['status']} {clock(p['changed_at'])} {p['external_ref'] or ''}"
            for p in record["publications"]
        ]
        names = {name: record[name] for name in ("report", "run", "version", "title", "sha256")}
        head = facts({**names, "written": clock(record["committed_at"]), "published": "\n".join(where)})
        body = shown(RECEIPT_LINK.sub(r"\1", record["body"]))
        return Shown(record, f"{head}\n\n{body}")
