"""`manage.py runs`: start, list, show, await, stop, continue, fork, replay, resume, revise the goal and raise the caps of runs."""

import math
import os
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from accounts.errors import Refused
from console.lists.runs import RUNS
from console.management import ledger, lineage
from console.management.awaiting import run_await
from console.management.lists import add_where, where
from console.management.noun import Answered, Asked, Noun, Shown, Usage, clock, facts, table
from console.pages.units import NAMES, amount
from console.records import records_of
from console.records.runs import RunDetail, RunRecord, run_with_parts, runs_with_parts
from console.uploads import MAX_INPUT_BYTES, too_big
from runs.selectors import access_run
from runs.states import BudgetUnit, RecoveryPolicy, RunStatus
from runtime.services import (
    PauseShown,
    StartRequest,
    Terms,
    Upload,
    budget_raise,
    goal_revise,
    run_abort,
    run_bind,
    run_end_settled,
    run_pause,
    run_resume,
    run_start,
    run_stop,
    run_tag,
    typed_text,
)

HEADS = ("ID", "STATUS", "PHASE", "REVISION", "STARTED", "TITLE")
AWAIT_SECONDS = 300.0
TERM_HELP = {
    "constraint": "a limit that the run keeps to, in words",
    "assumption": "what the run may take for granted, in words",
    "deny": "a tool, or an effect class, that the run must not use",
}


class FileUnreadable(Refused):
    """No run was started. The file {path} can't be read: {reason}."""

    code = "FILE_UNREADABLE"


def named_file(text: str) -> tuple[str, Path]:
    """An input as it is given: NAME=PATH."""
    name, found, path = text.partition("=")
    if not (name and found and path):
        raise ArgumentTypeError(f"give NAME=PATH, not {text!r}")
    return name, Path(path)


def named_text(text: str) -> tuple[str, str]:
    """An input that is typed: NAME=TEXT."""
    name, found, words = text.partition("=")
    if not (name and found and words):
        raise ArgumentTypeError(f"give NAME=TEXT, not {text!r}")
    return name, words


def statuses(text: str) -> tuple[RunStatus, ...]:
    """States of a run with commas between them."""
    given = [name.strip().upper() for name in text.split(",")]
    unknown = [name for name in given if name not in set(RunStatus)]
    if unknown:
        raise ArgumentTypeError(f"{', '.join(unknown)} is no state of a run; they are {', '.join(RunStatus)}")
    return tuple(RunStatus(name) for name in given)


def seconds(text: str) -> float:
    """A time in seconds."""
    given = float(text)
    if not math.isfinite(given) or given < 0:
        raise ArgumentTypeError("give a number of seconds")
    return given


