"""Workers are killed and runs are stopped at random moments. None hangs, nothing happens twice, nothing is hidden.

A failure prints the seed. `SCENARIO_SEED=<seed>` before the same command repeats its choices.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from checkpoints.models import Checkpoint
from receipts.models import Attempt, ToolCall
from runs.models import Lease, Run
from runtime.services import run_stop
from tests.scenarios.invariants import check_invariants
from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.waiting import wait_until

STRIDE = 14  # rows of progress, at most, from one kill to the next


@dataclass
class Chaos:
    """Strikes after a random amount of progress: mostly at the pool process that holds a run, sometimes at a whole
    worker, and now and then it stops a run.
    """

    world: World = field(repr=False)
    chance: random.Random = field(repr=False)
    strikes_left: int
    living: set[UUID]
    due: int = 0
    killed: list[str] = field(default_factory=list)
    stopped: set[UUID] = field(default_factory=set)

    def strike(self) -> None:
        """Strike if enough has happened since the last time."""
        progress = Checkpoint.objects.count() + Attempt.objects.count()
        if not self.due:
            self.due = progress + self.chance.randint(1, STRIDE)
        if self.strikes_left and progress >= self.due and self._stop_or_kill():
            self.due = progress + self.chance.randint(1, STRIDE)
            self.strikes_left -= 1

    def _stop_or_kill(self) -> bool:
        chance = self.chance.random()
        if chance < 0.1 and self.living:
            run_id = self.chance.choice(sorted(self.living))
            run_stop(actor=self.world.person(), run_id=run_id, reason="changed my mind")
            self.stopped.add(run_id)
            return True
        if chance < 0.17:
            index = self.chance.randrange(len(self.world.workers))
            self.killed.append(self.world.workers[index].name)
            self.world.kill_worker(index)
            self.world.start_processes()
            return True
        holders = sorted(self._holders())
        if not holders:
            return False
        holder = self.chance.choice(holders)
        self.killed.append(f"pool process {holder}")
        os.kill(holder, signal.SIGKILL)
        return True

    def _holders(self) -> Iterator[int]:
        """The living pool processes that hold a lease. Only children of our own workers."""
        workers = {worker.child.pid for worker in self.world.workers}
        for owner in Lease.objects.exclude(owner=None).values_list("owner", flat=True):
            pid = int(str(owner).rpartition("-")[2])
            if parent_of(pid) in workers:
                yield pid


def parent_of(pid: int) -> int | None:
    """The parent of a process, or None when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat[1]) if stat[0] != "Z" else None


@pytest.fixture
def seed() -> int:
    """A new one for each run of the tests, or the one that is to be repeated."""
    return int(os.environ.get("SCENARIO_SEED") or random.SystemRandom().randrange(1_000_000))


@pytest.mark.process
def test_six_runs(world: World, seed: int, request: pytest.FixtureRequest) -> None:
    run_through_kills(world, seed, request.node.nodeid, runs=6, strikes=8)


@pytest.mark.matrix
def test_fifty_runs(world: World, seed: int, request: pytest.FixtureRequest) -> None:
    run_through_kills(world, seed, request.node.nodeid, runs=50, strikes=50)


def run_through_kills(world: World, seed: int, test: str, *, runs: int, strikes: int) -> None:
    run_ids = [world.start_run() for _ in range(runs)]
    chaos = Chaos(world, random.Random(seed), strikes, set(run_ids))
    deadline = time.monotonic() + 30 + 5 * strikes

    def all_ended() -> bool:
        chaos.strike()
        resting = Run.objects.filter(id__in=chaos.living).exclude(status__in=["QUEUED", "RUNNING", "STOPPING"])
        chaos.living -= {run.id for run in resting if world.attend(run.id)}
        return not chaos.living

    try:
        wait_until(all_ended, f"{runs} runs end", deadline - time.monotonic())
        assert chaos.strikes_left < strikes, "the runs were over before they were disturbed"
        for run_id in run_ids:
            assert_done_once(world, run_id, stopped=run_id in chaos.stopped)
        check_invariants(world)
    except AssertionError as error:
        error.add_note(f"repeat with: SCENARIO_SEED={seed} python -m pytest {test}\n{chaos}")
        raise


def assert_done_once(world: World, run_id: UUID, *, stopped: bool) -> None:
    """A run that nobody stopped completed; one that was stopped may have completed before. Neither posted twice."""
    records = Records(run_id)
    posts = list(ToolCall.objects.filter(run_id=run_id, tool="publish_report"))
    assert sum(world.executions(call) for call in posts) <= 1, run_id
    if stopped and records.run.status == "CANCELLED":
        assert records.stop_request.status == "SETTLED", run_id
        return
    assert records.run.status == "COMPLETED", (run_id, records.run.end_reason)
    assert {status for status, _ in records.statuses.values()} == {"SUCCEEDED"}, (run_id, records.statuses)
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "PUBLISHED")], run_id
    assert [world.executions(call) for call in posts] == [1], run_id
