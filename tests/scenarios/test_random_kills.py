"""Workers are killed at random moments of many runs. None hangs, none does anything twice, nothing unknown is hidden.

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
from receipts.models import Attempt
from runs.models import Lease
from tests.scenarios.invariants import check_invariants
from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.waiting import wait_until

STRIDE = 14  # rows of progress, at most, from one kill to the next


@dataclass
class Killer:
    """Kills after a random amount of progress: mostly the pool process that holds a run, sometimes a whole worker."""

    world: World
    chance: random.Random
    kills_left: int
    due: int = 0
    killed: list[str] = field(default_factory=list)

    def strike(self) -> None:
        """Kill somebody if enough has happened since the last time."""
        progress = Checkpoint.objects.count() + Attempt.objects.count()
        if not self.due:
            self.due = progress + self.chance.randint(1, STRIDE)
        if self.kills_left and progress >= self.due and self._kill():
            self.due = progress + self.chance.randint(1, STRIDE)
            self.kills_left -= 1

    def _kill(self) -> bool:
        if self.chance.random() < 0.2:
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
    run_through_kills(world, seed, request.node.nodeid, runs=6, kills=8)


@pytest.mark.matrix
def test_fifty_runs(world: World, seed: int, request: pytest.FixtureRequest) -> None:
    run_through_kills(world, seed, request.node.nodeid, runs=50, kills=40)


def run_through_kills(world: World, seed: int, test: str, *, runs: int, kills: int) -> None:
    killer = Killer(world, random.Random(seed), kills)
    run_ids = [world.start_run() for _ in range(runs)]
    living = set(run_ids)
    deadline = time.monotonic() + 30 + 5 * kills

    def all_ended() -> bool:
        killer.strike()
        living.difference_update([run_id for run_id in living if world.attend(run_id)])
        return not living

    try:
        wait_until(all_ended, f"{runs} runs end", deadline - time.monotonic())
        assert len(killer.killed) >= kills // 2, "the runs were over before they were disturbed"
        for run_id in run_ids:
            assert_done_once(world, run_id)
        check_invariants(world)
    except AssertionError as error:
        repeat = f"SCENARIO_SEED={seed} python -m pytest {test}"
        error.add_note(f"repeat with: {repeat}\nliving: {living}\nkilled: {killer.killed}")
        raise


def assert_done_once(world: World, run_id: UUID) -> None:
    records = Records(run_id)
    assert records.run.status == "COMPLETED", (run_id, records.run.end_reason)
    assert {status for status, _ in records.statuses.values()} == {"SUCCEEDED"}, (run_id, records.statuses)
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "PUBLISHED")], run_id
    assert world.executions(records.call("publish_report")) == 1, run_id
