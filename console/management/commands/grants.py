"""`manage.py grants`: what people have allowed in advance; give and revoke."""

from typing import ClassVar
from uuid import UUID

from accounts.errors import Refused
from approvals.selectors import access_grant
from approvals.services import grant_revoke
from console.lists.grants import GRANTS
from console.management.lists import add_where, where
from console.management.noun import Asked, Noun, Shown, clock, facts, table
from console.records import records_of
from console.records.grants import GrantRecord, GrantSummary
from runtime.services import GrantRequest, tool_grant

HEADS = ("ID", "AGENT", "TOOL", "OWNER", "USES", "ENDS", "REVOKED")


class Command(Noun):
    help = "Standing grants: calls that a person has allowed in advance."
    noun: ClassVar[str] = "grant"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest grants of your tenant, also those that are over.")
        add_where(listing, GRANTS)
        self.add_limit(listing)
        self.verb("show", self.show, "One grant, and what was sent by it.").add_argument("id", type=UUID)
        giving = self.verb("give", self.give, "Allow one tool of one agent in advance.")
        giving.add_argument("agent")
        giving.add_argument("tool")
        giving.add_argument("--if", dest="condition", default="", help="a condition, as policies write it")
        giving.add_argument("--hours", type=int, required=True, help="for how long")
        giving.add_argument("--uses", type=int, required=True, help="for how many calls")
        giving.add_argument("--reason", required=True, help="why, in words")
        revoking = self.verb("revoke", self.revoke, "End a grant before its time.")
        revoking.add_argument("id", type=UUID)
        revoking.add_argument("--reason", required=True, help="why, in words")

    def list(self, asked: Asked) -> Shown:
        rows = where(GRANTS, asked).order_by("-given_at", "-id")
        records = records_of(GrantSummary, self.limited(rows, asked))
        lines = [
            (g["id"], g["agent"], g["tool"], g["owner"], _uses(g), clock(g["expires_at"]), clock(g["revoked_at"]))
            for g in records
        ]
        return Shown(records, table(HEADS, lines, "There is no grant."))

    def show(self, asked: Asked) -> Shown:
        return _shown(asked, asked["id"])

    def give(self, asked: Asked) -> Shown | Refused:
        wanted = GrantRequest(asked["agent"], asked["tool"], asked["condition"], asked["hours"], asked["uses"])
        given = tool_grant(actor=asked.actor, wanted=wanted, reason=asked["reason"])
        return given if isinstance(given, Refused) else _shown(asked, given.grant_id)

    def revoke(self, asked: Asked) -> Shown | Refused:
        done = grant_revoke(actor=asked.actor, grant_id=asked["id"], reason=asked["reason"])
        return done if isinstance(done, Refused) else _shown(asked, asked["id"])


def _uses(record: dict[str, int]) -> str:
    return f"{record['uses']} of {record['max_uses']}"


def _shown(asked: Asked, id: UUID) -> Shown:
    record = GrantRecord(access_grant(actor=asked.actor, id=id)).data
    names = ("id", "agent", "tool", "condition", "owner", "reason", "revoked_by", "revocation_reason")
    said = {name.replace("_", " "): record[name] for name in names}
    used = "\n".join(f"{use['step']} {clock(use['at'])} {use['call']}" for use in record["used_by"])
    return Shown(record, facts({**said, "ends": clock(record["expires_at"]), "uses": _uses(record), "used by": used}))
