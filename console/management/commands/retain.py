"""`manage.py retain`: which bodies of checkpoints the policy lets go, and letting them go."""

from argparse import ArgumentParser
from typing import ClassVar
from uuid import UUID

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Permission
from console.management.noun import Asked, Noun, Shown, shown, table
from console.records.retention import retention_records
from runtime.services import Retention, retention_of, retention_of_tenant, run_retain

HEADS = ("RUN", "BODIES", "REVISIONS", "BYTES", "KEPT")


class Command(Noun):
    help = "Purge old bodies of checkpoints, of every run or of one. Envelopes, receipts, reports and the audit stay."
    noun: ClassVar[str] = "run"

    def add_arguments(self, parser: ArgumentParser) -> None:
        self.does(parser, self.retain)
        parser.add_argument("--run", type=UUID, help="only this run")
        parser.add_argument("--dry-run", action="store_true", help="list what would go, and write nothing")
        parser.add_argument("--reason", default="", help="why, in words; needed unless it is a dry run")

    def retain(self, asked: Asked) -> Shown | Refused:
        """Each run by itself: where one refuses, the others go on, and the answer has what came of each."""
        if not asked["dry_run"] and not asked.actor.may(Permission.RETAIN):
            return NotAllowed({"permission": str(Permission.RETAIN), "actor": asked.actor.name})
        found = (
            [retention_of(actor=asked.actor, run_id=asked["run"])]
            if asked["run"]
            else list(retention_of_tenant(asked.actor))
        )
        if asked["dry_run"]:
            return listed(found)
        gone: list[Retention] = []
        refused: list[tuple[UUID, Refused]] = []
        for one in found:
            outcome = run_retain(actor=asked.actor, run_id=one.run_id, reason=asked["reason"])
            if isinstance(outcome, Invalid):
                return outcome  # it is the same for all of them
            if isinstance(outcome, Refused):
                refused.append((one.run_id, outcome))
            else:
                gone.append(outcome)
        if refused and not gone:
            return refused[0][1]
        return listed(gone, refused)


def listed(found: list[Retention], refused: list[tuple[UUID, Refused]] | None = None) -> Shown:
    """One line a run, and one for each that refused."""
    rows = [(one.run_id, len(one.going), ranges(one), one.size, one.kept) for one in found if one.going]
    noes = [f"{run_id}: {one.sentence} ({one.code})" for run_id, one in refused or []]
    records = [*retention_records(found), *({"run": str(run_id), "refused": one.code} for run_id, one in refused or [])]
    return Shown(records, shown("\n".join([table(HEADS, rows, "Nothing goes."), *noes])), len(noes))


def ranges(found: Retention) -> str:
    """The revisions of what goes, as `1-40, 52`."""
    numbers = sorted(body.revision for body in found.going)
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in zip(starts, ends, strict=True))
