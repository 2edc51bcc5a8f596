"""`manage.py endpoints`: where people hear of things outside the pages, and what they were told."""

from pathlib import Path
from typing import ClassVar
from uuid import UUID

from accounts.errors import Refused
from accounts.selectors import access_endpoint, endpoints_visible, notices_visible
from accounts.states import EndpointKind, NoticeKind, NoticeStatus
from console.management.noun import Asked, Noun, Shown, Usage, clock, facts, table
from console.records import records_of
from console.records.endpoints import EndpointRecord, NoticeRecord
from runtime.services import EndpointRequest, endpoint_add, endpoint_drop

HEADS = ("ID", "KIND", "NAME", "TO", "PERSON", "HEARS")
TOLD = ("WRITTEN", "KIND", "STATUS", "ATTEMPTS", "ENDPOINT", "ABOUT", "ERROR")


class Command(Noun):
    help = "Endpoints of notices."
    noun: ClassVar[str] = "endpoint"

    def add_verbs(self) -> None:
        self.add_limit(self.verb("list", self.list, "Your endpoints and those of your tenant."))
        adding = self.verb("add", self.add, "Hear of things.")
        adding.add_argument("kind", type=str.upper, choices=list(EndpointKind))
        adding.add_argument("name", help="what you call it")
        # Not on the command line itself, where every process of the machine could read it.
        adding.add_argument("--address-from", type=Path, required=True, help="a file with the address; /dev/stdin too")
        adding.add_argument(
            "--hears", type=str.upper, action="append", choices=list(NoticeKind), default=[], help="only these kinds"
        )
        adding.add_argument("--whole-tenant", action="store_true", help="for everybody, not for yourself")
        adding.add_argument("--digest", action="store_true", help="gather what is of low risk into one mail")
        self.verb("remove", self.remove, "Tell an endpoint nothing any more.").add_argument("id", type=UUID)
        told = self.verb("told", self.told, "What these endpoints were told, or are to be told.")
        told.add_argument("--status", type=str.upper, choices=list(NoticeStatus), help="only those in this state")
        self.add_limit(told)

    def list(self, asked: Asked) -> Shown:
        rows = endpoints_visible(asked.actor).order_by("-created_at", "-id")
        records = records_of(EndpointRecord, self.limited(rows, asked))
        lines = [
            (one["id"], one["kind"], one["name"], one["shown"], one["person"] or "everybody", ", ".join(one["hears"]))
            for one in records
        ]
        return Shown(records, table(HEADS, lines, "There are no endpoints."))

    def add(self, asked: Asked) -> Shown | Refused:
        wanted = EndpointRequest(
            kind=asked["kind"],
            name=asked["name"],
            address=_address_in(asked["address_from"]),
            hears=frozenset(asked["hears"]),
            whole_tenant=asked["whole_tenant"],
            digest=asked["digest"],
        )
        outcome = endpoint_add(actor=asked.actor, wanted=wanted)
        return outcome if isinstance(outcome, Refused) else self._shown(asked, outcome.endpoint_id)

    def remove(self, asked: Asked) -> Shown | Refused:
        outcome = endpoint_drop(actor=asked.actor, endpoint_id=asked["id"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def _shown(self, asked: Asked, id: UUID) -> Shown:
        record = EndpointRecord(access_endpoint(actor=asked.actor, id=id)).data
        names = ("id", "kind", "name", "shown", "person", "removed_at")
        return Shown(record, facts({name.replace("_", " "): record[name] for name in names}))

    def told(self, asked: Asked) -> Shown:
        rows = notices_visible(asked.actor).order_by("-created_at", "-id")
        if asked["status"]:
            rows = rows.filter(status=asked["status"])
        records = records_of(NoticeRecord, self.limited(rows, asked))
        lines = [
            (clock(n["created_at"]), n["kind"], n["status"], n["attempts"], n["endpoint"], n["subject_id"], n["error"])
            for n in records
        ]
        return Shown(records, table(TOLD, lines, "Nothing was told."))


def _address_in(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise Usage(f"{file} can't be read: {error.strerror}.") from error
