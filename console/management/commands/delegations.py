"""`manage.py delegations`: who decides with whose authority, given for a time and taken back."""

from datetime import UTC, datetime
from typing import ClassVar
from uuid import UUID

from accounts.errors import Refused
from approvals.selectors import access_delegation, delegations_visible
from approvals.services import DelegationWanted, delegation_end, delegation_give
from console.management.noun import Asked, Noun, Shown, clock, facts, table
from console.records import records_of
from console.records.delegations import DelegationRecord

HEADS = ("ID", "GIVER", "TAKER", "FROM", "UNTIL", "ENDED")


class Command(Noun):
    help = "Delegations."
    noun: ClassVar[str] = "delegation"

    def add_verbs(self) -> None:
        self.add_limit(self.verb("list", self.list, "The newest delegations of your tenant."))
        giving = self.verb("give", self.give, "Have another member decide with your authority for a time.")
        giving.add_argument("--to", required=True, metavar="USERNAME", help="who decides")
        giving.add_argument("--from", dest="starts_at", type=_moment, metavar="TIME", help="from when; now by default")
        giving.add_argument("--until", dest="ends_at", type=_moment, required=True, metavar="TIME", help="until when")
        giving.add_argument("--reason", required=True, help="why, in words")
        self.verb("end", self.end, "Take one back, or lay it down, before its time.").add_argument("id", type=UUID)

    def list(self, asked: Asked) -> Shown:
        rows = delegations_visible(asked.actor).order_by("-given_at", "-id")
        records = records_of(DelegationRecord, self.limited(rows, asked))
        lines = [
            (d["id"], d["giver"], d["taker"], clock(d["starts_at"]), clock(d["ends_at"]), clock(d["ended_at"]))
            for d in records
        ]
        return Shown(records, table(HEADS, lines, "Nobody stands in for anybody."))

    def give(self, asked: Asked) -> Shown | Refused:
        wanted = DelegationWanted(asked["to"], asked["ends_at"], asked["reason"], asked["starts_at"])
        outcome = delegation_give(actor=asked.actor, wanted=wanted)
        return outcome if isinstance(outcome, Refused) else _shown(asked, outcome.delegation_id)

    def end(self, asked: Asked) -> Shown | Refused:
        outcome = delegation_end(actor=asked.actor, delegation_id=asked["id"])
        return outcome if isinstance(outcome, Refused) else _shown(asked, outcome.delegation_id)


def _shown(asked: Asked, id: UUID) -> Shown:
    record = DelegationRecord(access_delegation(actor=asked.actor, id=id)).data
    return Shown(record, facts({name.replace("_", " "): value for name, value in record.items()}))


def _moment(text: str) -> datetime:
    """A time as ISO 8601; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
