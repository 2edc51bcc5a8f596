"""The liveness hint: a worker that dies is taken over at once, one that is frozen is not, and the fence decides anyway."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

import psycopg
import pytest

from receipts.models import ToolCall
from runs.models import RunTransition
from runs.selectors import database_now
from runtime.liveness import watcher
from runtime.liveness.lock import CLASS, LivenessLock
from tests.engine.engine import sql
from tests.scenarios.records import Records
from tests.scenarios.world import POOL, WORKERS, World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

READ = "fetch_reference"
SEARCH = watcher._LIVING.replace("%s", "$1")
LONG = "600"  # a lease that no test of this file can wait for


@pytest.fixture(scope="module")
def watching(shared_world: World) -> Iterator[None]:
    """Workers whose leases last for ever, and a watcher. Both are replaced afterwards."""
    world, before = shared_world, dict(shared_world.stack.environment)
    world.stack.environment |= {"SIGNALBOX_LEASE_TTL_SECONDS": LONG, "SIGNALBOX_HEARTBEAT_SECONDS": "0.5"}
    restart_workers(world)
    watcher = world.stack.start_watcher()
    yield
    watcher.kill()
    world.stack.environment.clear()
    world.stack.environment |= before
    restart_workers(world)


@pytest.fixture
def watched(watching: None, world: World) -> World:
    """The world, with somebody who waits for each of its pool processes."""
    wait_until(lambda: watches() >= living() >= WORKERS * POOL, "every pool process is watched")
    return world


def restart_workers(world: World) -> None:
    while world.workers:
        world.kill_worker(0)
    world.start_processes()


def living() -> int:
    """How many pool processes hold their lock."""
    return locks("granted")


def watches() -> int:
    """How many of them somebody waits for."""
    return locks("NOT granted")


def locks(which: str) -> int:
    return int(
        sql(f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND {which}", CLASS)[0][0]
    )


def hang_in_the_sheet(world: World) -> tuple[UUID, int]:
    """A run whose call to the sheet hangs, and the pool process that waits for its answer."""
    world.tell_outside(mode="hang", times=1, **{"for": "reference"})
    run_id = world.start_run()
    wait_until(lambda: was_read(world, run_id), "the sheet was read, and keeps its answer to itself")
    return run_id, int(str(Records(run_id).lease.owner).rpartition("-")[2])


def was_read(world: World, run_id: UUID) -> bool:
    call = ToolCall.objects.filter(run_id=run_id, tool=READ).first()
    return call is not None and world.readings(call) > 0


def taken_over(run_id: UUID) -> datetime:
    taken = wait_until(
        lambda: RunTransition.objects.filter(run_id=run_id, cause="TAKEOVER").first(), "it is taken over"
    )
    assert taken is not None
    return taken.at


def test_the_run_of_a_killed_process_goes_on_elsewhere_at_once(watched: World) -> None:
    for _ in range(3):
        run_id, pid = hang_in_the_sheet(watched)
        os.kill(pid, signal.SIGKILL)
        taken_over(run_id)  # long before its lease ends; how soon is measured by bench/latency.py
        watched.open_wait(run_id)
        assert Records(run_id).run.takeovers == 1
        assert Records(run_id).tries(Records(run_id).call(READ)) == [
            ("NO_RESPONSE", 1, "policy:builtin-1"),
            ("OK", 2, "policy:read-only"),
        ]
        watched.stop(run_id)
        wait_until(lambda: watches() >= living() >= WORKERS * POOL, "the new process is watched too")


def test_a_frozen_process_keeps_its_lease_and_a_dead_one_beside_it_does_not(watched: World) -> None:
    frozen_run, frozen = hang_in_the_sheet(watched)
    os.kill(frozen, signal.SIGSTOP)
    dead_run, dead = hang_in_the_sheet(watched)
    os.kill(dead, signal.SIGKILL)
    taken_over(dead_run)

    lease = Records(frozen_run).lease
    assert lease.expires_at is not None
    assert (lease.fence, lease.expires_at > database_now()) == (1, True)
    os.kill(frozen, signal.SIGCONT)
    watched.tell_outside(mode="ok", **{"for": "reference"})  # lets it have its answer
    for run_id, takeovers in ((frozen_run, 0), (dead_run, 1)):
        watched.finish(run_id)
        assert Records(run_id).run.takeovers == takeovers


def test_a_worker_that_only_lost_its_lock_is_fenced_and_writes_nothing(watched: World) -> None:
    """A false alarm costs speed, never truth: the fence decides."""
    watched.tell_outside(mode="hang", **{"for": "reference"})
    run_id = watched.start_run()
    watched.wait_held("reference")
    key = Records(run_id).lease.lock_key
    sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE objid = %s AND classid = %s AND granted", key, CLASS)
    taken_over(run_id)
    watched.tell_outside(mode="ok", **{"for": "reference"})
    watched.finish(run_id)
    records = Records(run_id)
    assert records.run.status == "COMPLETED"
    assert ("LATE_RESULT", 1) in records.refusals or ("STALE_FENCE", 1) in records.refusals
    assert {fence for _, fence in records.phases[-3:]} == {records.lease.fence}


def test_a_lock_that_is_lost_is_replaced_and_one_that_cant_be_proved_is_not_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = world.stack.database_url
    lock = LivenessLock(url)
    first = lock.key()
    assert first is not None and lock.key() == first
    sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE objid = %s AND classid = %s AND granted", first, CLASS)
    assert lock.key() is None
    second = lock.key()
    assert second not in (None, first)
    sessions = [psycopg.connect(url, autocommit=True) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(lock, "_connection", Pooled(sessions))
        assert lock.key() is None
    for session in [*sessions, lock._connection]:
        assert session is not None
        session.close()


def test_a_lock_is_watched_from_when_it_is_taken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to search for it: it announces itself."""
    monkeypatch.setattr(watcher, "SEARCH_SECONDS", 600.0)
    url = world.stack.database_url
    with watching_here(url):
        wait_until(
            lambda: sql("SELECT 1 FROM pg_stat_activity WHERE query = %s AND state = 'idle'", SEARCH), "it searched"
        )
        before = watches()
        lock = LivenessLock(url)
        assert lock.key() is not None
        wait_until(lambda: watches() > before, "the new lock is watched")
    lock._close()


@contextmanager
def watching_here(url: str) -> Iterator[None]:
    """A watcher in a thread of this process."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(watcher.watch(url))
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


class Pooled:
    """What a transaction pooler does to whoever asks it: each statement goes to the next session."""

    closed = False

    def __init__(self, sessions: list[psycopg.Connection]) -> None:
        self.sessions = sessions

    def execute(self, *asked: object) -> object:
        self.sessions.append(self.sessions.pop(0))
        return self.sessions[0].execute(*asked)  # type: ignore[call-overload]

    def close(self) -> None:
        """Its sessions belong to the test."""
