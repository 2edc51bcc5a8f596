"""The verbs of `manage.py runs` that lead from one run to another, and those of an operator after a deploy."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from accounts.errors import Refused
from console.management.noun import Asked, Noun, Shown, clock, facts, shown, table
from console.records import records_of
from console.records.handover import handover_shown
from console.records.lineage import PreviewRecord, ReplayRecord, family_shown
from console.records.recovery import RecoveryRecord
from console.records.trace import TraceRecord
from runs.selectors import access_run, trace_rows
from runtime.services import (
    Started,
    SuccessorRequest,
    checkpoint_migrate,
    fork_preview,
    run_continue,
    run_fork,
    run_repin,
    run_replay,
)
from runtime.standing import Standing, run_recovery

ShowRun = Callable[[Asked, UUID], Shown]
TRACE_HEADS = ("AT", "SEEN", "NODE", "WHAT")
STANDING_HEADS = ("STANDING", "THING", "STATUS", "NAME", "MEANS")
FAMILY_HEADS = ("RUN", "STATUS", "STARTED", "HOW")
STEP_HEADS = ("TURN", "KIND", "NAME", "STATUS", "ATTEMPTS", "DIGEST", "INTACT")


def add_verbs(noun: Noun, show_run: ShowRun) -> None:
    """Add continue, fork, preview-fork, replay, recovery, handover, lineage, trace, migrate and repin to the noun; `show_run` is how it shows a run."""
    lineage = _Lineage(show_run)
    _successor(noun, "continue", lineage.continue_, "Continue a run that ended without completing as a new run.")
    forking = _successor(noun, "fork", lineage.fork, "Begin a new run at any revision of this one.")
    forking.add_argument("revision", type=int)
    looking = noun.verb("preview-fork", preview, "What a fork of a revision would reuse, and what it would do again.")
    looking.add_argument("id", type=UUID)
    looking.add_argument("revision", type=int)
    replaying = noun.verb("replay", replay, "Step through what the run stored. No model and no tool is asked.")
    replaying.add_argument("id", type=UUID)
    standing = noun.verb("recovery", recovery, "What stands of the run: reusable, to be authorised again, or unknown.")
    standing.add_argument("id", type=UUID)
    handing = noun.verb("handover", handover, "What a new operator needs: what is open, unknown, said and due.")
    handing.add_argument("id", type=UUID)
    related = noun.verb("lineage", family, "Where the run comes from and what came from it, as a tree.")
    related.add_argument("id", type=UUID)
    tracing = noun.verb("trace", trace, "What was seen of the run on the way, in the order in which it was written.")
    tracing.add_argument("id", type=UUID)
    for name, act, help in (
        ("migrate", lineage.migrate, "Bring the head of a run from an older format to the one of today."),
        ("repin", lineage.repin, "Pin a run to its agent as it is installed now."),
    ):
        parser = noun.verb(name, act, help)
        parser.add_argument("id", type=UUID)
        parser.add_argument("--reason", required=True, help="why, in words")


def _successor(noun: Noun, name: str, act: Any, help: str) -> Any:
    parser = noun.verb(name, act, help)
    parser.add_argument("id", type=UUID)
    parser.add_argument("--reason", required=True, help="why, in words")
    parser.add_argument("--goal", default="", help="another goal (the goal of the source)")
    parser.add_argument("--title", default="", help="another title (the title of the source)")
    parser.add_argument("--key", help="a key of your own: asking again with it gives the same run")
    return parser


def handover(asked: Asked) -> Shown:
    """What the run is for, where it stands, what is open and unknown, and what people said."""
    record = handover_shown(asked.actor, asked["id"])
    head = {
        "title": record["title"],
        "status": f"{record['status']}: {record['means']}",
        "who acts next": record["acts_next"],
        "goal": record["goal"]["goal"] if record["goal"] else "",
        "bound to": "\n".join(f"{one['kind']}: {one['statement']}" for one in record["commitments"]),
        "open": "\n".join(f"{one['what']} ({one['why']}) {clock(one['deadline'])}".rstrip() for one in record["open"]),
        "unknown": "\n".join(f"{one['name']} {one['status']}" for one in record["unknown"]),
        "has happened": "\n".join(f"{one['name']} {one['status']}" for one in record["effects"]),
        "said": "\n".join(f"{clock(one['at'])} {one['who']} {one['what']}: {one['reason']}" for one in record["said"])
        + _older(record["said_more"]),
        "watched by": "\n".join(
            f"{one['who']}, {one['times']} times, last {clock(one['last'])}" for one in record["watchers"]
        )
        + _older(record["watched_more"]),
    }
    return Shown(record, facts(head))


def _older(more: bool) -> str:
    return "\nThere is more that is older." if more else ""


def family(asked: Asked) -> Shown:
    """The runs of a lineage; what lies below another one stands further in."""
    record = family_shown(asked.actor, asked["id"])
    lines = [
        (run["id"], run["status"], clock(run["created_at"]), "  " * (run["level"] - 1) + run["how"])
        for run in record["runs"]
    ]
    more = "\nThere are more of them." if record["more"] else ""
    return Shown(record, table(FAMILY_HEADS, lines, "") + more)


class _Lineage:
    """The verbs whose answer is a run."""

    def __init__(self, show_run: ShowRun) -> None:
        self._show_run = show_run

    def continue_(self, asked: Asked) -> Shown | Refused:
        return self._made(asked, run_continue(actor=asked.actor, run_id=asked["id"], wanted=_wanted(asked)))

    def fork(self, asked: Asked) -> Shown | Refused:
        wanted = _wanted(asked)
        outcome = run_fork(actor=asked.actor, run_id=asked["id"], revision=asked["revision"], wanted=wanted)
        return self._made(asked, outcome)

    def migrate(self, asked: Asked) -> Shown | Refused:
        outcome = checkpoint_migrate(actor=asked.actor, run_id=asked["id"], reason=asked["reason"])
        return outcome if isinstance(outcome, Refused) else self._show_run(asked, asked["id"])

    def repin(self, asked: Asked) -> Shown | Refused:
        outcome = run_repin(actor=asked.actor, run_id=asked["id"], reason=asked["reason"])
        return outcome if isinstance(outcome, Refused) else self._show_run(asked, asked["id"])

    def _made(self, asked: Asked, outcome: Started | Refused) -> Shown | Refused:
        if isinstance(outcome, Refused):
            return outcome
        answer = self._show_run(asked, outcome.run_id)
        return Shown({**answer.record, "new": outcome.new}, answer.text)


def _wanted(asked: Asked) -> SuccessorRequest:
    words = {name: asked[name] for name in ("reason", "goal", "title")}
    return SuccessorRequest(**words) if asked["key"] is None else SuccessorRequest(key=asked["key"], **words)


def preview(asked: Asked) -> Shown | Refused:
    """What a fork would meet."""
    found = fork_preview(actor=asked.actor, run_id=asked["id"], revision=asked["revision"])
    if isinstance(found, Refused):
        return found
    record = PreviewRecord(found).data
    said = {
        "begins with": "kept",
        "reuses if proposed": "reused",
        "is held by": "holding",
        "is refused": "refused",
        "reads again": "repeated",
    }
    lines = {words: _calls(record[name]) for words, name in said.items()}
    return Shown(record, facts({"asks again for": f"{record['turns']} turns", **lines}))


def _calls(calls: list[dict[str, Any]]) -> str:
    return "\n".join(f"{call['id']} {call['status']} {call['step']}" for call in calls) or "nothing"


def trace(asked: Asked) -> Shown:
    """What was seen of a run."""
    rows = trace_rows(access_run(actor=asked.actor, id=asked["id"])).order_by("id")
    records = records_of(TraceRecord, rows)
    lines = [
        (clock(one["at"]), one["name"], one["node"], json.dumps(one["attributes"], sort_keys=True)) for one in records
    ]
    return Shown(records, table(TRACE_HEADS, lines, "Nothing was noted of this run."))


def recovery(asked: Asked) -> Shown:
    """What stands of a run after an interruption."""
    record = RecoveryRecord(run_recovery(actor=asked.actor, run_id=asked["id"])).data
    checks, point = record["checks"], record["point"]
    rows = [(one["standing"], one["thing"], one["status"], one["name"], one["means"]) for one in record["lines"]]
    rows.sort(key=lambda row: list(Standing).index(row[0]), reverse=True)
    said = {
        "status": f"{record['status']} {record['hold_reason'] or ''}".strip(),
        "if its worker dies": record["recovery_policy"],
        "executor": f"{checks['worker']}, fence {checks['fence']}"
        if checks["held"]
        else f"none, fence {checks['fence']}",
        "committed": checks["committed"],
        "unanswered": checks["unconfirmed"],
        "goes on from": f"revision {point['revision']}, {point['phase']}" if point["readable"] else point["found"],
        "next": ", ".join(record["next_acts"]),
        "lost workers": "\n".join(f"{one['worker']} on {one['sending'] or 'nothing'}" for one in record["lost"]),
        "refused": "\n".join(f"{clock(one['at'])} {one['kind']}" for one in record["refusals"]),
        "saves": "\n".join(f"{one['trigger']} {one['status']} {one['kind'] or ''}".strip() for one in record["saves"]),
    }
    return Shown(record, f"{facts(said)}\n\n{table(STANDING_HEADS, rows, 'The run has left nothing yet.')}")


def replay(asked: Asked) -> Shown:
    """The stored outputs of a run."""
    record = ReplayRecord(run_replay(actor=asked.actor, run_id=asked["id"])).data
    rows = [
        (
            s["turn_no"],
            s["kind"],
            s["name"],
            s["status"],
            s["attempts"],
            s["digest"][:12],
            "yes" if s["intact"] else "NO",
        )
        for s in record["steps"]
    ]
    outputs = (f"{step['name']}: {json.dumps(step['output'], ensure_ascii=False)}" for step in record["steps"])
    listed = table(STEP_HEADS, rows, "The run has stored nothing yet.")
    return Shown(record, "\n".join([listed, "", *(shown(line) for line in outputs)]))
