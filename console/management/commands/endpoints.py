"""`manage.py endpoints`: where people hear of things outside the pages, and what they were told."""

from pathlib import Path
from typing import ClassVar
from uuid import UUID

from accounts.errors import Refused
from accounts.selectors import access_endpoint, endpoints_visible, notices_visible
from accounts.states import HEARD, EndpointKind, NoticeStatus
from console.management.noun import Asked, Noun, Shown, Usage, clock, facts, table
from console.records import records_of
from console.records.endpoints import EndpointRecord, NoticeRecord, PurgedRecord
from runtime.services import (
    EndpointChange,
    EndpointRequest,
    endpoint_add,
    endpoint_drop,
    endpoint_edit,
    endpoint_go_on,
    endpoint_hold,
    endpoint_test,
    notices_retain,
)

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
            "--hears", type=str.upper, action="append", choices=HEARD, default=[], help="only these kinds"
        )
        adding.add_argument(
            "--signed-with-from", type=Path, help="a file with the secret that a webhook is signed with"
        )
        adding.add_argument("--whole-tenant", action="store_true", help="for everybody, not for yourself")
        adding.add_argument("--digest", action="store_true", help="gather what is of low risk into one mail")
        self._add_acts()
        self.verb("remove", self.remove, "Tell an endpoint nothing any more.").add_argument("id", type=UUID)
        told = self.verb("told", self.told, "What these endpoints were told, or are to be told.")
        told.add_argument("--endpoint", type=UUID, help="only of this endpoint")
        told.add_argument("--status", type=str.upper, choices=list(NoticeStatus), help="only those in this state")
        self.add_limit(told)

    def _add_acts(self) -> None:
        self.verb("show", self.show, "One endpoint; never its address.").add_argument("id", type=UUID)
        changing = self.verb("change", self.change, "Change an endpoint. What is not named stays.")
        changing.add_argument("id", type=UUID)
        changing.add_argument("--name", help="what you call it")
        changing.add_argument("--address-from", type=Path, help="a file with the new address; /dev/stdin too")
        changing.add_argument(
            "--signed-with-from", type=Path, help="a file with the new secret; an empty one ends signing"
        )
        changing.add_argument("--hears", type=str.upper, action="append", choices=HEARD, help="only these kinds")
        gather = changing.add_mutually_exclusive_group()
        gather.add_argument("--digest", action="store_true", default=None, help="gather what is of low risk")
        gather.add_argument("--no-digest", action="store_false", dest="digest", help="tell each by itself")
        changing.add_argument(
            "--seen-version", type=int, help="the version that you were reading; refused if there is a newer one"
        )
        self.verb("pause", self.pause, "Tell it nothing until it is resumed.").add_argument("id", type=UUID)
        self.verb("resume", self.resume, "Tell it again.").add_argument("id", type=UUID)
        self.verb("test", self.test, "Send it a test; `endpoints told` says what came of it.").add_argument(
            "id", type=UUID
        )
        purging = self.verb(
            "purge", self.purge, "Delete for good what was told longer ago than this installation keeps it."
        )
        purging.add_argument("--reason", required=True, help="why, in words")

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
            address=_text_in(asked["address_from"]),
            hears=frozenset(asked["hears"]),
            whole_tenant=asked["whole_tenant"],
            digest=asked["digest"],
            signed_with=_text_in(asked["signed_with_from"]) if asked["signed_with_from"] else "",
        )
        outcome = endpoint_add(actor=asked.actor, wanted=wanted)
        return outcome if isinstance(outcome, Refused) else self._shown(asked, outcome.endpoint_id)

    def show(self, asked: Asked) -> Shown:
        return self._shown(asked, asked["id"])

    def change(self, asked: Asked) -> Shown | Refused:
        wanted = EndpointChange(
            name=asked["name"],
            address=_text_in(asked["address_from"]) if asked["address_from"] else None,
            signed_with=_text_in(asked["signed_with_from"]) if asked["signed_with_from"] else None,
            hears=frozenset(asked["hears"]) if asked["hears"] else None,
            digest=asked["digest"],
            seen=asked["seen_version"],
        )
        outcome = endpoint_edit(actor=asked.actor, endpoint_id=asked["id"], wanted=wanted)
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def pause(self, asked: Asked) -> Shown | Refused:
        outcome = endpoint_hold(actor=asked.actor, endpoint_id=asked["id"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def resume(self, asked: Asked) -> Shown | Refused:
        outcome = endpoint_go_on(actor=asked.actor, endpoint_id=asked["id"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def test(self, asked: Asked) -> Shown | Refused:
        outcome = endpoint_test(actor=asked.actor, endpoint_id=asked["id"])
        if isinstance(outcome, Refused):
            return outcome
        record = NoticeRecord(notices_visible(asked.actor).get(id=outcome.notice_id)).data
        return Shown(record, facts({name: record[name] for name in ("id", "endpoint", "kind", "status")}))

    def purge(self, asked: Asked) -> Shown | Refused:
        outcome = notices_retain(actor=asked.actor, reason=asked["reason"])
        if isinstance(outcome, Refused):
            return outcome
        record = PurgedRecord(outcome).data
        return Shown(record, facts(record))

    def remove(self, asked: Asked) -> Shown | Refused:
        outcome = endpoint_drop(actor=asked.actor, endpoint_id=asked["id"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def _shown(self, asked: Asked, id: UUID) -> Shown:
        record = EndpointRecord(access_endpoint(actor=asked.actor, id=id)).data
        names = (
            "id",
            "kind",
            "name",
            "shown",
            "person",
            "hears",
            "digest",
            "signed",
            "version",
            "paused_at",
            "removed_at",
        )
        return Shown(record, facts({name.replace("_", " "): record[name] for name in names}))

    def told(self, asked: Asked) -> Shown:
        rows = notices_visible(asked.actor).order_by("-created_at", "-id")
        if asked["endpoint"]:
            rows = rows.filter(endpoint=asked["endpoint"])
        if asked["status"]:
            rows = rows.filter(status=asked["status"])
        records = records_of(NoticeRecord, self.limited(rows, asked))
        lines = [
            (clock(n["created_at"]), n["kind"], n["status"], n["attempts"], n["endpoint"], n["subject_id"], n["error"])
            for n in records
        ]
        return Shown(records, table(TOLD, lines, "Nothing was told."))


def _text_in(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise Usage(f"{file} can't be read: {error.strerror}.") from error
