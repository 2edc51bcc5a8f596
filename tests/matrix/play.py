"""How a cell is played: a run is brought to the point, the fault strikes, and an honest operator sees the run to its end.

Every cell is a generator that yields while it waits, so that many of them share one system and one thread.
"""

import json
import random
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from uuid import UUID, uuid4

from django.db import Error, connection

from approvals.models import Wait
from receipts.models import ToolCall
from runs.models import Lease, Run
from tests.matrix.cells import Cell, Fault
from tests.matrix.doors import Person, Reply
from tests.matrix.points import Place, Scene
from tests.matrix.stage import Stage

TTL = 2.0
PATIENCE = 120.0  # s, for one step of a cell
TICK = 0.03
LOOK_AGAIN = 0.1  # s between two looks at a run
ACT_AGAIN = 0.5  # s between two acts of the operator on one run
AFTERWARDS = 0.5  # s in which a point after the end of a run may still be reached
SENDING = "after_send"  # the only hook that does not say which tool it is about
T = TypeVar("T")
Play = Generator[None, None, T]


class Stuck(AssertionError):
    """A cell waited in vain."""


@dataclass
class Played:
    """How one cell went. `hit` is False where the point was not reached, `wrong` says what is not right."""

    cell: Cell
    run_id: UUID | None = None
    hit: bool = False
    ended: str = ""
    takeovers: int = 0
    seconds: float = 0.0
    wrong: str = ""


@dataclass
class Batch:
    """Cells that are struck together (F5): what stands still now, how many are still to come, and how often it struck."""

    standing: dict[int, float] = field(default_factory=dict)
    coming: int = 0
    strikes: int = 0
    down: bool = False

    def is_there(self) -> bool:
        """Whether all have come that will, or the first has waited long enough; and there is a database to kill."""
        if self.down:
            return False
        first = min(self.standing.values())
        return len(self.standing) >= self.coming or time.monotonic() - first > TTL / 2

    def strike(self) -> list[int]:
        """Strike what stands still now; whoever comes later is struck another time."""
        standing = list(self.standing)
        self.standing.clear()
        self.coming -= len(standing)
        self.strikes += 1
        return standing


