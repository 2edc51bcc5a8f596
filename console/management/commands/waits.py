"""`manage.py waits`: what waits for a person, who looks, votes and the decision, and another call in the place of one."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from accounts.errors import Refused
from accounts.services import actor_confirm
from approvals.reports import measures_of
from approvals.selectors import access_answer_file, waits_whose
from approvals.services import (
    FILE_BYTES,
    Declined,
    FileGiven,
    FormGiven,
    Given,
    Item,
    Seen,
    TextGiven,
    question_answer,
    vote_withdraw,
    wait_assign,
    wait_claim,
    wait_release,
)
from approvals.states import DecisionVerdict, WaitStatus, Whose
from console.lists.waits import WAITS
from console.management.lists import add_where, where
from console.management.noun import Asked, Noun, Shown, Usage, clock, document, facts, save_new, table
from console.records import records_of
from console.records.calls import call_shown
from console.records.measures import MeasuresRecord
from console.records.waits import WaitRecord, batch_answer, wait_rows, wait_shown
from runs.canonical import NotCanonical, digest, parse
from runtime.services import Written, call_amend, wait_decide, waits_decide

HEADS = ("ID", "STATUS", "RUN", "REVISION", "STEP", "DECIDE BEFORE")


class Command(Noun):
    help = "Waits."
    noun: ClassVar[str] = "wait"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest waits of your tenant.")
        listing.add_argument("--status", type=str.upper, choices=list(WaitStatus), help="only those in this state")
        listing.add_argument("--run", type=UUID, help="only those of this run")
        add_where(listing, WAITS)
        listing.add_argument(
            "--whose",
            choices=list(Whose),
            default=Whose.ALL,
            help="mine: at which you look, or somebody for whom you decide now; unclaimed: at which nobody looks",
        )
        self.add_limit(listing)
        self.verb("show", self.show, "One wait with everything that one decides by.").add_argument("id", type=UUID)
        deciding = self.verb("decide", self.decide, "Approve or reject exactly what you saw with `waits show`.")
        deciding.add_argument("id", type=UUID)
        verdict = deciding.add_mutually_exclusive_group(required=True)
        verdict.add_argument("--approve", dest="verdict", action="store_const", const=DecisionVerdict.APPROVE)
        verdict.add_argument("--reject", dest="verdict", action="store_const", const=DecisionVerdict.REJECT)
        _add_seen(deciding)
        deciding.add_argument(
            "--not-shown", action="append", default=[], metavar="PATH", help="an argument that you could not see whole"
        )
        deciding.add_argument(
            "--password-stdin", action="store_true", help="read your password from stdin, for a wait that asks for it"
        )
        self._add_answering()
        measuring = self.verb("measures", self.measures, "How the team decides: how fast, how often yes, what ran out.")
        measuring.add_argument("--days", type=int, default=30, help="over how many days (%(default)s)")
        many = self.verb(
            "decide-many", self.decide_many, "Decide several, each by itself, with one verdict and one reason."
        )
        one_of = many.add_mutually_exclusive_group(required=True)
        one_of.add_argument("--approve", dest="verdict", action="store_const", const=DecisionVerdict.APPROVE)
        one_of.add_argument("--reject", dest="verdict", action="store_const", const=DecisionVerdict.REJECT)
        many.add_argument(
            "--items",
            required=True,
            metavar="JSON",
            help="what `waits list --json` gave you and you saw; - reads stdin",
        )
        many.add_argument("--reason", required=True, help="why, in words, for each")
        withdrawing = self.verb("withdraw", self.withdraw, "Take your own vote back, while nothing is decided.")
        withdrawing.add_argument("id", type=UUID)
        withdrawing.add_argument("--reason", required=True, help="why, in words")
        self.verb("claim", self.claim, "Say that you look at it.").add_argument("id", type=UUID)
        self.verb("release", self.release, "Say that you do not look at it any more.").add_argument("id", type=UUID)
        assigning = self.verb("assign", self.assign, "Give it to a person who may decide.")
        assigning.add_argument("id", type=UUID)
        assigning.add_argument("--to", required=True, metavar="USERNAME", help="to whom")
        assigning.add_argument("--reason", required=True, help="why, in words")
        amending = self.verb("amend", self.amend, "Reject a call and put one with other arguments in its place.")
        amending.add_argument("id", type=UUID)
        amending.add_argument(
            "--arguments", required=True, metavar="JSON", help="an object, without what the tool fills in itself"
        )
        _add_seen(amending)

    def _add_answering(self) -> None:
        answering = self.verb("answer", self.answer, "Answer exactly the question that you saw with `waits show`.")
        answering.add_argument("id", type=UUID)
        how = answering.add_mutually_exclusive_group(required=True)
        how.add_argument("--text", help="in free words; - reads stdin")
        how.add_argument("--form", metavar="JSON", help="the fields of its form, as an object")
        how.add_argument("--file", type=Path, help="a file; at most 1 MiB")
        _add_binding(answering)
        saving = self.verb("answer-file", self.answer_file, "Save the file that answered a question.")
        saving.add_argument("id", type=UUID)
        saving.add_argument("--save-to", type=Path, required=True, help="where; a file that is there is not replaced")
        declining = self.verb("decline", self.decline, "Do not answer a question, and say why.")
        declining.add_argument("id", type=UUID)
        _add_seen(declining)

    def list(self, asked: Asked) -> Shown:
        plain = {name: [asked[name]] if asked[name] else [] for name in ("status", "run")}
        waits = wait_rows(where(WAITS, asked, plain)).order_by("-opened_at", "-id")
        waits = waits_whose(waits, actor=asked.actor, whose=asked["whose"])
        records = records_of(WaitRecord, self.limited(waits, asked))
        rows = [(w["id"], w["status"], w["run"], w["revision"], w["step"], clock(w["deadline"])) for w in records]
        return Shown(records, table(HEADS, rows, "Nothing waits."))

    def show(self, asked: Asked) -> Shown:
        record = wait_shown(asked.actor, asked["id"], looks=True)
        return Shown(record, _text(record))

    def answer_file(self, asked: Asked) -> Shown:
        given = access_answer_file(actor=asked.actor, wait_id=asked["id"])
        save_new(asked["save_to"], given.data)
        said = {"filename": given.filename, "size": len(given.data), "sha256": digest(given.data)}
        return Shown({**said, "saved_to": str(asked["save_to"])}, facts({**said, "saved to": asked["save_to"]}))

    def amend(self, asked: Asked) -> Shown | Refused:
        seen = Seen(asked["revision"], asked["digest"], asked["args_digest"])
        written = Written(_object(asked["arguments"]), seen, asked["reason"])
        outcome = call_amend(actor=asked.actor, wait_id=asked["id"], written=written)
        if isinstance(outcome, Refused):
            return outcome
        record = call_shown(asked.actor, outcome.call_id)
        said = {name: record[name] for name in ("id", "status", "step", "author", "instead_of", "args_digest")}
        return Shown(record, facts({**said, "revision": outcome.revision}))

    def decide(self, asked: Asked) -> Shown | Refused:
        actor = asked.actor
        if asked["password_stdin"]:
            confirmed = actor_confirm(actor=actor, password=sys.stdin.readline().rstrip("\n"))
            if isinstance(confirmed, Refused):
                return confirmed
            actor = confirmed
        outcome = wait_decide(
            actor=actor,
            wait_id=asked["id"],
            verdict=asked["verdict"],
            seen=Seen(asked["revision"], asked["digest"], asked["args_digest"], tuple(asked["not_shown"])),
            reason=asked["reason"],
        )
        return self._after(outcome, asked)

    def answer(self, asked: Asked) -> Shown | Refused:
        given = _given(asked)
        return self._after(
            question_answer(actor=asked.actor, wait_id=asked["id"], seen=_seen(asked), given=given), asked
        )

    def decline(self, asked: Asked) -> Shown | Refused:
        given = Declined(asked["reason"])
        return self._after(
            question_answer(actor=asked.actor, wait_id=asked["id"], seen=_seen(asked), given=given), asked
        )

    def decide_many(self, asked: Asked) -> Shown | Refused:
        text = sys.stdin.read() if asked["items"] == "-" else asked["items"]
        outcome = waits_decide(actor=asked.actor, items=_items(text), verdict=asked["verdict"], reason=asked["reason"])
        if isinstance(outcome, Refused):
            return outcome
        records = [batch_answer(each) for each in outcome]
        rows = [(each["wait"], each["outcome"], each["code"], each["detail"]) for each in records]
        refused = sum(each["outcome"] == "REFUSED" for each in records)
        return Shown(records, table(("WAIT", "OUTCOME", "CODE", "WHY"), rows, "Nothing was named."), refused)

    def measures(self, asked: Asked) -> Shown:
        record = MeasuresRecord(measures_of(actor=asked.actor, days=asked["days"])).data
        people = [tuple(one.values()) for one in record["people"]]
        tools = [tuple(one.values()) for one in record["tools"]]
        heads = ("PERSON", "VOTES", "APPROVED", "WITHDRAWN", "WITHIN 3 S", "MEDIAN S")
        parts = [
            facts({name.replace("_", " "): value for name, value in record["totals"].items()}),
            table(heads, people, "Nobody has voted."),
            table(("TOOL", "OPENED", "DECIDED", "APPROVED", "EXPIRED", "MEDIAN S"), tools, "Nothing waited."),
        ]
        return Shown(record, "\n\n".join(parts))

    def withdraw(self, asked: Asked) -> Shown | Refused:
        return self._after(vote_withdraw(actor=asked.actor, wait_id=asked["id"], reason=asked["reason"]), asked)

    def claim(self, asked: Asked) -> Shown | Refused:
        return self._after(wait_claim(actor=asked.actor, wait_id=asked["id"]), asked)

    def release(self, asked: Asked) -> Shown | Refused:
        return self._after(wait_release(actor=asked.actor, wait_id=asked["id"]), asked)

    def assign(self, asked: Asked) -> Shown | Refused:
        outcome = wait_assign(actor=asked.actor, wait_id=asked["id"], person=asked["to"], reason=asked["reason"])
        return self._after(outcome, asked)

    def _after(self, outcome: object, asked: Asked) -> Shown | Refused:
        """The wait as it is after an act on it, or why it was refused."""
        return outcome if isinstance(outcome, Refused) else self.show(asked)


def _add_seen(parser: ArgumentParser) -> None:
    """What the person was shown, and why they decide so."""
    _add_binding(parser)
    parser.add_argument("--reason", required=True, help="why, in words")


def _add_binding(parser: ArgumentParser) -> None:
    """What the person was shown."""
    parser.add_argument("--revision", type=int, required=True, help="the revision that you saw")
    parser.add_argument("--digest", required=True, help="the checkpoint's digest that you saw")
    parser.add_argument("--args-digest", required=True, help="the arguments' digest that you saw")


def _seen(asked: Asked) -> Seen:
    return Seen(asked["revision"], asked["digest"], asked["args_digest"])


def _given(asked: Asked) -> Given:
    if asked["file"] is not None:
        return _file(asked["file"])
    if asked["form"] is not None:
        return FormGiven(_object(asked["form"], "--form"))
    return TextGiven(sys.stdin.read() if asked["text"] == "-" else asked["text"])


def _file(path: Path) -> FileGiven:
    try:
        with path.open("rb") as file:
            return FileGiven(path.name, file.read(FILE_BYTES + 1))
    except (OSError, ValueError) as error:
        raise Usage(f"The file {path} can't be read: {getattr(error, 'strerror', None) or error}.") from error


def _items(text: str) -> list[Item]:
    """The waits that a JSON list names, each with what was shown of it."""
    try:
        said = parse(text)
    except NotCanonical as error:
        raise Usage(f"--items can't be used: {error}.") from error
    try:
        return [Item(UUID(w["id"]), Seen(int(w["revision"]), str(w["digest"]), str(w["args_digest"]))) for w in said]
    except (KeyError, TypeError, ValueError) as error:
        raise Usage("--items has to be a list of objects with id, revision, digest and args_digest.") from error


def _object(text: str, option: str = "--arguments") -> dict[str, Any]:
    try:
        value = parse(text)
    except NotCanonical as error:
        raise Usage(f"{option} can't be used: {error}.") from error
    if not isinstance(value, dict):
        raise Usage(f"{option} has to be a JSON object.")
    return value


def _text(wait: dict[str, Any]) -> str:
    decision = wait["decision"] or {}
    said = (
        f"{decision['verdict']} by {decision['by']}, {clock(decision['at'])}: {decision['reason']}" if decision else ""
    )
    votes = [
        f"{vote['verdict']} by {vote['by']}, {clock(vote['at'])}"
        + (f", withdrawn {clock(vote['withdrawn_at'])}: {vote['withdrawn_because']}" if vote["withdrawn_at"] else "")
        for vote in wait["votes"]
    ]
    return facts(
        {
            "wait": wait["id"],
            "kind": wait["kind"],
            "status": wait["status"],
            "looked at by": wait["looked_at_by"],
            "votes": "\n".join(votes),
            "decision": said,
            "answer": document(wait["answer"]) if wait["answer"] else "",
            "closed": f"{clock(wait['closed_at'])} {wait['closed_because']}" if wait["closed_at"] else "",
            "run": f"{wait['run']} {wait['run_title']}",
            "call": wait["call"],
            "step": wait["step"],
            "tool": f"{wait['tool']} {wait['tool_version']}, {wait['effect_class']}",
            "arguments": "do not have their digest any more"
            if wait["arguments"] is None
            else document(wait["arguments"]),
            "why": wait["why"],
            "needs": f"{wait['quorum']} × {wait['required_role']}"
            + (f" in the group {wait['required_group']}" if wait["required_group"] else ""),
            "decide before": clock(wait["deadline"]),
            "revision": wait["revision"],
            "digest": wait["digest"],
            "args digest": wait["args_digest"],
        }
    )
