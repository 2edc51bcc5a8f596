"""`manage.py bulks`: one act on all runs of a filter: look at the set, act on exactly that one, and read what came of each."""

from argparse import ArgumentParser
from typing import ClassVar
from uuid import UUID

from django.http import QueryDict

from accounts.errors import Refused
from console.lists.bulk import BulkSet, bulk_set
from console.lists.runs import RUNS
from console.management.lists import add_where
from console.management.noun import Asked, Noun, Shown, Usage, clock, facts, table
from console.records import records_of
from console.records.bulk import BulkRecord, bulk_detail, bulk_preview
from runs.selectors import access_bulk, bulks_visible
from runs.states import BulkAct
from runtime.services import BulkAccepted, bulk_accept

HEADS = ("ID", "ACT", "RUNS", "ACCEPTED", "BY", "REASON")


class Command(Noun):
    help = "Acts on all runs of a filter."
    noun: ClassVar[str] = "bulk"

    def add_verbs(self) -> None:
        self.add_limit(self.verb("list", self.list, "The newest acts on many runs."))
        self._of(self.verb("preview", self.preview, "What an act would be done to."))
        acting = self.verb("act", self.act, "Act on the set that a preview has shown.")
        self._of(acting)
        acting.add_argument("--digest", required=True, help="the digest of the set that was shown")
        acting.add_argument("--count", required=True, type=int, help="how many runs were shown")
        acting.add_argument("--reason", required=True, help="why, in words")
        self.verb("show", self.show, "How far one is, and what came of each run.").add_argument("id", type=UUID)

    def _of(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "act_on", metavar="ACT", type=str.upper, choices=list(BulkAct), help="stop, pause or resume"
        )
        add_where(parser, RUNS)

    def list(self, asked: Asked) -> Shown:
        rows = bulks_visible(asked.actor).order_by("-accepted_at", "-id")
        records = records_of(BulkRecord, self.limited(rows, asked))
        lines = [(r["id"], r["act"], r["total"], clock(r["accepted_at"]), r["by"], r["reason"]) for r in records]
        return Shown(records, table(HEADS, lines, "Nothing was done to many runs yet."))

    def preview(self, asked: Asked) -> Shown:
        record = bulk_preview(BulkAct(asked["act_on"]), _found(asked)[1])
        return Shown(record, facts({**record, "first": "\n".join(record["first"])}))

    def act(self, asked: Asked) -> Shown | Refused:
        query, found = _found(asked)
        outcome = bulk_accept(
            actor=asked.actor,
            act=BulkAct(asked["act_on"]),
            reason=asked["reason"],
            query=query.urlencode(),
            run_ids=found.ids,
            shown=asked["digest"],
            count=asked["count"],
        )
        return self._shown(asked, outcome.bulk_id) if isinstance(outcome, BulkAccepted) else outcome

    def show(self, asked: Asked) -> Shown:
        return self._shown(asked, asked["id"])

    def _shown(self, asked: Asked, id: UUID) -> Shown:
        record = bulk_detail(access_bulk(actor=asked.actor, id=id))
        counted = {name: value for name, value in record.items() if name != "items"}
        rows = [(one["run"], one["status"], one["said"]) for one in record["items"]]
        return Shown(record, f"{facts(counted)}\n\n{table(('RUN', 'STATUS', 'WHY'), rows, 'No runs.')}")


def _found(asked: Asked) -> tuple[QueryDict, BulkSet]:
    query = QueryDict(mutable=True)
    for given in asked["where"]:
        name, _, value = given.partition("=")
        query.appendlist(name, value)
    found = bulk_set(asked.actor, BulkAct(asked["act_on"]), query)
    if found.asked.errors:
        raise Usage(" ".join(f"{name}: {said}" for name, said in found.asked.errors.items()))
    return query, found
