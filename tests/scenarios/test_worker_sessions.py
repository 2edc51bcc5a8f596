"""An idle worker stays warm: its database session outlives a task, and is replaced when the server has ended it."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from console.celery import app
from runs.models import TraceEvent
from runtime.liveness.lock import CLASS
from tests.engine.engine import sql
from tests.scenarios.invariants import check_invariants
from tests.scenarios.world import POOL, WORKERS, World
from tests.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def smaller_world(shared_world: World) -> Iterator[World]:
    """The world with a single pool process, and without the clock: a hint that is lost stays lost."""
    restart(shared_world, workers=1, pool=1)
    yield shared_world
    restart(shared_world, workers=WORKERS, pool=POOL)


def restart(world: World, *, workers: int, pool: int) -> None:
    while world.workers:
        world.kill_worker(0)
    world.workers += world.stack.start_workers(workers, concurrency=pool)


@pytest.fixture
def one_process(smaller_world: World) -> Iterator[World]:
    smaller_world.stop_beat()
    yield smaller_world
    check_invariants(smaller_world)


def sessions(which: str = "true") -> set[tuple[object, ...]]:
    """The sessions on the database but ours."""
    return set(
        sql(
            "SELECT pid, backend_start FROM pg_stat_activity WHERE datname = current_database() "
            f"AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND {which}"
        )
    )


def session_of_a_step(world: World) -> set[tuple[object, ...]]:
    """The session that has committed a step, while its worker is in the middle of the call; then the run goes on to its wait."""
    world.tell_outside(mode="hang", **{"for": "reference"})
    run_id = world.start_run()
    world.wait_held("reference")
    found = sessions("position('fence AS (' IN query) > 0")
    world.tell_outside(mode="ok", **{"for": "reference"})
    world.open_wait(run_id)
    return found


def threads(world: World) -> list[int]:
    """How many threads each process of the worker has."""
    group, found = world.workers[0].child.pid, []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            found += [int(fields[17])] if int(fields[2]) == group else []
    return sorted(found)


def test_a_worker_has_its_session_before_the_first_hint_comes(one_process: World) -> None:
    # The last thing that it does by itself; what the clock sent before it was stopped may come after that.
    wait_until(lambda: sessions("query IN ('DEALLOCATE ahead', 'COMMIT')"), "it has planned what a run asks")


def test_a_run_that_waits_holds_no_thread_no_process_and_no_session(one_process: World) -> None:
    """What 10,000 of them hold is measured by `make bench`."""
    first, _ = one_process.run_to_wait()
    wait_until(lambda: one_process.deliveries()[1] == 0, "the worker is idle")
    wait_until(lambda: TraceEvent.objects.filter(run_id=first).exists(), "the writer of the trace has its session")
    before = threads(one_process), len(sessions())
    for _ in range(5):
        one_process.run_to_wait()
    wait_until(lambda: (threads(one_process), len(sessions())) == before, "nothing more is held than by one")


def test_a_worker_keeps_its_session_from_task_to_task(one_process: World) -> None:
    first, second = session_of_a_step(one_process), session_of_a_step(one_process)
    assert len(first) == 1
    assert first == second


def test_a_session_that_the_server_ended_between_two_tasks_costs_no_hint(one_process: World) -> None:
    run_id, wait = one_process.run_to_wait()
    for pid, _ in sessions():
        sql("SELECT pg_terminate_backend(%s, 5000)", pid)
    one_process.approve(wait)
    one_process.wait_status(run_id, "COMPLETED")


def test_a_worker_of_notices_alone_is_not_counted_among_those_that_take_runs(one_process: World) -> None:
    """Or a console whose last worker of runs is gone would say that workers answer."""
    ready = sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s", CLASS)
    notices = one_process.stack.start_worker(queue="notices")
    ((asked,),) = sql("SELECT clock_timestamp()")
    app.send_task("runtime.notices", queue="notices")
    wait_until(lambda: sessions(f"query_start > '{asked}'"), "it has done a task, and so has begun")
    assert sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s", CLASS) == ready
    notices.kill()
