"""`manage.py commitments`: what runs are bound to and rest on, and the withdrawal of one at its source."""

from typing import ClassVar
from uuid import UUID

from accounts.errors import Refused
from checkpoints.models import Commitment
from checkpoints.selectors import access_commitment
from checkpoints.states import CommitmentKind, CommitmentStatus
from console.management.noun import Asked, Noun, Shown, facts, table
from console.records import records_of
from console.records.commitments import CommitmentRecord
from runs.selectors import runs_visible
from runtime.services import commitment_withdraw

HEADS = ("ID", "KIND", "STATUS", "RUN", "SOURCE", "STATEMENT")


class Command(Noun):
    help = "Constraints and assumptions."
    noun: ClassVar[str] = "commitment"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest commitments of your tenant.")
        listing.add_argument("--kind", type=str.upper, choices=list(CommitmentKind), help="only those of this kind")
        listing.add_argument(
            "--status", type=str.upper, choices=list(CommitmentStatus), help="only those in this state"
        )
        listing.add_argument("--run", type=UUID, help="only those of this run")
        self.add_limit(listing)
        withdrawing = self.verb("withdraw", self.withdraw, "Record that it does not hold any more, at its source.")
        withdrawing.add_argument("id", type=UUID)
        withdrawing.add_argument("--reason", required=True, help="why, in words")

    def list(self, asked: Asked) -> Shown:
        rows = Commitment.objects.filter(run__in=runs_visible(asked.actor)).order_by("-accepted_at", "-id")
        wanted = {"kind": asked["kind"], "status": asked["status"], "run_id": asked["run"]}
        rows = rows.filter(**{name: value for name, value in wanted.items() if value})
        records = records_of(CommitmentRecord, self.limited(rows, asked))
        lines = [(c["id"], c["kind"], c["status"], c["run"], c["source_ref"], c["statement"]) for c in records]
        return Shown(records, table(HEADS, lines, "There are no such commitments."))

    def withdraw(self, asked: Asked) -> Shown | Refused:
        outcome = commitment_withdraw(actor=asked.actor, commitment_id=asked["id"], reason=asked["reason"])
        if isinstance(outcome, Refused):
            return outcome
        record = CommitmentRecord(access_commitment(actor=asked.actor, id=asked["id"])).data
        names = ("id", "kind", "status", "run", "statement", "withdrawn_by", "withdrawal_reason")
        return Shown(record, facts({name.replace("_", " "): record[name] for name in names}))
