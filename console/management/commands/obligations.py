"""`manage.py obligations`: what runs promised, and the release of a promise."""

from typing import ClassVar
from uuid import UUID

from accounts.errors import Refused
from checkpoints.models import Obligation
from checkpoints.selectors import access_obligation
from checkpoints.states import ObligationStatus
from console.management.noun import Asked, Noun, Shown, facts, table
from console.records import records_of
from console.records.obligations import ObligationRecord
from runs.selectors import runs_visible
from runtime.services import obligation_release

HEADS = ("ID", "STATUS", "RUN", "STEP", "STATEMENT")


class Command(Noun):
    help = "Obligations."
    noun: ClassVar[str] = "obligation"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest obligations of your tenant.")
        listing.add_argument(
            "--status", type=str.upper, choices=list(ObligationStatus), help="only those in this state"
        )
        listing.add_argument("--run", type=UUID, help="only those of this run")
        self.add_limit(listing)
        releasing = self.verb("release", self.release, "Let the run complete without it.")
        releasing.add_argument("id", type=UUID)
        releasing.add_argument("--reason", required=True, help="why, in words")

    def list(self, asked: Asked) -> Shown:
        rows = Obligation.objects.filter(run__in=runs_visible(asked.actor)).order_by("-promised_at", "-id")
        if asked["status"]:
            rows = rows.filter(status=asked["status"])
        if asked["run"]:
            rows = rows.filter(run_id=asked["run"])
        records = records_of(ObligationRecord, self.limited(rows, asked))
        lines = [(o["id"], o["status"], o["run"], o["step"], o["statement"]) for o in records]
        return Shown(records, table(HEADS, lines, "There are no such obligations."))

    def release(self, asked: Asked) -> Shown | Refused:
        outcome = obligation_release(actor=asked.actor, obligation_id=asked["id"], reason=asked["reason"])
        if isinstance(outcome, Refused):
            return outcome
        record = ObligationRecord(access_obligation(actor=asked.actor, id=asked["id"])).data
        names = ("id", "status", "run", "step", "statement", "released_by", "release_reason")
        return Shown(record, facts({name.replace("_", " "): record[name] for name in names}))
