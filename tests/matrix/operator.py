"""An honest operator of one run: asks for it, decides, reconciles, resumes, looks; over HTTP only, again where no answer came.

What it does are generators that yield while they wait, so that many of them share one system and one thread.
"""

import json
import random
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID, uuid4

from django.db import Error, connection

from approvals.models import Wait
from receipts.models import ToolCall
from runs.models import Lease, Run
from tests.matrix.agents import Script
from tests.matrix.cells import Cell
from tests.matrix.doors import Person, Reply
from tests.matrix.patience import Patience, Played, Stuck
from tests.matrix.points import Scene, Way
from tests.matrix.stage import Stage

TICK = 0.03
NOTHING = UUID(int=0)
RETAIN = {"reason": "old checkpoints go"}
# What a run that does not begin from nothing has behind it. A fork proposes it once more: it is reused, and not repeated.
SOURCE: dict[Way, Script] = {
    Way.CONTINUED: [[("note", "before", "ok")], [("once", "unsent", "ok")]],
    Way.FORKED: [[("again", "before", "ok")]],
    Way.PAUSED: [[("note", "before", "ok")]],
}
LOOK_AGAIN = 0.1  # s between two looks at a run
ACT_AGAIN = 0.5  # s between two acts of the operator on one run
AFTERWARDS = 0.5  # s in which a point after the end of a run may still be reached
SENDING = "after_send"  # the only hook that does not say which tool it is about
T = TypeVar("T")
Play = Generator[None, None, T]


_MARK = """
SELECT r.id, r.status, r.takeovers, l.fence, h.revision, (SELECT count(*) FROM runs_runtransition t WHERE t.run_id = r.id),
       (SELECT count(*) FROM receipts_attempt a JOIN receipts_toolcall c ON c.id = a.tool_call_id WHERE c.run_id = r.id),
       (SELECT string_agg(w.status, ' ' ORDER BY w.id) FROM approvals_wait w WHERE w.run_id = r.id)
FROM runs_run r JOIN runs_lease l ON l.run_id = r.id JOIN checkpoints_head h ON h.run_id = r.id
WHERE %s IN (r.id, r.parent_run_id) OR r.id = %s ORDER BY r.id"""


