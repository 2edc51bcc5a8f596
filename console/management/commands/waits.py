"""`manage.py waits`: what waits for a person, the decision, and another call in the place of one."""

from argparse import ArgumentParser
from typing import Any, ClassVar
from uuid import UUID

from accounts.errors import Refused
from approvals.selectors import access_wait, waits_visible
from approvals.services import Seen, approval_decide
from approvals.states import DecisionVerdict, WaitStatus
from console.management.noun import Asked, Noun, Shown, Usage, clock, document, facts, table
from console.records import records_of
from console.records.calls import CallDetail, call_with_parts
from console.records.waits import WaitRecord, wait_rows
from receipts.selectors import access_call
from runs.canonical import NotCanonical, parse
from runtime.services import Written, call_amend

HEADS = ("ID", "STATUS", "RUN", "REVISION", "STEP", "DECIDE BEFORE")


class Command(Noun):
    help = "Waits."
    noun: ClassVar[str] = "wait"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest waits of your tenant.")
        listing.add_argument("--status", type=str.upper, choices=list(WaitStatus), help="only those in this state")
        listing.add_argument("--run", type=UUID, help="only those of this run")
        self.add_limit(listing)
        self.verb("show", self.show, "One wait with everything that one decides by.").add_argument("id", type=UUID)
        deciding = self.verb("decide", self.decide, "Approve or reject exactly what you saw with `waits show`.")
        deciding.add_argument("id", type=UUID)
        verdict = deciding.add_mutually_exclusive_group(required=True)
        verdict.add_argument("--approve", dest="verdict", action="store_const", const=DecisionVerdict.APPROVE)
        verdict.add_argument("--reject", dest="verdict", action="store_const", const=DecisionVerdict.REJECT)
        _add_seen(deciding)
        amending = self.verb("amend", self.amend, "Reject a call and put one with other arguments in its place.")
        amending.add_argument("id", type=UUID)
        amending.add_argument(
            "--arguments", required=True, metavar="JSON", help="an object, without what the tool fills in itself"
        )
        _add_seen(amending)

    def list(self, asked: Asked) -> Shown:
        waits = wait_rows(waits_visible(asked.actor)).order_by("-opened_at", "-id")
        if asked["status"]:
            waits = waits.filter(status=asked["status"])
        if asked["run"]:
            waits = waits.filter(run_id=asked["run"])
        records = records_of(WaitRecord, self.limited(waits, asked))
        rows = [(w["id"], w["status"], w["run"], w["revision"], w["step"], clock(w["deadline"])) for w in records]
        return Shown(records, table(HEADS, rows, "Nothing waits."))

    def show(self, asked: Asked) -> Shown:
        record = WaitRecord(access_wait(actor=asked.actor, id=asked["id"])).data
        return Shown(record, _text(record))

    def amend(self, asked: Asked) -> Shown | Refused:
        seen = Seen(asked["revision"], asked["digest"], asked["args_digest"])
        written = Written(_object(asked["arguments"]), seen, asked["reason"])
        outcome = call_amend(actor=asked.actor, wait_id=asked["id"], written=written)
        if isinstance(outcome, Refused):
            return outcome
        record = CallDetail(call_with_parts(access_call(actor=asked.actor, id=outcome.call_id))).data
        said = {name: record[name] for name in ("id", "status", "step", "author", "instead_of", "args_digest")}
        return Shown(record, facts({**said, "revision": outcome.revision}))

    def decide(self, asked: Asked) -> Shown | Refused:
        outcome = approval_decide(
            actor=asked.actor,
            wait_id=asked["id"],
            verdict=asked["verdict"],
            seen=Seen(asked["revision"], asked["digest"], asked["args_digest"]),
            reason=asked["reason"],
        )
        return outcome if isinstance(outcome, Refused) else self.show(asked)


def _add_seen(parser: ArgumentParser) -> None:
    """What the person was shown, and why they decide so."""
    parser.add_argument("--revision", type=int, required=True, help="the revision that you saw")
    parser.add_argument("--digest", required=True, help="the checkpoint's digest that you saw")
    parser.add_argument("--args-digest", required=True, help="the arguments' digest that you saw")
    parser.add_argument("--reason", required=True, help="why, in words")


def _object(text: str) -> dict[str, Any]:
    try:
        value = parse(text)
    except NotCanonical as error:
        raise Usage(f"--arguments can't be used: {error}.") from error
    if not isinstance(value, dict):
        raise Usage("--arguments has to be a JSON object.")
    return value


def _text(wait: dict[str, Any]) -> str:
    decision = wait["decision"] or {}
    said = (
        f"{decision['verdict']} by {decision['by']}, {clock(decision['at'])}: {decision['reason']}" if decision else ""
    )
    return facts(
        {
            "wait": wait["id"],
            "status": wait["status"],
            "decision": said,
            "closed": f"{clock(wait['closed_at'])} {wait['closed_because']}" if wait["closed_at"] else "",
            "run": f"{wait['run']} {wait['run_title']}",
            "call": wait["call"],
            "step": wait["step"],
            "tool": f"{wait['tool']} {wait['tool_version']}, {wait['effect_class']}",
            "arguments": "do not have their digest any more"
            if wait["arguments"] is None
            else document(wait["arguments"]),
            "why": wait["why"],
            "needs": wait["required_role"],
            "decide before": clock(wait["deadline"]),
            "revision": wait["revision"],
            "digest": wait["digest"],
            "args digest": wait["args_digest"],
        }
    )
