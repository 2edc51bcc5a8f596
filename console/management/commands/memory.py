"""`manage.py memory`: what the agents of a tenant remember."""

from typing import ClassVar

from console.management.noun import Asked, Noun, Shown, clock, table
from console.records import records_of
from console.records.memory import MemoryRecord
from runs.selectors import memory_visible


class Command(Noun):
    help = "Long-term memory."
    noun: ClassVar[str] = "memory"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest things that your tenant's agents remember.")
        listing.add_argument("--subject", default="", help="only those under exactly this subject")
        self.add_limit(listing)

    def list(self, asked: Asked) -> Shown:
        items = memory_visible(asked.actor).order_by("-at", "-id")
        if asked["subject"]:
            items = items.filter(subject=asked["subject"])
        records = records_of(MemoryRecord, self.limited(items, asked))
        lines = [(clock(one["at"]), one["subject"], one["text"]) for one in records]
        return Shown(records, table(("KEPT", "SUBJECT", "TEXT"), lines, "Nothing is remembered."))
