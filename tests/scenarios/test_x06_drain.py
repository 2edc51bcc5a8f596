"""X06: a worker that is asked to stop lets the call on the wire answer, and gives the run back for another one."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from runs.models import RunTransition
from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.stack import Process

pytestmark = pytest.mark.process

READ = "fetch_reference"


def worker_of(world: World, run_id: UUID) -> Process:
    """The worker whose pool process holds the run."""
    pid = int(str(Records(run_id).lease.owner).rpartition("-")[2])
    return next(worker for worker in world.workers if worker.child.pid == os.getpgid(pid))


@pytest.mark.parametrize("ask", [os.kill, os.killpg], ids=["the worker alone", "each of its processes"])
def test_a_stopped_worker_finishes_its_call_and_hands_the_run_over(
    world: World, ask: Callable[[int, int], None]
) -> None:
    """Whether it is asked alone or, as systemd does it, with its pool processes."""
    world.tell_outside(mode="hang", **{"for": "reference"})
    run_id = world.start_run()
    world.wait_held("reference")
    worker = worker_of(world, run_id)
    ask(worker.child.pid, signal.SIGTERM)
    world.wait_drained(worker)

    world.tell_outside(mode="ok", **{"for": "reference"})
    world.workers.remove(worker)
    worker.wait_ended()
    world.approve(world.open_wait(run_id))
    world.wait_status(run_id, "COMPLETED")

    records = Records(run_id)
    assert records.run.takeovers == 0
    assert records.transitions[:5] == [
        ("QUEUED", "ADMITTED", None),
        ("RUNNING", "ACQUIRED", 1),
        ("QUEUED", "DRAIN", 1),
        ("RUNNING", "ACQUIRED", 2),
        ("WAITING", "WAIT_OPENED", 2),
    ]
    read = records.call(READ)
    assert records.tries(read) == [("OK", 1, "policy:builtin-1")]
    assert world.readings(read) == 1
    assert all(attempts == 1 for _, attempts in records.turns)
    assert records.refusals == []
    taken = RunTransition.objects.get(run_id=run_id, cause="ACQUIRED", fence=2)
    assert taken.at - read.result.at <= timedelta(seconds=2)