@dataclass
class Player:
    """Plays one cell on a stage."""

    stage: Stage
    cell: Cell
    batch: Batch = field(default_factory=Batch)
    people: Sequence[Person] = ()

    def __post_init__(self) -> None:
        self.played = Played(self.cell)
        self.person, self.other = self.people or self.stage.people
        self.about = uuid4().hex
        self.at_the_web = f"web-{self.about}"
        self.chance = random.Random(f"operator-{self.cell.seed}-{self.cell.name}")
        self.acting: Future[Reply] | None = None
        self.losing = ""
        self.standing: set[int] = set()
        self.acted_at = self.looked_at = 0.0

    def play(self) -> Play[None]:
        """From the start of the run to what its people see at the end."""
        began = time.monotonic()
        scene = {
            Scene.PLAIN: self._plain,
            Scene.HELD_BACK: self._plain,
            Scene.STOPPED: self._stopped,
            Scene.VERDICT: self._verdict,
            Scene.TAKEOVER: self._takeover,
        }
        yield from (scene[self.cell.point.scene]() if self.cell.point.hook else self.start())
        yield from self.finish()
        if self.losing:
            self.stage.cancel(self.losing)  # it committed nothing more
        yield from self.look()
        self.played.seconds = time.monotonic() - began

    # ── scenes ──────────────────────────────────────────────────────────────────

    def _plain(self) -> Play[None]:
        point, hook = self.cell.point, self.cell.point.hook_of(self.cell.path)
        if point.id in ("P01", "P02"):
            order = self.stage.hold_at(hook, "", self.at_the_web)
            starting = self.start()
            yield from self._strike_when_taken(order, lambda: next(starting, "over") == "over")
            yield from starting
            return
        about = self.at_the_web if point.place == Place.WEB else self.about
        if point.id in ("P11", "P12", "P13", "P14"):
            yield from self.start()
            yield from self.until(lambda: self.status() in ("WAITING", "COMPLETED"), "the run asks")
            order = self.stage.hold_at(hook, self.cell.subject, about)
        else:
            order = self.stage.hold_at(hook, "" if hook == SENDING else self.cell.subject, about)
            yield from self.start()
        yield from self._strike_when_taken(order, self.attend)

    def _stopped(self) -> Play[None]:
        """P24: the stop is committed while the worker stands still. P25: it goes on and adopts the stop."""
        point = self.cell.point
        held = self.stage.hold_at(point.hold[self.cell.path], "", self.about)
        yield from self.start()
        pid = yield from self.taken(held, self.attend)
        if pid is None:
            return
        yield from self.act(f"runs/{self.played.run_id}/stop/", {"reason": "not needed any more"})
        if point.id == "P24":
            yield from self.strike(pid)
            return
        order = self.stage.hold_at(point.hook, "", self.about)
        self.stage.go_on(pid)
        yield from self._strike_when_taken(order, self.attend)

    def _verdict(self) -> Play[None]:
        """A worker is killed with a call under way; then the verdict on the call is where the fault strikes."""
        sent = self.stage.hold_at(SENDING, "", self.about)
        order = self.stage.hold_at(self.cell.point.hook, "", self.at_the_web)
        yield from self.start()
        pid = yield from self.taken(sent, self.attend)
        if pid is None:
            self.stage.cancel(order)
            return
        self.stage.kill(pid, tree=False)
        yield from self._strike_when_taken(order, self.attend)

    def _takeover(self) -> Play[None]:
        """A worker stands still until its lease has expired; the one that takes over is struck, and both go on."""
        held = self.stage.hold_at(self.cell.point.hold[self.cell.path], "", self.about)
        yield from self.start()
        pid = yield from self.taken(held, self.attend)
        if pid is None:
            return
        order = self.stage.hold_at(self.cell.point.hook, "TAKEOVER", self.about)
        yield from self._strike_when_taken(order, lambda: False)
        self.stage.go_on(pid)

    # ── the fault ───────────────────────────────────────────────────────────────

    def _strike_when_taken(self, order: str, meanwhile: Callable[[], bool]) -> Play[None]:
        pid = yield from self.taken(order, meanwhile)
        if pid is not None:
            yield from self.strike(pid)

    def taken(self, order: str, meanwhile: Callable[[], bool]) -> Play[int | None]:
        """Wait until a process has taken the order; None if the run was over before."""
        taken: int | None = None
        over = 0.0

        def reached() -> bool:
            nonlocal taken, over
            taken = self.stage.taken(order)
            if taken is None and meanwhile():
                over = over or time.monotonic()
            return taken is not None or bool(over and time.monotonic() - over > AFTERWARDS)

        yield from self.until(reached, f"{order} is reached")
        if taken is None:
            self.stage.cancel(order)
        else:
            self.standing.add(taken)
        return taken

    def free(self) -> None:
        """Let everything go on that stands still for this cell, after it got stuck."""
        for pid in self.standing:
            self.stage.go_on(pid)

    def strike(self, pid: int) -> Play[None]:
        """Strike a process that stands still."""
        self.played.hit = True
        strikes = {Fault.F1: self._f1, Fault.F2: self._f2, Fault.F3: self._f3, Fault.F4: self._f4, Fault.F5: self._f5}
        yield from strikes[self.cell.fault](pid)
        if self.cell.point.scene == Scene.HELD_BACK:
            yield from self.pause(self.cell.delay)
            self.stage.release()

    def _f1(self, pid: int) -> Play[None]:
        self.stage.kill(pid, tree=self.cell.tree or self.cell.point.place == Place.WEB)
        yield

    def _f2(self, pid: int) -> Play[None]:
        yield from self.pause(2 * TTL + self.cell.delay)
        self.stage.go_on(pid)

    def _f3(self, pid: int) -> Play[None]:
        self.stage.end_sessions(pid)
        self.stage.go_on(pid)
        yield

    def _f4(self, pid: int) -> Play[None]:
        self.losing = self.stage.lose_next_ack(pid)
        self.stage.go_on(pid)
        yield

    def _f5(self, pid: int) -> Play[None]:
        """Whoever comes first waits a moment for the others, and kills the database under all that stand still then."""
        batch, strike = self.batch, self.batch.strikes
        batch.standing.setdefault(pid, time.monotonic())
        yield from self.until(lambda: batch.strikes > strike or batch.is_there(), "the others stand still")
        if batch.strikes == strike:
            standing, batch.down = batch.strike(), True
            self.stage.kill_database()
            for each in standing:
                self.stage.go_on(each)
            yield from self.pause(self.cell.delay)
            self.stage.start_database()
            batch.down = False

    # ── the operator ────────────────────────────────────────────────────────────

    def _starting(self) -> "Future[Reply]":
        form = {"agent": "matrix", "goal": json.dumps({"turns": self.cell.script}), "thread": self.about}
        return self.stage.doors.ask(self.person, "POST", "runs/", about=self.at_the_web, form=form, key=self.about)

    def start(self) -> Play[None]:
        """Ask for the run, again with the same key while nobody knows, until it is there."""
        reply = yield from self._repeat(self._starting)
        assert reply.status in (200, 201), reply
        self.played.run_id = UUID(reply.value["id"])

    @property
    def id(self) -> UUID:
        """The run that was started."""
        assert self.played.run_id is not None
        return self.played.run_id

    def status(self) -> str:
        """The run's status, or "" while the database does not answer."""
        run = self._run()
        return run.status if run else ""

    def _run(self) -> Run | None:
        try:
            return Run.objects.filter(id=self.played.run_id or uuid4()).first()
        except Error:
            connection.close()
            return None

    def attend(self) -> bool:
        """Do what the run needs of a person now, one act at a time. True once it has ended."""
        if self.acting is not None and not self.acting.done():
            return False
        if time.monotonic() - self.looked_at < LOOK_AGAIN:
            return False
        self.looked_at = time.monotonic()
        run = self._run()
        if run is None or run.ended_at is not None:
            return run is not None
        if time.monotonic() - self.acted_at > ACT_AGAIN:
            try:
                self.acting = self._next_act(run) or self.acting
            except (Error, OSError):
                connection.close()
        return False

    def _next_act(self, run: Run) -> "Future[Reply] | None":
        wait = Wait.objects.filter(run=run, status="OPEN").first() if run.status == "WAITING" else None
        if wait is not None:
            return self.post(f"waits/{wait.id}/decide/", self.decision(wait))
        if run.status != "HELD":
            return None
        if run.hold_reason == "UNCERTAIN_CALL":
            return self._look_up(run)
        return self.post(f"runs/{run.id}/resume/", {"reason": "the machine was repaired"})

    def decision(self, wait: Wait) -> dict[str, Any]:
        rejects = self.played.hit and self.chance.random() < self.cell.rejects
        return {
            "verdict": "REJECT" if rejects else "APPROVE",
            "revision": wait.checkpoint_revision,
            "digest": wait.checkpoint_digest,
            "args_digest": wait.args_digest,
            "reason": "read it",
        }

    def _look_up(self, run: Run) -> "Future[Reply] | None":
        """Ask the oracle, once nothing of the call is under way any more, and say what it did."""
        call = ToolCall.objects.filter(run=run, status="UNCERTAIN", blocking=True).first()
        if call is None:
            return None
        found = self.stage.found(call.idempotency_key)
        if found["held"]:
            return None
        body = {"evidence": "looked into the oracle's own log"}
        if found["executions"]:
            body |= {"verdict": "EXECUTED", "external_ref": f"{call.tool}-{call.idempotency_key[:12]}"}
        else:
            body |= {"verdict": "NOT_EXECUTED", "then": "RETRY"}
        return self.post(f"calls/{call.id}/reconcile/", body)

    def post(self, path: str, body: dict[str, Any]) -> "Future[Reply]":
        self.acted_at = time.monotonic()
        return self.stage.doors.ask(self.person, "POST", path, about=self.at_the_web, body=body)

    def act(self, path: str, body: dict[str, Any]) -> Play[Reply]:
        """One act, repeated while nobody knows whether it was done."""
        reply = yield from self._repeat(lambda: self.post(path, body))
        return reply

    def _repeat(self, ask: "Callable[[], Future[Reply]]") -> Play[Reply]:
        while True:
            asked = ask()
            yield from self.until(asked.done, "a request is answered")
            if not asked.result().unknown:
                return asked.result()
            yield from self.pause(ACT_AGAIN)

    def finish(self) -> Play[None]:
        """Attend to the run until it has ended and nothing of it is under way."""
        yield from self.until(self.attend, "the run ends")
        run = None
        while run is None:  # somebody else may have the database killed just now
            run = self._run()
            yield
        self.played.ended, self.played.takeovers = run.status, run.takeovers
        allowed = {"COMPLETED"} | ({"CANCELLED"} if self.cell.point.scene == Scene.STOPPED else set())
        if run.status not in allowed:
            self.played.wrong = f"ended {run.status}: {run.end_reason}"

    def look(self) -> Play[None]:
        """What a stranger of the other tenant sees at the end, and what its people see."""
        for person in (self.other, self.person):
            yield from self._repeat(partial(self._read, person))

    def _read(self, person: Person) -> "Future[Reply]":
        return self.stage.doors.ask(person, "GET", f"runs/{self.played.run_id}/", about=self.at_the_web)

    # ── waiting ─────────────────────────────────────────────────────────────────

    def until(self, probe: Callable[[], object], what: str) -> Play[None]:
        """Yield until the probe is true. Raises Stuck."""
        deadline = time.monotonic() + PATIENCE
        while not probe():
            if time.monotonic() > deadline:
                raise Stuck(f"waited {PATIENCE:.0f} s in vain: {what}; {self._where()}")
            yield

    def pause(self, seconds: float) -> Play[None]:
        """Let others play meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            yield

    def _where(self) -> str:
        if self.played.run_id is None:
            return "no run yet"
        run, lease = self._run(), Lease.objects.filter(run_id=self.id).first()
        if run is None or lease is None:
            return "the database does not answer"
        return (
            f"run {run.id} is {run.status} {run.hold_reason or ''} {run.hold_detail}, lease {lease.owner} {lease.fence}"
        )
