"""`manage.py checkpoints`: the revisions of a run, one of them, and what changed between two."""

import json
from argparse import ArgumentTypeError
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from accounts.errors import Refused
from checkpoints.errors import Unreadable
from checkpoints.selectors import chain_verify
from console.lists.checkpoints import CHECKPOINTS, checkpoints_of
from console.management.lists import add_where, where
from console.management.noun import Asked, Noun, Shown, clock, document, facts, shown, table
from console.records import records_of
from console.records.checkpoints import (
    CheckpointDetail,
    CheckpointRecord,
    ComparisonRecord,
    checkpoint_at,
    checkpoint_read,
    checkpoints_compared,
)
from console.records.export import ExportRecord, checkpoint_exported
from runs.selectors import access_run

HEADS = ("REVISION", "PHASE", "TRIGGER", "FENCE", "SAVED", "BODY", "DIGEST")


def moment(text: str) -> datetime:
    """A moment in ISO 8601; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"give a moment such as 2026-06-30T10:02:00Z, not {text!r}") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class ChainUnreadable(Refused):
    """The chain of revisions does not hold ({kind}): {found}."""

    code = "CHAIN_BROKEN"


class Command(Noun):
    help = "Checkpoints."
    noun: ClassVar[str] = "checkpoint"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The revisions of a run, oldest first.")
        listing.add_argument("run", type=UUID)
        listing.add_argument("--at", type=moment, help="only the one that was the head then: 2026-06-30T10:02:00Z")
        add_where(listing, CHECKPOINTS)
        showing = self.verb("show", self.show, "One revision, its digest checked.")
        showing.add_argument("run", type=UUID)
        showing.add_argument("revision", type=int)
        exporting = self.verb("export", self.export, "One revision as a document for other systems.")
        exporting.add_argument("run", type=UUID)
        exporting.add_argument("revision", type=int)
        verifying = self.verb("verify", self.verify, "Walk the chain: every digest, every parent, and the head.")
        verifying.add_argument("run", type=UUID)
        comparing = self.verb("diff", self.diff, "Every place where two revisions differ.")
        comparing.add_argument("run", type=UUID)
        comparing.add_argument("revision", type=int, help="the older one")
        comparing.add_argument("other", type=int, help="the newer one")

    def list(self, asked: Asked) -> Shown:
        run = access_run(actor=asked.actor, id=asked["run"])
        found = where(checkpoints_of(run), asked).order_by("revision")
        if asked["at"] is not None:
            found = found.filter(pk__in=checkpoint_at(run, asked["at"]).values("pk"))
        records = records_of(CheckpointRecord, found)
        rows = [
            (
                f"{c['revision']}{' (head)' if c['is_head'] else ''}",
                *(c["phase"], c["trigger"], c["fence"], clock(c["created_at"]), _body(c), c["digest"]),
            )
            for c in records
        ]
        return Shown(records, table(HEADS, rows, "There are none."))

    def show(self, asked: Asked) -> Shown:
        reading = checkpoint_read(actor=asked.actor, run_id=asked["run"], revision=asked["revision"])
        record = CheckpointDetail(reading).data
        names = ("run", "revision", "phase", "next_node", "trigger", "fence", "goal_version", "digest", "parent_digest")
        lines = {name.replace("_", " "): record[name] for name in names}
        note = f"not shown: {record['unreadable']}" if record["unreadable"] else document(record["body"])
        return Shown(record, facts({**lines, "saved": clock(record["created_at"]), "note": note}))

    def export(self, asked: Asked) -> Shown | Refused:
        exported = checkpoint_exported(actor=asked.actor, run_id=asked["run"], revision=asked["revision"])
        if isinstance(exported, Refused):
            return exported
        record = ExportRecord(exported).data
        return Shown(record, document(record))

    def verify(self, asked: Asked) -> Shown | Refused:
        try:
            walked = chain_verify(access_run(actor=asked.actor, id=asked["run"]))
        except Unreadable as error:
            return ChainUnreadable({"kind": error.kind, "found": error.found})
        record = {"revisions": walked.revisions, "purged": walked.purged, "whole": True}
        return Shown(record, f"The chain is whole: {walked.revisions} revisions, {walked.purged} of them purged.")

    def diff(self, asked: Asked) -> Shown | Refused:
        compared = checkpoints_compared(
            actor=asked.actor, run_id=asked["run"], before=asked["revision"], after=asked["other"]
        )
        if isinstance(compared, Refused):
            return compared
        record = ComparisonRecord(compared).data
        places = (
            f"{shown(d['path'])}\n  - {json.dumps(d['before'])}\n  + {json.dumps(d['after'])}"
            for d in record["differences"]
        )
        return Shown(record, "\n".join(places) or "The two revisions do not differ.")


def _body(record: Any) -> str:
    return f"purged {clock(record['purged_at'])}" if record["purged_at"] else f"{record['body_bytes']} B"
