"""`manage.py calls`: tool calls, and the verdict on one whose outcome nobody knows."""

from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from accounts.errors import Refused
from console.lists.calls import CALLS
from console.management.lists import add_where, where
from console.management.noun import Asked, Noun, Shown, Usage, clock, document, facts, save_new, table
from console.records import records_of
from console.records.calls import CallRecord, call_rows, call_shown
from receipts.selectors import access_attachment
from receipts.states import ATTACHMENT_BYTES, CallStatus, FollowUp, Verdict
from runs.selectors import artifact_bytes
from runtime.services import (
    EvidenceGiven,
    Upload,
    VerdictRequest,
    call_attach,
    call_contradict,
    call_probe,
    call_reconcile,
    effect_repeat,
)

HEADS = ("ID", "STATUS", "RUN", "STEP", "EFFECT CLASS", "ATTEMPTS")


class Command(Noun):
    help = "Tool calls."
    noun: ClassVar[str] = "call"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest calls of your tenant.")
        listing.add_argument("--status", type=str.upper, choices=list(CallStatus), help="only those in this state")
        listing.add_argument("--run", type=UUID, help="only those of this run")
        add_where(listing, CALLS)
        self.add_limit(listing)
        showing = self.verb("show", self.show, "One call with each try, its result and every verdict.")
        showing.add_argument("id", type=UUID)
        saying = self.verb("reconcile", self.reconcile, "Say whether a call of unknown outcome happened.")
        saying.add_argument("id", type=UUID)
        saying.add_argument("--verdict", type=str.upper, choices=list(Verdict), required=True)
        saying.add_argument("--evidence", required=True, help="how you know, in words")
        saying.add_argument("--external-ref", default="", help="what the other side calls it")
        then = [FollowUp.RETRY, FollowUp.FAIL]
        saying.add_argument("--then", type=str.upper, choices=then, default=FollowUp.NONE, help="after NOT_EXECUTED")

        asking = self.verb("probe", self.probe, "Ask once whether a call of unknown outcome happened. No verdict.")
        asking.add_argument("id", type=UUID)
        asking.add_argument("--attempts", type=int, help="the attempt that you saw; refused if there is a later one")

        attaching = self.verb("attach", self.attach, "Put a file beside a call that was sent, as evidence.")
        attaching.add_argument("id", type=UUID)
        attaching.add_argument("--file", type=Path, required=True, help="the file; at most 1 MiB")
        attaching.add_argument("--note", default="", help="what it shows, in words")

        saving = self.verb("attachment", self.attachment, "Save a file that was put beside a call.")
        saving.add_argument("id", type=UUID)
        saving.add_argument("attachment", type=UUID)
        saving.add_argument("--save-to", type=Path, required=True, help="where; a file that is there is not replaced")

        repeating = self.verb("repeat", self.repeat, "Ask for a second effect of a call that has happened.")
        repeating.add_argument("id", type=UUID)
        repeating.add_argument("--reason", required=True, help="why, in words")

        speaking = self.verb("contradict", self.contradict, "Give evidence against what was accepted about a call.")
        speaking.add_argument("id", type=UUID)
        speaking.add_argument("--says", type=str.upper, choices=[Verdict.EXECUTED, Verdict.NOT_EXECUTED], required=True)
        speaking.add_argument("--evidence", required=True, help="how you know, in words")
        speaking.add_argument("--external-ref", default="", help="what the other side calls it")

    def list(self, asked: Asked) -> Shown:
        plain = {name: [asked[name]] if asked[name] else [] for name in ("status", "run")}
        calls = call_rows(where(CALLS, asked, plain).defer(None)).order_by("-created_at", "-id")
        records = records_of(CallRecord, self.limited(calls, asked))
        rows = [(c["id"], c["status"], c["run"], c["step"], c["effect_class"], c["attempts"]) for c in records]
        return Shown(records, table(HEADS, rows, "There are no such calls."))

    def show(self, asked: Asked) -> Shown:
        record = call_shown(asked.actor, asked["id"])
        return Shown(record, _text(record))

    def probe(self, asked: Asked) -> Shown | Refused:
        outcome = call_probe(actor=asked.actor, call_id=asked["id"], attempts=asked["attempts"])
        return outcome if isinstance(outcome, Refused) else self.show(asked)

    def attach(self, asked: Asked) -> Shown | Refused:
        file = _file(asked["file"])
        outcome = call_attach(actor=asked.actor, call_id=asked["id"], file=file, note=asked["note"])
        return outcome if isinstance(outcome, Refused) else self.show(asked)

    def attachment(self, asked: Asked) -> Shown:
        row = access_attachment(actor=asked.actor, call_id=asked["id"], id=asked["attachment"])
        save_new(asked["save_to"], artifact_bytes(tenant_id=row.tenant_id, sha256=row.sha256))
        said = {"id": str(row.id), "filename": row.filename, "size": row.size, "sha256": row.sha256}
        return Shown({**said, "saved_to": str(asked["save_to"])}, facts({**said, "saved to": asked["save_to"]}))

    def reconcile(self, asked: Asked) -> Shown | Refused:
        said = VerdictRequest(
            Verdict(asked["verdict"]), asked["evidence"], asked["external_ref"], FollowUp(asked["then"])
        )
        outcome = call_reconcile(actor=asked.actor, call_id=asked["id"], said=said)
        return outcome if isinstance(outcome, Refused) else self.show(asked)

    def repeat(self, asked: Asked) -> Shown | Refused:
        outcome = effect_repeat(actor=asked.actor, call_id=asked["id"], reason=asked["reason"])
        return outcome if isinstance(outcome, Refused) else self.show(asked)

    def contradict(self, asked: Asked) -> Shown | Refused:
        said = EvidenceGiven(Verdict(asked["says"]), asked["evidence"], asked["external_ref"])
        outcome = call_contradict(actor=asked.actor, call_id=asked["id"], said=said)
        return outcome if isinstance(outcome, Refused) else self.show(asked)


