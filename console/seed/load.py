"""Fill an empty development database part by part, each in a transaction of its own."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import connection, transaction

from accounts.audit import audit_append
from accounts.states import Actor
from approvals.policies import BUILT_IN_VERSION
from console.seed.example import Example
from console.seed.statements import ADD_PATH, ADD_TOOL, COUNTED, FUNCTIONS, PART, PATHS, TOOLS
from runs.selectors import database_now

PART_RUNS = 5000
RECEIPTS_A_TURN = 4  # the turn and its attempt, the call and its attempt
AUDITED = 2000
ACTS = ("wait.decide", "run.stop", "run.start", "call.reconcile", "policy.activate", "run.start.refused")


@dataclass(frozen=True)
class Load:
    """How much is wanted. `events`: the receipts of the one long run."""

    runs: int
    receipts: int
    waits: int
    events: int

    @property
    def held(self) -> int:
        """How many runs are held; about one in seven hundred."""
        return max(5, self.runs // 700)

    @property
    def queued(self) -> int:
        return max(2, self.runs // 2000)

    @property
    def live(self) -> int:
        """Runs that have not ended, the long one among them."""
        return self.waits + self.held + self.queued + max(2, self.runs // 4000)

    @property
    def turns(self) -> float:
        """Turns of a run on average."""
        return (self.receipts - self.events) / RECEIPTS_A_TURN / self.runs

    @property
    def refusal(self) -> str:
        """Why so much can't be made, or an empty text."""
        if self.live > self.runs:
            return f"{self.runs} runs are too few: {self.live} of them would be live. Ask for fewer waits or more runs."
        if self.receipts < self.events + RECEIPTS_A_TURN * self.runs:
            return (
                f"Each run has {RECEIPTS_A_TURN} receipts or more: ask for {self.events + RECEIPTS_A_TURN * self.runs}."
            )
        return ""

    def numbers(self, now: datetime) -> dict[str, Any]:
        """What the statements of a part call by name."""
        return {
            "runs": self.runs,
            "live": self.live,
            "waits": self.waits,
            "held": self.held,
            "queued": self.queued,
            "turns": self.turns,
            "long_turns": max(1, self.events // RECEIPTS_A_TURN),
            "now": now,
            "part": PART_RUNS,
            "policy": BUILT_IN_VERSION,
        }


def load_seed(load: Load, example: Example, actor: Actor, say: Callable[[str], None]) -> tuple[int, int, int]:
    """Make the runs in parts and say how far it is. Returns how many runs, receipts and open waits there are."""
    asked = load.numbers(database_now()) | example.names()
    _prepare(example)
    began = time.monotonic()
    for number, first in enumerate(range(1, load.runs + 1, PART_RUNS)):
        last = min(first + PART_RUNS - 1, load.runs)
        _part(asked | {"first": first, "last": last})
        if (
            number & (number + 1) == 0
        ):  # at 1, 2, 4, 8 ... parts: as the tables grow, so does what the server knows of them
            _run("ANALYZE")
        say(f"{last:,} of {load.runs:,} runs, {time.monotonic() - began:.0f} s")
    _audit(actor)
    say("Bringing the figures of the tables up to date.")
    _run("VACUUM (ANALYZE)")
    with connection.cursor() as cursor:
        cursor.execute(COUNTED)
        runs, receipts, waits = cursor.fetchone()
    return runs, receipts, waits


def _prepare(example: Example) -> None:
    with connection.cursor() as cursor:
        for statement in (FUNCTIONS, PATHS, TOOLS):
            cursor.execute(statement)
        for revision in example.revisions():
            cursor.execute(ADD_PATH, revision)
        for tool in example.tools():
            cursor.execute(ADD_TOOL, tool)


def _part(asked: dict[str, Any]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for _, statement in PART:
            cursor.execute(statement, asked)


def _run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _audit(actor: Actor) -> None:
    """Some acts for the audit chain, each appended as acts are."""
    with transaction.atomic():
        for number in range(AUDITED):
            action = ACTS[number % len(ACTS)]
            about, _, _ = action.partition(".")
            audit_append(actor=actor, action=action, object_type=about, object_id=uuid4(), detail={"seeded": number})