@dataclass
class Operator:
    """Sees the run of one cell to its end."""

    stage: Stage
    cell: Cell
    people: Sequence[Person] = ()

    def __post_init__(self) -> None:
        self.patience = Patience()
        self.child = NOTHING
        self.played = Played(self.cell)
        self.person, self.other = self.people or self.stage.people
        self.key = uuid4().hex  # of the run that is admitted over HTTP
        self.about = f"child-{self.key}" if self.cell.way == Way.CHILD else self.key  # of the run that is struck
        self.at_the_web = f"web-{self.key}"
        self.chance = random.Random(f"operator-{self.cell.seed}-{self.cell.name}")
        self.acting: Future[Reply] | None = None
        self.losing = ""
        self.standing: set[int] = set()
        self.acted_at = self.looked_at = 0.0
        self.stood_at = time.monotonic()

    # ── what comes before a run that does not begin from nothing ──

    def _before(self) -> Play[None]:
        """Bring about what the run goes on from: an ended source, one that completed, or a pause."""
        if self.cell.way in (Way.CONTINUED, Way.FORKED):
            self.source = yield from self._admit(f"source-{self.key}", SOURCE[self.cell.way])
            self.played.run_id = self.source
            if self.cell.way == Way.CONTINUED:
                yield from self.until(lambda: self.status() == "WAITING", "the source asks")
                yield from self.act(f"runs/{self.source}/stop/", {"reason": "it goes on in another run"})
            yield from self.until(self.attend, "the source ends")
        if self.cell.way == Way.PAUSED:
            while not (yield from self._paused()):
                # On a slow machine somebody else has taken it over, and ended it, before the pause was accepted.
                self.key = self.about = uuid4().hex

    def _paused(self) -> Play[bool]:
        """A run that is paused while its worker stands still with the first answer. False: it ended before."""
        held = self.stage.hold_at("after_model_response", "", self.about)
        self.played.run_id = yield from self._admit(self.key, self._turns())
        pid = yield from self.taken(held, lambda: False)
        yield from self.act(f"runs/{self.id}/pause/", {"reason": "let me look"})
        assert pid is not None
        self.stage.go_on(pid)
        yield from self.until(lambda: self.status() in ("HELD", "COMPLETED"), "the run is paused")
        return self.status() == "HELD"

    def _turns(self) -> Script:
        """All turns of the run that is asked for: what it goes on from, then the cell's own."""
        own, way = self.cell.script, self.cell.way
        if way == Way.CHILD:
            return [[("spawn_child", "child", json.dumps({"turns": own}))], [("await_child", "", "")]]
        return [*SOURCE.get(way, [])[:1], *own]

    # ── the operator ────────────────────────────────────────────────────────────

    def start(self) -> Play[None]:
        """Ask for the run, again with the same key while nobody knows, until it is there. One that is paused is resumed."""
        way = self.cell.way
        if way == Way.PAUSED:
            yield from self.act(f"runs/{self.id}/resume/", {"reason": "I have looked"})
        elif way in (Way.CONTINUED, Way.FORKED):
            self.played.run_id = None
            path = f"runs/{self.source}/" + ("continue/" if way == Way.CONTINUED else "checkpoints/1/fork/")
            goal = {"goal": json.dumps({"turns": self._turns()}), "reason": "go on"}
            asking = partial(
                self.stage.doors.ask, self.person, "POST", path, about=self.at_the_web, body=goal, key=self.key
            )
            self.played.run_id = yield from self._admitted(asking)
        else:
            self.played.run_id = yield from self._admit(self.key, self._turns())

    def _admit(self, key: str, turns: Script) -> Play[UUID]:
        form = {"agent": "matrix", "goal": json.dumps({"turns": turns}), "thread": key}
        about = self.at_the_web if key == self.key else f"web-{key}"
        return (
            yield from self._admitted(
                partial(self.stage.doors.ask, self.person, "POST", "runs/", about=about, form=form, key=key)
            )
        )

    def _admitted(self, ask: "Callable[[], Future[Reply]]") -> Play[UUID]:
        reply = yield from self._repeat(ask)
        assert reply.status in (200, 201), reply
        return UUID(reply.value["id"])

    @property
    def id(self) -> UUID:
        """The run that was started."""
        assert self.played.run_id is not None
        return self.played.run_id

    def status(self) -> str:
        """The run's status, or "" while the database does not answer."""
        run = self._run()
        return run.status if run else ""

    def struck_run(self) -> UUID:
        """The run that the point is about: the one that was asked for, or its child (an id of nothing while there is none)."""
        if self.cell.way == Way.CHILD and self.child == NOTHING:
            self.child = Run.objects.filter(parent_run_id=self.id).values_list("id", flat=True).first() or NOTHING
        return self.id if self.cell.way != Way.CHILD else self.child

    def struck_status(self) -> str:
        """The status of that run, or "" while there is none or the database does not answer."""
        try:
            return Run.objects.filter(id=self.struck_run()).values_list("status", flat=True).first() or ""
        except Error:
            connection.close()
            return ""

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
                for each in (run, *Run.objects.filter(parent_run=run, ended_at=None)):
                    self.acting = self._next_act(each) or self.acting
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
        if found["held"] or (not found["executions"] and self._may_still_send()):
            return None
        body = {"evidence": "looked into the oracle's own log"}
        if found["executions"]:
            body |= {"verdict": "EXECUTED", "external_ref": f"{call.tool}-{call.idempotency_key[:12]}"}
        else:
            body |= {"verdict": "NOT_EXECUTED", "then": "RETRY"}
        return self.post(f"calls/{call.id}/reconcile/", body)

    def _may_still_send(self) -> bool:
        """Whether a process of this cell stands still, or has gone on for less than a lease: it may have been stopped with a
        request half sent, which nothing can take back. Nobody says that nothing was done until that is over.
        """
        if any(self.stage.stands(pid) for pid in self.standing):
            self.stood_at = time.monotonic()
        return time.monotonic() - self.stood_at < self.stage.lease

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
            yield from self.until(asked.done, "a request is answered", counts=False)
            if not asked.result().unknown:
                self.patience.moved()
                return asked.result()
            yield from self.pause(ACT_AGAIN)

    def finish(self) -> Play[None]:
        """Attend to the run until it has ended and nothing of it is under way."""
        yield from self.until(self.attend, "the run ends")
        run = yield from self.query(lambda: Run.objects.get(id=self.id))
        children = yield from self.query(lambda: list(Run.objects.filter(parent_run=run)))
        self.played.ended, self.played.takeovers = run.status, run.takeovers
        stopped = {"CANCELLED"} if self.cell.point.scene == Scene.STOPPED else set()
        for each in (run, *children):
            struck = each.id == run.id if self.cell.way != Way.CHILD else each.id != run.id
            if each.status not in {"COMPLETED"} | (stopped if struck else set()):
                self.played.wrong = f"run {each.id} ended {each.status}: {each.end_reason}"

    def look(self) -> Play[None]:
        """What a stranger of the other tenant sees at the end, and what its people see: the run, the lists, the receipts."""
        for run in (yield from self.query(lambda: self._ids(Run, parent_run_id=self.id) | {self.id})):
            calls = yield from self.query(partial(self._ids, ToolCall, run_id=run))
            lists = (f"runs/?q={run}", f"calls/?run={run}&limit=200", f"waits/?run={run}&limit=200")
            own = (f"runs/{run}/checkpoints/?limit=200", *(f"calls/{call}/" for call in calls))
            for person, paths in (
                (self.other, (f"runs/{run}/", *lists)),
                (self.person, (f"runs/{run}/", *lists, *own)),
            ):
                for path in paths:
                    yield from self._repeat(partial(self._read, person, path))

    @staticmethod
    def _ids(model: type[Run | ToolCall], **where: Any) -> set[UUID]:
        return set(model._default_manager.filter(**where).values_list("id", flat=True))

    def _read(self, person: Person, path: str) -> "Future[Reply]":
        return self.stage.doors.ask(person, "GET", path, about=self.at_the_web)

    # ── orders ──────────────────────────────────────────────────────────────────

    def taken(self, order: str, meanwhile: Callable[[], bool], *, keep: bool = False) -> Play[int | None]:
        """Wait until a process has taken the order; None if the run was over before. `keep`: the order stays then."""
        taken: int | None = None
        over = 0.0

        def reached() -> bool:
            nonlocal taken, over
            taken = self.stage.taken(order)
            if taken is None and meanwhile():
                over = over or time.monotonic()
            return taken is not None or bool(over and time.monotonic() - over > AFTERWARDS)

        yield from self.until(reached, f"{order} is reached")
        if taken is None and not keep:
            taken = yield from self.withdraw(order)
        if taken is not None:
            self.standing.add(taken)
        return taken

    def withdraw(self, order: str) -> Play[int | None]:
        """Take an order back; or the process that has taken it at the last moment, once it stands still."""
        if self.stage.cancel(order):
            return None
        yield from self.until(lambda: self.stage.taken(order) is not None, f"{order} was taken, and is reached")
        return self.stage.taken(order)

    def free(self) -> None:
        """Let everything go on that stands still for this cell, after it got stuck."""
        for pid in self.standing:
            self.stage.go_on(pid)

    # ── waiting ─────────────────────────────────────────────────────────────────

    def until(self, probe: Callable[[], object], what: str, *, counts: bool = True) -> Play[None]:
        """Yield until the probe is true. Raises Stuck when nothing has moved for long, or things move for ever. `counts`:
        that it is true is such a movement.
        """
        while not probe():
            why = self.patience.over(self._mark)
            if why:
                raise Stuck(f"{why}: {what}; {self._where()}")
            yield
        if counts:
            self.patience.moved()

    def query(self, ask: Callable[[], T]) -> Play[T]:
        """What the database says, as soon as it answers: somebody else may have had it killed just now."""
        while True:
            try:
                return ask()
            except Error:
                connection.close()
            yield

    def _mark(self) -> object:
        """What the run and its children have come to; None while the database does not answer."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(_MARK, [self.played.run_id, self.played.run_id])
                return cursor.fetchall()
        except Error:
            connection.close()
            return None

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
