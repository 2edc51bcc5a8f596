"""How a cell is played: a run is brought to the point, the fault strikes, and an honest operator sees the run to its end.

Every cell is a generator that yields while it waits, so that many of them share one system and one thread.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import Error, connection

from checkpoints.models import Head
from tests.matrix.cells import Fault
from tests.matrix.operator import RETAIN, SENDING, Operator, Play
from tests.matrix.points import Place, Scene, Way


@dataclass
class Batch:
    """Cells that are struck together (F5): what stands still now, how many are still to come, and how often it struck."""

    lease: float = 2.0
    standing: dict[int, float] = field(default_factory=dict)
    coming: int = 0
    strikes: int = 0
    down: bool = False

    def is_there(self) -> bool:
        """Whether all have come that will, or the first has waited long enough; and there is a database to kill."""
        if self.down:
            return False
        first = min(self.standing.values())
        return len(self.standing) >= self.coming or time.monotonic() - first > self.lease / 2

    def strike(self) -> list[int]:
        """Strike what stands still now; whoever comes later is struck another time."""
        standing = list(self.standing)
        self.standing.clear()
        self.coming -= len(standing)
        self.strikes += 1
        return standing


@dataclass
class Player(Operator):
    """Plays one cell on a stage."""

    batch: Batch = field(default_factory=Batch)

    def play(self) -> Play[None]:
        """From the start of the run to what its people see at the end."""
        began = time.monotonic()
        self.patience.moved()
        yield from self._before()
        scene = {
            Scene.PLAIN: self._plain,
            Scene.HELD_BACK: self._plain,
            Scene.STOPPED: self._stopped,
            Scene.VERDICT: self._verdict,
            Scene.TAKEOVER: self._takeover,
            Scene.RETAINED: self._retained,
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
        if point.id in ("P01", "P02") and self.cell.way == Way.CHILD:
            order = self.stage.hold_at(hook, "", self.key)  # the parent's worker admits it
            yield from self.start()
            yield from self._strike_when_taken(order, self.attend)
            return
        if point.id in ("P01", "P02"):
            order = self.stage.hold_at(hook, "", self.at_the_web)
            starting = self.start()
            yield from self._strike_when_taken(order, lambda: next(starting, "over") == "over")
            yield from starting
            return
        about = self.at_the_web if point.place == Place.WEB else self.about
        if point.id in ("P11", "P12", "P13", "P14"):
            yield from self.start()
            yield from self.until(lambda: self.struck_status() in ("WAITING", "COMPLETED"), "the run asks")
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
        struck = yield from self.query(self.struck_run)
        # Ordered before the stop: where its worker's lease is over, another one may adopt it at once.
        order = self.stage.hold_at(point.hook, "", self.about) if point.id == "P25" else ""
        yield from self.act(f"runs/{struck}/stop/", {"reason": "not needed any more"})
        if not order:
            yield from self.strike(pid)
            return
        self.stage.go_on(pid)
        yield from self._strike_when_taken(order, self.attend)

    def _verdict(self) -> Play[None]:
        """A worker is killed with a call under way; then the verdict on the call is where the fault strikes."""
        sent = self.stage.hold_at(SENDING, "", self.about)
        order = self.stage.hold_at(self.cell.point.hook, "", self.at_the_web)
        yield from self.start()
        pid = yield from self.taken(sent, self.attend)
        if pid is None:
            late = yield from self.withdraw(order)
            if late is not None:
                yield from self.strike(late)
            return
        self.stage.kill(pid, tree=False)
        yield from self._strike_when_taken(order, self.attend)

    def _takeover(self) -> Play[None]:
        """A worker stands still until its lease has expired; the one that takes over is struck, and both go on."""
        # Both are ordered first: on a slow machine the lease may be over before the test has noticed who stands still.
        order = self.stage.hold_at(self.cell.point.hook, "TAKEOVER", self.about)
        held = self.stage.hold_at(self.cell.point.hold[self.cell.path], "", self.about)
        yield from self.start()
        pid = yield from self.taken(held, self.attend)
        yield from self._strike_when_taken(order, self.attend)
        if pid is not None:
            self.stage.go_on(pid)

    def _retained(self) -> Play[None]:
        """The run's old bodies go while it lives, or after its end; then whatever is left goes."""
        enough = self.chance.choice((5, 8, 1000))
        order = self.stage.hold_at(self.cell.point.hook, "", self.at_the_web)
        yield from self.start()
        yield from self.until(lambda: self.attend() or self._revisions() >= enough, "the run has old checkpoints")
        for _ in range(2):  # what a call in hand is bound to stays; at the latest after the end something goes
            struck = yield from self.query(self.struck_run)
            asked = self.post(f"runs/{struck}/retain/", RETAIN)
            pid = yield from self.taken(order, asked.done, keep=True)
            if pid is not None:
                yield from self.strike(pid)
                break
            yield from self.until(self.attend, "the run ends")
        late = None if self.played.hit else (yield from self.withdraw(order))
        if late is not None:
            yield from self.strike(late)
        yield from self.until(self.attend, "the run ends")
        yield from self.act(f"runs/{struck}/retain/", RETAIN)

    def _revisions(self) -> int:
        try:
            return Head.objects.values_list("revision", flat=True).get(run_id=self.struck_run())
        except (Error, Head.DoesNotExist):
            connection.close()
            return 0

    # ── the fault ───────────────────────────────────────────────────────────────

    def _strike_when_taken(self, order: str, meanwhile: Callable[[], bool]) -> Play[None]:
        pid = yield from self.taken(order, meanwhile)
        if pid is not None:
            yield from self.strike(pid)

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
        yield from self.pause(2 * self.stage.lease + self.cell.delay)
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
