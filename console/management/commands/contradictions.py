"""`manage.py contradictions`: evidence against what was accepted about a call."""

from typing import ClassVar
from uuid import UUID

from accounts.errors import Refused
from console.management.noun import Asked, Noun, Shown, clock, facts, table
from console.records import records_of
from console.records.contradictions import ContradictionRecord
from receipts.selectors import access_contradiction, contradictions_visible
from receipts.states import Closing
from runtime.services import contradiction_settle

HEADS = ("ID", "CALL", "ACCEPTED", "SAYS", "SOURCE", "RAISED", "CLOSED")


class Command(Noun):
    help = "Evidence against what was accepted about a call."
    noun: ClassVar[str] = "contradiction"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest flags of your tenant.")
        listing.add_argument("--open", action="store_true", help="only those that nobody has closed")
        self.add_limit(listing)
        closing = self.verb("close", self.close, "Close a flag on your word.")
        closing.add_argument("id", type=UUID)
        closing.add_argument("--how", type=str.upper, choices=list(Closing), required=True)
        closing.add_argument("--reason", required=True, help="why, in words")

    def list(self, asked: Asked) -> Shown:
        flags = contradictions_visible(asked.actor).select_related("tool_call").order_by("-raised_at", "-id")
        if asked["open"]:
            flags = flags.filter(closed_at=None)
        records = records_of(ContradictionRecord, self.limited(flags, asked))
        rows = [
            (f["id"], f["step"], f["accepted"], f["says"], f["origin"], clock(f["raised_at"]), f["closing"])
            for f in records
        ]
        return Shown(records, table(HEADS, rows, "Nothing speaks against what was accepted."))

    def close(self, asked: Asked) -> Shown | Refused:
        outcome = contradiction_settle(
            actor=asked.actor, contradiction_id=asked["id"], closing=Closing(asked["how"]), reason=asked["reason"]
        )
        if isinstance(outcome, Refused):
            return outcome
        record = ContradictionRecord(access_contradiction(actor=asked.actor, id=asked["id"])).data
        names = ("id", "step", "accepted", "says", "origin", "evidence", "closing", "closed_by", "closing_reason")
        return Shown(record, facts({name.replace("_", " "): record[name] for name in names}))
