"""Runs that a real loop drives in this process, against a real outside world, for the tests of the pages."""

import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from typing import Any
from uuid import uuid4

from django.db import connections

from accounts.selectors import actor_named
from accounts.states import Actor
from approvals.models import Wait
from approvals.services import Decided, Seen
from approvals.states import DecisionVerdict
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from runtime.services import Started, StartRequest, Upload, run_start, wait_decide
from tests.waiting import wait_until

ROWS = "date,fund,company,ticker,shares,market value($),weight(%)\n"
ALDER = ROWS + (
    "2026-06-30,ALDR,NORTHWIND GRID CO,NWGC,100,6000,60.0\n"
    "2026-06-30,ALDR,CINDERFORD STORAGE,CNDF,100,3950,39.5\n"
    "2026-06-30,ALDR,US DOLLAR CASH,,50,50,0.5\n"
)
BIRCH = ROWS + (
    "2026-06-30,BRCH,NORTHWIND GRID CO,NWGC,100,4500,45.0\n"
    "2026-06-30,BRCH,QUARRY ROBOTICS,QRYR,100,5500,55.0\n"
)  # fmt: skip
# A company name that would run, hide, turn around and pass for another one, if a page let it.
HOSTILE = "<script>alert(1)</script>\u202egnp.exe\u200bp\u0430ypal<img src=x onerror=alert(1)>"


@dataclass(frozen=True)
class Outside:
    """The outside world of the tests of the pages."""

    url: str

    def tell(self, **switches: Any) -> None:
        """Set how it treats requests."""
        body = json.dumps(switches).encode()
        request = urllib.request.Request(f"{self.url}/control", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()

    def executions(self, key: str) -> int:
        """How often the wiki executed a key."""
        with urllib.request.urlopen(f"{self.url}/counts", timeout=10) as answer:
            counted: dict[str, int] = json.load(answer)["wiki"]["keys"]
        return counted.get(key, 0)


@dataclass(frozen=True)
class Driven:
    """A run as it is now, and the person who started it."""

    actor: Actor
    id: Any

    @property
    def run(self) -> Run:
        return Run.objects.get(id=self.id)

    @property
    def wait(self) -> Wait:
        """The wait that was opened last."""
        return Wait.objects.filter(run_id=self.id).latest("opened_at")

    @property
    def publishing(self) -> ToolCall:
        return ToolCall.objects.get(run_id=self.id, tool="publish_report")

    def go_on(self) -> "Driven":
        """What a worker does when it takes the run."""
        drive(self.id)
        return self

    def decide(self, verdict: str, actor: Actor | None = None, reason: str = "Looked at.") -> Decided:
        wait = self.wait
        seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
        outcome = wait_decide(
            actor=actor or self.actor, wait_id=wait.id, verdict=DecisionVerdict(verdict), seen=seen, reason=reason
        )
        assert isinstance(outcome, Decided)
        return outcome


def started(
    actor: Actor, *, a: str = ALDER, b: str = BIRCH, goal: str = "", title: str = "", agent: str = "fund_comparison"
) -> Driven:
    """A run that has just been admitted."""
    wanted = StartRequest(
        agent=agent,
        inputs={"a": Upload("a.csv", a.encode()), "b": Upload("b.csv", b.encode())},
        goal=goal,
        title=title,
        key=str(uuid4()),
    )
    outcome = run_start(actor=actor, wanted=wanted)
    assert isinstance(outcome, Started), outcome
    return Driven(actor, outcome.run_id)


def waiting(actor: Actor, **how: str) -> Driven:
    """A new run that waits for the approval of its publication."""
    return started(actor, **how).go_on()


def asking(actor: Actor, **how: str) -> Driven:
    """A new run that asks a person."""
    return started(actor, agent="asking_fund_comparison", **how).go_on()


def published(actor: Actor, **how: str) -> Driven:
    """A new run that has published what it promised."""
    run = waiting(actor, **how)
    run.decide("APPROVE")
    return run.go_on()


def lost(actor: Actor, outside: Outside, *, executed: bool = True, **how: str) -> Driven:
    """A new run that is held by a publication of which nobody knows whether it happened."""
    run = waiting(actor, **how)
    run.decide("APPROVE")
    outside.tell(mode="drop", times=1, execute=executed)
    return run.go_on()


@contextmanager
def in_flight(run: Driven, outside: Outside) -> Iterator[threading.Thread]:
    """A worker that has sent the approved call and waits for its answer; the answer comes when it is let go."""

    def work() -> None:
        try:
            drive(run.id)
        finally:
            connections.close_all()

    run.decide("APPROVE")
    outside.tell(mode="hang", times=1, hang_seconds=60)
    worker = threading.Thread(target=work)
    worker.start()
    try:
        wait_until(lambda: run.publishing.status == "DISPATCHED", "the call is sent")
        yield worker
    finally:
        outside.tell(mode="ok")
        worker.join()


# ── runs that are there from the start ───────────────────────────────────────


def driving(outside: Outside) -> dict[str, Any]:
    """Settings under which this process drives runs: leases outlast a slow test, and no page listens."""
    return {"OUTSIDE_URL": outside.url, "LEASE_TTL_SECONDS": 120}


def tell_runs(name: str, outside: Outside) -> None:
    """One run in each of the states that most tests look at, in this order."""
    actor = person(name)
    waiting(actor, title="waiting")
    lost(actor, outside, title="lost")
    lost(actor, outside, executed=False, title="lost, not executed")
    published(actor, title="published")


def told(title: str) -> Driven:
    """One of the runs of `tell_runs`."""
    run = Run.objects.get(title=title)
    return Driven(person(run.created_by.partition(":")[2]), run.id)


def person(name: str) -> Actor:
    return actor_named(username=name, door="page")


def words(html: str) -> str:
    """What a page says, without its markup: a tag inside a line joins, one that begins a line separates."""
    apart = re.sub(r'<(?!/?(?:a|b|bdi|code|del|ins|time)\b|/?span(?! class="(?:why|at)"))[^>]*>', " ", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", apart)).split())


def assert_inert(html: str) -> None:
    """Nothing of HOSTILE runs, hides or turns anything around."""
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert not {"\u202e", "\u200b"} & set(html)
