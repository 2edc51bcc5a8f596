"""`manage.py views`: saved views of lists, one's own and those that others share."""

from typing import ClassVar
from uuid import UUID

from accounts.errors import Refused
from accounts.selectors import access_view, views_visible
from accounts.services import view_remove, view_save
from console.management.noun import Asked, Noun, Shown, facts, table
from console.pages.lists.views import ALL, address_of
from console.records import records_of
from console.records.views import ViewRecord

HEADS = ("ID", "LIST", "NAME", "SHARED", "PERSON", "ADDRESS")


class Command(Noun):
    help = "Saved views of lists."
    noun: ClassVar[str] = "view"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "Your views and those that others share.")
        listing.add_argument("--listed", choices=sorted(ALL), help="only of this list")
        self.add_limit(listing)
        saving = self.verb("save", self.save, "Keep a list as you look at it.")
        saving.add_argument("listed", choices=sorted(ALL), help="which list")
        saving.add_argument("name", help="what you call it")
        saving.add_argument("--query", default="", help="its address behind the question mark, as status=HELD")
        saving.add_argument("--shared", action="store_true", help="for everybody of the tenant")
        going = self.verb("remove", self.remove, "Let a view go.")
        going.add_argument("id", type=UUID)
        going.add_argument("--name", required=True, help="what it is called")

    def list(self, asked: Asked) -> Shown:
        rows = views_visible(asked.actor)
        if asked["listed"]:
            rows = rows.filter(listed=asked["listed"])
        records = records_of(ViewRecord, self.limited(rows, asked))
        lines = [(r["id"], r["listed"], r["name"], r["shared"], r["person"], r["query"]) for r in records]
        return Shown(records, table(HEADS, lines, "There are no saved views."))

    def save(self, asked: Asked) -> Shown | Refused:
        query = address_of(asked.actor, ALL[asked["listed"]], asked["query"])
        outcome = view_save(
            actor=asked.actor, listed=asked["listed"], name=asked["name"], query=query, shared=asked["shared"]
        )
        return outcome if isinstance(outcome, Refused) else self._shown(asked, outcome.id)

    def remove(self, asked: Asked) -> Shown | Refused:
        shown = self._shown(asked, asked["id"])
        return view_remove(actor=asked.actor, id=asked["id"], name=asked["name"]) or shown

    def _shown(self, asked: Asked, id: UUID) -> Shown:
        record = ViewRecord(access_view(actor=asked.actor, id=id)).data
        return Shown(record, facts(record))
