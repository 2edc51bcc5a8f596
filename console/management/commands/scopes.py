"""`manage.py scopes`: stop, abort or pause everything of a tenant, an agent or a thread, and lift that again."""

from argparse import ArgumentParser
from typing import Any, ClassVar
from uuid import UUID

from accounts.errors import Refused
from console.lists.scopes import SCOPES
from console.management.lists import add_where, where
from console.management.noun import Asked, Noun, Shown, clock, facts, table
from console.records import records_of
from console.records.scopes import ScopeControlDetail, ScopeControlRecord, scope_forecast
from runs.selectors import access_scope_control
from runs.states import Scope, ScopeKind, ScopeStatus
from runtime.services import ScopeState, named_scope, scope_abort_on, scope_end, scope_pause, scope_stop

HEADS = ("ID", "KIND", "SCOPE", "STATUS", "SINCE", "BY")


class Command(Noun):
    help = "Scopes: stop or pause a tenant, an agent or a thread."
    noun: ClassVar[str] = "scope"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest stops and pauses of scopes.")
        listing.add_argument("--status", type=str.upper, choices=list(ScopeStatus), help="only those in this state")
        add_where(listing, SCOPES)
        self.add_limit(listing)
        self.verb("show", self.show, "One of them, and how far it has got.").add_argument("id", type=UUID)
        self._add_scope(self.verb("preview", self.preview, "What a stop or a pause of a scope would meet now."))
        for name, act, help in (
            ("stop", self.stop, "Stop every live run of a scope; start none until it is lifted."),
            ("abort", self.abort, "The same, without waiting for what is on the wire."),
            ("pause", self.pause, "Pause every run of a scope until it is lifted."),
        ):
            parser = self.verb(name, act, help)
            self._add_scope(parser)
            parser.add_argument("--reason", required=True, help="why, in words")
        self._on_one("abort-on", self.abort_on, "Have a stop that stands not wait any longer for what is on the wire.")
        self._on_one("lift", self.lift, "Lift a stop or a pause of a scope.")

    def _add_scope(self, parser: ArgumentParser) -> None:
        parser.add_argument("scope", type=str.upper, choices=list(ScopeKind), help="tenant, agent or thread")
        parser.add_argument("--of", default="", help="the agent's key, or the thread's id")

    def _on_one(self, name: str, act: Any, help: str) -> None:
        parser = self.verb(name, act, help)
        parser.add_argument("id", type=UUID)
        parser.add_argument("--reason", required=True, help="why, in words")

    def list(self, asked: Asked) -> Shown:
        plain = {"status": [asked["status"]] if asked["status"] else []}
        rows = where(SCOPES, asked, plain).order_by("-accepted_at", "-id")
        records = records_of(ScopeControlRecord, self.limited(rows, asked))
        lines = [(s["id"], s["kind"], _of(s), s["status"], clock(s["accepted_at"]), s["by"]) for s in records]
        return Shown(records, table(HEADS, lines, "Nothing of a scope was stopped or paused."))

    def show(self, asked: Asked) -> Shown:
        return self._shown(asked, asked["id"])

    def preview(self, asked: Asked) -> Shown:
        record = scope_forecast(asked.actor, self._scope(asked))
        states = ", ".join(f"{count} {status}" for status, count in sorted(record["by_status"].items()))
        return Shown(record, facts({**{k.replace("_", " "): str(v) for k, v in record.items()}, "by status": states}))

    def stop(self, asked: Asked) -> Shown | Refused:
        return self._done(asked, scope_stop(actor=asked.actor, scope=self._scope(asked), reason=asked["reason"]))

    def abort(self, asked: Asked) -> Shown | Refused:
        scope = self._scope(asked)
        return self._done(asked, scope_stop(actor=asked.actor, scope=scope, reason=asked["reason"], aborts=True))

    def pause(self, asked: Asked) -> Shown | Refused:
        return self._done(asked, scope_pause(actor=asked.actor, scope=self._scope(asked), reason=asked["reason"]))

    def abort_on(self, asked: Asked) -> Shown | Refused:
        return self._done(asked, scope_abort_on(actor=asked.actor, control_id=asked["id"], reason=asked["reason"]))

    def lift(self, asked: Asked) -> Shown | Refused:
        return self._done(asked, scope_end(actor=asked.actor, control_id=asked["id"], reason=asked["reason"]))

    def _scope(self, asked: Asked) -> Scope:
        return named_scope(actor=asked.actor, kind=ScopeKind(asked["scope"]), of=asked["of"])

    def _done(self, asked: Asked, outcome: ScopeState | Refused) -> Shown | Refused:
        return outcome if isinstance(outcome, Refused) else self._shown(asked, outcome.control_id)

    def _shown(self, asked: Asked, id: UUID) -> Shown:
        record = ScopeControlDetail(access_scope_control(actor=asked.actor, id=id)).data
        progress = ", ".join(f"{count} {name}" for name, count in record["progress"].items())
        aborted, lifted = record["aborted_at"], record["lifted_at"]
        told = {
            "id": record["id"],
            "kind": record["kind"],
            "scope": record["name"],
            "status": record["status"],
            "since": f"{clock(record['accepted_at'])} by {record['by']}: {record['reason']}",
            "aborted": f"{clock(aborted)} by {record['aborted_by']}: {record['abort_reason']}" if aborted else "",
            "lifted": f"{clock(lifted)} by {record['lifted_by']}: {record['lift_reason']}" if lifted else "",
            "runs": progress,
        }
        return Shown(record, facts(told))


def _of(record: dict[str, Any]) -> str:
    return f"{record['scope']} {record['agent'] or record['thread'] or ''}".strip()
