"""`manage.py policies`: the versions of a tenant's policy; save one, try one, put one in force."""

import sys
from difflib import unified_diff
from pathlib import Path
from typing import ClassVar

from accounts.errors import Refused
from approvals.policies import version_name
from approvals.selectors import access_policy, policy_number
from approvals.services import policy_activate, policy_save
from console.lists.policies import POLICIES
from console.management.lists import add_where, where
from console.management.noun import Asked, Noun, Shown, Usage, clock, facts, shown, table
from console.records import records_of
from console.records.policies import InForceRecord, PolicyRecord, PolicySummary, RehearsalRecord, in_force
from runtime.services import policy_rehearse, policy_rehearse_version

HEADS = ("VERSION", "IN FORCE", "SAVED", "BY", "SUMMARY")
TRIED = ("STEP", "AGENT", "NOW", "DRAFT", "BY WHICH RULE")


class Command(Noun):
    help = "Policies: who must be asked before which call."
    noun: ClassVar[str] = "policy"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The versions of your tenant's policy, the newest first.")
        add_where(listing, POLICIES)
        self.add_limit(listing)
        self.verb("in-force", self.in_force, "What is in force, and since when.")
        self.verb("show", self.show, "One version.").add_argument("number", type=int)
        comparing = self.verb("diff", self.diff, "What changes from one version to another.")
        comparing.add_argument("number", type=int)
        comparing.add_argument("other", type=int)
        saving = self.verb("save", self.save, "Save a text as the next version. Nothing goes by it yet.")
        saving.add_argument("--file", required=True, help="the text, or - for stdin")
        saving.add_argument("--summary", required=True, help="what it is for, in one line")
        trying = self.verb("try", self.rehearse, "What a text or a version would say of the newest calls.")
        trying.add_argument("--file", help="a text, or - for stdin")
        trying.add_argument("--number", type=int, help="a version; 0 is the built-in policy")
        trying.add_argument("--calls", type=int, default=100, help="of how many calls (%(default)s)")
        activating = self.verb("activate", self.activate, "Put a version in force. Open waits are asked anew.")
        activating.add_argument("number", type=int, help="the version; 0 is the built-in policy")
        activating.add_argument("--seen", type=int, required=True, help="the number that you saw in force")
        activating.add_argument("--reason", required=True, help="why, in words")

    def list(self, asked: Asked) -> Shown:
        rows = where(POLICIES, asked).order_by("-number")
        records = records_of(PolicySummary, self.limited(rows, asked))
        now = policy_number(asked.actor.tenant_id)
        lines = [
            (p["version"], "yes" if p["number"] == now else "", clock(p["saved_at"]), p["saved_by"], p["summary"])
            for p in records
        ]
        return Shown(records, table(HEADS, lines, "There is no policy of your own; the built-in one is in force."))

    def in_force(self, asked: Asked) -> Shown:
        record = InForceRecord(in_force(asked.actor)).data
        since = record["activations"][0] if record["activations"] else {}
        said = {"version": record["version"], "since": clock(since.get("at")) if since else ""}
        return Shown(record, facts({**said, "by": since.get("activated_by"), "because": since.get("reason")}))

    def show(self, asked: Asked) -> Shown:
        record = PolicyRecord(access_policy(actor=asked.actor, number=asked["number"])).data
        head = {name: record[name] for name in ("version", "summary", "saved_by", "digest")}
        return Shown(record, facts(head) + "\n\n" + shown(record["text"]))

    def diff(self, asked: Asked) -> Shown:
        texts = [access_policy(actor=asked.actor, number=asked[name]).text for name in ("number", "other")]
        names = [version_name(asked[name]) for name in ("number", "other")]
        before, after = (text.splitlines() for text in texts)
        lines = list(unified_diff(before, after, names[0], names[1], lineterm=""))
        return Shown(
            {"from": names[0], "to": names[1], "lines": lines}, shown("\n".join(lines) or "They are the same.")
        )

    def save(self, asked: Asked) -> Shown | Refused:
        saved = policy_save(actor=asked.actor, text=_text(asked["file"]), summary=asked["summary"])
        if isinstance(saved, Refused):
            return saved
        record = PolicyRecord(access_policy(actor=asked.actor, number=saved.number)).data
        return Shown(record, f"Saved as {record['version']}." if saved.new else f"It is {record['version']} already.")

    def rehearse(self, asked: Asked) -> Shown | Refused:
        if (asked["file"] is None) == (asked["number"] is None):
            raise Usage("give --file or --number, and not both.")
        if asked["file"] is not None:
            found = policy_rehearse(actor=asked.actor, text=_text(asked["file"]), limit=asked["calls"])
        else:
            found = policy_rehearse_version(actor=asked.actor, number=asked["number"], limit=asked["calls"])
        if isinstance(found, Refused):
            return found
        lines = [(one.step, one.agent, one.now.outcome, one.draft.outcome, one.draft.rule) for one in found.changed]
        total = f"{len(found.changed)} of {len(found.rows)} calls would be ruled on otherwise."
        return Shown(RehearsalRecord(found).data, f"{total}\n{table(TRIED, lines, '')}".rstrip())

    def activate(self, asked: Asked) -> Shown | Refused:
        done = policy_activate(actor=asked.actor, number=asked["number"], seen=asked["seen"], reason=asked["reason"])
        if isinstance(done, Refused):
            return done
        record = InForceRecord(in_force(asked.actor)).data
        return Shown(record, f"{record['version']} is in force. Open waits are asked anew, run by run.")


def _text(file: str) -> str:
    """What a file or stdin holds. Raises Usage."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"{file} can't be read: {error}.") from error