class Command(Noun):
    help = "Runs: start them, look at them, act on them."
    noun: ClassVar[str] = "run"

    def add_verbs(self) -> None:
        self._add_start()
        listing = self.verb("list", self.list, "The newest runs of your tenant.")
        listing.add_argument("--status", type=statuses, default=(), help="only those in one of these states")
        listing.add_argument("--agent", default="", help="only those of this agent")
        listing.add_argument("--q", default="", help="only those with this in their title or id")
        add_where(listing, RUNS)
        self.add_limit(listing)
        self.verb("show", self.show, "One run with everything around it.").add_argument("id", type=UUID)
        awaiting = self.verb("await", self.await_, "Wait until a run is in one of the named states.")
        awaiting.add_argument("id", type=UUID)
        awaiting.add_argument("--until", type=statuses, required=True, metavar="STATUS[,STATUS]")
        awaiting.add_argument("--timeout", type=seconds, default=AWAIT_SECONDS, help="in seconds (%(default)s)")
        self._add_act("stop", self.stop, "Stop a run: nothing new is dispatched from here on.")
        self._add_act("abort", self.abort, "Stop a run, and do not wait for what is on the wire.")
        self._add_act("pause", self.pause, "Pause a run: nothing new is dispatched until somebody resumes it.")
        resuming = self._add_act("resume", self.resume, "Try a held run again, or take back a pause.")
        resuming.add_argument(
            "--revision", type=int, help="the newest revision that you saw; refused if there is a newer one"
        )
        resuming.add_argument(
            "--pause", type=UUID, help="the pause that you mean to take back; refused if it is not that one"
        )
        self._add_act("settle", self.settle, "End a run that no worker holds, by what is known.")
        revising = self._add_act("revise-goal", self.revise_goal, "Revise the goal of a run that no worker holds.")
        revising.add_argument("--goal", required=True, help="the new goal, in words")
        revising.add_argument(
            "--seen-version", type=int, help="the version that you were reading; refused if there is a newer one"
        )
        binding = self._add_act("bind", self.bind, "Bind a run that no worker holds to more.")
        self._add_terms(binding)
        raising = self._add_act("raise-cap", self.raise_cap, "Raise the cap of one unit of a run's budget.")
        raising.add_argument("--unit", required=True, choices=list(BudgetUnit), help="what is capped")
        raising.add_argument("--cap", type=int, required=True, help="the new, higher cap in that unit")
        raising.add_argument("--seen", type=int, help="the cap that you were reading; one raised since then stays")
        tagging = self.verb("tag", self.tag, "Give a run tags, and take others from it.")
        tagging.add_argument("id", type=UUID)
        tagging.add_argument("--add", action="append", default=[], metavar="TAG", help="a tag to come; may stand often")
        tagging.add_argument(
            "--remove", action="append", default=[], metavar="TAG", help="a tag to go; may stand often"
        )
        lineage.add_verbs(self, self._shown)
        ledger.add_verbs(self)

    def _add_start(self) -> None:
        starting = self.verb("start", self.start, "Start a run of an agent.")
        starting.add_argument("agent", help="the agent's key, such as fund_comparison")
        starting.add_argument(
            "--file",
            type=named_file,
            action="append",
            default=[],
            metavar="NAME=PATH",
            help="an input; may stand often",
        )
        starting.add_argument(
            "--text",
            type=named_text,
            action="append",
            default=[],
            metavar="NAME=TEXT",
            help="an input that is typed; may stand often",
        )
        starting.add_argument("--goal", default="", help="what the run is for (the agent's own goal)")
        starting.add_argument("--title", default="", help="what the run is called (made of the inputs)")
        starting.add_argument("--thread", default="", help="the thread that the run continues (one of its own)")
        starting.add_argument("--workspace", default="", help="the title of a long research that the run adds to")
        starting.add_argument("--tag", action="append", default=[], help="what people find the run by; may stand often")
        starting.add_argument(
            "--if-its-worker-dies",
            dest="recovery_policy",
            choices=list(RecoveryPolicy),
            default="",
            help="what is promised; without it, what the agent declares",
        )
        starting.add_argument("--key", help="a key of your own: asking again with it gives the same run")
        self._add_terms(starting)

    def _add_terms(self, parser: ArgumentParser) -> None:
        for name, help in TERM_HELP.items():
            parser.add_argument(f"--{name}", action="append", default=[], help=f"{help}; may stand often")

    def _add_act(self, name: str, act: Any, help: str) -> ArgumentParser:
        parser = self.verb(name, act, help)
        parser.add_argument("id", type=UUID)
        parser.add_argument("--reason", required=True, help="why, in words")
        return parser

    def start(self, asked: Asked) -> Shown | Refused:
        named = [name for name, _ in (*asked["file"], *asked["text"])]
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            raise Usage(f"The input {twice}= stands more than once.")
        inputs = {name: _upload(name, path) for name, path in asked["file"]}
        inputs |= {name: _typed(text) for name, text in asked["text"]}
        key = {} if asked["key"] is None else {"key": asked["key"]}
        words = {name: asked[name] for name in ("goal", "title", "thread", "workspace", "recovery_policy")}
        terms = Terms(*(tuple(asked[name]) for name in TERM_HELP))
        wanted = StartRequest(asked["agent"], inputs, terms=terms, tags=asked["tag"], **words, **key)
        outcome = run_start(actor=asked.actor, wanted=wanted)
        if isinstance(outcome, Refused):
            return outcome
        answer = self._shown(asked, outcome.run_id)
        return Shown({**answer.record, "new": outcome.new}, answer.text)

    def list(self, asked: Asked) -> Shown:
        plain = {"status": asked["status"], "agent": asked["agent"], "q": asked["q"]}
        found = where(RUNS, asked, plain).order_by("-created_at", "-id")
        runs = runs_with_parts(self.limited(found, asked))
        records = records_of(RunRecord, runs)
        rows = [(r["id"], r["status"], r["phase"], r["revision"], clock(r["created_at"]), r["title"]) for r in records]
        return Shown(records, table(HEADS, rows, "There are no such runs."))

    def show(self, asked: Asked) -> Shown:
        return self._shown(asked, asked["id"])

    def await_(self, asked: Asked) -> Shown | Refused:
        outcome = run_await(actor=asked.actor, run_id=asked["id"], wanted=asked["until"], seconds=asked["timeout"])
        if isinstance(outcome, Refused):
            return outcome
        answer = self._shown(asked, asked["id"])
        now = answer.record["status"]
        said = f"The run is {now}." if now == outcome.status else f"The run became {outcome.status}. It is {now} now."
        return Shown({**answer.record, "reached": outcome.status}, f"{said}\n{answer.text}")

    def stop(self, asked: Asked) -> Shown | Refused:
        outcome = run_stop(actor=asked.actor, run_id=asked["id"], reason=asked["reason"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def abort(self, asked: Asked) -> Shown | Refused:
        outcome = run_abort(actor=asked.actor, run_id=asked["id"], reason=asked["reason"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def pause(self, asked: Asked) -> Shown | Refused:
        outcome = run_pause(actor=asked.actor, run_id=asked["id"], reason=asked["reason"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def resume(self, asked: Asked) -> Shown | Refused:
        outcome = run_resume(
            actor=asked.actor,
            run_id=asked["id"],
            reason=asked["reason"],
            revision=asked["revision"],
            shown=PauseShown(asked["pause"]) if asked["pause"] else None,
        )
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def settle(self, asked: Asked) -> Shown | Refused:
        outcome = run_end_settled(actor=asked.actor, run_id=asked["id"], reason=asked["reason"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def revise_goal(self, asked: Asked) -> Shown | Refused:
        said = {"goal": asked["goal"], "reason": asked["reason"], "version": asked["seen_version"]}
        outcome = goal_revise(actor=asked.actor, run_id=asked["id"], **said)
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def bind(self, asked: Asked) -> Shown | Refused:
        terms = Terms(*(tuple(asked[name]) for name in TERM_HELP))
        outcome = run_bind(actor=asked.actor, run_id=asked["id"], terms=terms, reason=asked["reason"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def tag(self, asked: Asked) -> Shown | Refused:
        outcome = run_tag(actor=asked.actor, run_id=asked["id"], add=asked["add"], remove=asked["remove"])
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def raise_cap(self, asked: Asked) -> Shown | Refused:
        outcome = budget_raise(
            actor=asked.actor,
            run_id=asked["id"],
            unit=asked["unit"],
            cap=asked["cap"],
            reason=asked["reason"],
            seen=asked["seen"],
        )
        return outcome if isinstance(outcome, Refused) else self._shown(asked, asked["id"])

    def _shown(self, asked: Asked, id: UUID) -> Shown:
        record = RunDetail(run_with_parts(access_run(actor=asked.actor, id=id))).data
        return Shown(record, _text(record))


def _typed(text: str) -> Upload:
    try:
        return typed_text(text)
    except UnicodeEncodeError as error:
        raise Usage("A typed input has to be text.") from error


def _upload(name: str, path: Path) -> Upload:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_INPUT_BYTES + 1)
            size = max(len(data), os.fstat(file.fileno()).st_size)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Answered(FileUnreadable({"path": str(path), "reason": reason})) from error
    refused = too_big(name, size)
    if refused is not None:
        raise Answered(refused)
    return Upload(os.fsencode(path.name).decode("utf-8", "backslashreplace"), data)


def _text(run: dict[str, Any]) -> str:
    stop, pause = run["stop"], run["pause"]
    held = f" ({run['hold_reason']}: {run['hold_detail']})" if run["hold_reason"] else ""
    return facts(
        {
            "run": run["id"],
            "title": run["title"],
            "status": f"{run['status']}{held}",
            "next": ", ".join(run["next_acts"]),
            "phase": f"{run['phase']} at revision {run['revision']}",
            "agent": f"{run['agent']} {run['agent_version']}",
            "tags": " ".join(run["tags"]),
            "goal": run["goal"],
            "due": clock(run["due_at"]) if run["due_at"] else "",
            "started": f"{clock(run['created_at'])} by {run['created_by']}",
            "ended": f"{clock(run['ended_at'])} {run['end_reason']}" if run["ended_at"] else "",
            "stop": f"{stop['status']}, asked for by {stop['by']}: {stop['reason']}" if stop else "",
            "aborted": f"{clock(stop['aborted_at'])} by {stop['aborted_by']}: {stop['abort_reason']}"
            if stop and stop["aborted_at"]
            else "",
            "pause": f"{pause['status']}, asked for by {pause['by']}: {pause['reason']}" if pause else "",
            "inputs": "\n".join(f"{i['name']}: {i['filename']}, {i['size']} bytes" for i in run["inputs"]),
            "waits": "\n".join(f"{w['id']} {w['status']} {w['step']}" for w in run["waits"]),
            "calls": "\n".join(f"{c['id']} {c['status']} {c['step']}" for c in run["calls"]),
            "terms": "\n".join(f"{c['id']} {c['kind']} {c['status']} {c['statement']}" for c in run["commitments"]),
            "promises": "\n".join(f"{o['id']} {o['status']} {o['statement']}" for o in run["obligations"]),
            "budget": "\n".join(
                f"{NAMES[b['unit']]}: {amount(b['unit'], b['spent'])} spent, "
                f"{amount(b['unit'], b['reserved'] + b['held_unknown'])} held, "
                + ("no cap" if b["cap"] is None else f"cap {amount(b['unit'], b['cap'])}")
                for b in run["budgets"]
            ),
            "reports": "\n".join(f"v{v['version']} {v['title']}" for v in run["reports"]),
        }
    )