def _file(path: Path) -> Upload:
    try:
        with path.open("rb") as file:
            return Upload(path.name, file.read(ATTACHMENT_BYTES + 1))
    except (OSError, ValueError) as error:
        raise Usage(f"The file {path} can't be read: {getattr(error, 'strerror', None) or error}.") from error


def _text(call: dict[str, Any]) -> str:
    result = call["result"]
    return facts(
        {
            "call": call["id"],
            "status": call["status"],
            "step": call["step"],
            "tool": f"{call['tool']} {call['tool_version']}, {call['effect_class']}",
            "run": f"{call['run']} {call['run_title']}",
            "arguments": "do not have their digest any more"
            if call["arguments"] is None
            else document(call["arguments"]),
            "args digest": call["args_digest"],
            "key": call["idempotency_key"],
            "tries": "\n".join(_try(one) for one in call["tries"]),
            "error": call["error"],
            "external ref": call["external_ref"],
            "result": f"{result['origin']}\n{document(result['value'])}" if result else "",
            "late": "\n".join(
                f"{one['outcome']} {one['said']} {one['external_ref'] or ''}" for one in call["late_answers"]
            ),
            "flags": "\n".join(
                f"{one['id']} {one['origin']} says {one['says']} {one['closing'] or '(open)'}"
                for one in call["contradictions"]
            ),
            "look": "\n".join(f"{place['what']} {place['url']}" for place in call["places"])
            if call["outcome"] == "UNKNOWN"
            else "",
            "files": "\n".join(
                f"{one['id']} {one['filename']}, {one['size']} bytes, {one['sha256']}" for one in call["attachments"]
            ),
            "probes": "\n".join(_probe(one) for one in call["probes"]),
            "first words": "\n".join(
                f"{_verdict(one)} {one['closing'] or '(a second person has to say the same)'}"
                for one in call["first_words"]
            ),
            "verdicts": "\n".join(_verdict(one) for one in call["verdicts"]),
        }
    )


def _probe(one: dict[str, Any]) -> str:
    """One look that a person asked for: observed, and accepted by nobody."""
    told = f"{one['found']}{', early' if one['early'] else ''}: {one['how']} {one['external_ref'] or ''}".strip()
    return f"{clock(one['asked_at'])} asked by {one['by']}: {told if one['found'] else 'no answer yet'}"


def _try(one: dict[str, Any]) -> str:
    outcome = f"{one['outcome']} {clock(one['finished_at'])}" if one["outcome"] else "no outcome known yet"
    return (
        f"{one['attempt_no']}. sent {clock(one['dispatched_at'])} under fence {one['fence']}: {outcome} {one['error']}"
    )


def _verdict(one: dict[str, Any]) -> str:
    then = f", then {one['then']}" if one["then"] != FollowUp.NONE else ""
    return f"{one['verdict']}{then} by {one['by']}, {clock(one['at'])}: {one['evidence']}"
