"""What users reported of brokers, workers and databases beside other systems, tried on real processes that are killed and cut off."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections, transaction

from accounts.selectors import actor_named
from console import settings_test
from console.celery import app
from console.local.readiness import workers_answer
from console.pages.overview.parts import parts
from receipts.models import ModelCall
from runs.models import Run
from tests.scenarios.records import Records
from tests.scenarios.tls import tls_front
from tests.scenarios.world import APPROVER, POOL, WORKERS, World
from tests.services import Services
from tests.waiting import wait_until

pytestmark = pytest.mark.process
POST = "publish_report"
PROTOCOL = re.compile(
    "SSL|decryption failed|bad record|lost synchronization|unexpected message|protocol", re.IGNORECASE
)


@pytest.fixture
def mended(world: World, services: Services) -> Iterator[World]:
    """The world, for a test that replaces its workers or ends a server; both are there again afterwards."""
    before = dict(world.stack.environment)
    yield world
    if services.broker.process is None:
        services.start_broker()
    if world.stack.environment != before:
        world.stack.environment.clear()
        world.stack.environment.update(before)
        kill_workers(world)


def kill_workers(world: World) -> None:
    while world.workers:
        world.kill_worker(0)


def replace_workers(world: World, *, count: int = WORKERS, pool: int = POOL, **environment: str) -> None:
    """Start workers with other surroundings in the place of those there are."""
    kill_workers(world)
    world.stack.environment.update(environment)
    world.workers += world.stack.start_workers(count, concurrency=pool)


def health(part: str) -> str:
    """The lamp of one part on the overview."""
    actor = actor_named(username=APPROVER, door="page")
    return next(one.lamp for one in parts(actor) if one.word == part)


# ── the broker ──


@pytest.mark.matrix
def test_b62_a_hint_that_the_broker_delivers_again_and_again_sends_the_call_once(mended: World) -> None:
    replace_workers(mended, DJANGO_SETTINGS_MODULE="tests.scenarios.settings_impatient")
    run_id, wait = mended.run_to_wait()
    mended.tell_outside(mode="hang", times=1)
    mended.approve(wait)
    mended.wait_held("wiki")
    mended.stop_beat()
    before, _ = mended.deliveries()
    wait_until(lambda: mended.deliveries()[0] > before, "the hint is delivered again", seconds=60)
    mended.tell_outside(mode="ok")
    mended.start_processes()
    mended.wait_status(run_id, "COMPLETED")
    call = Records(run_id).call(POST)
    assert (mended.executions(call), Records(run_id).tries(call)) == (1, [("OK", 2, "person:operator")])


def test_b62_no_message_waits_in_the_broker_for_its_time(world: World) -> None:
    world.run_to_wait()
    with world._broker() as broker:
        asked = app.control.inspect(destination=world.nodes, timeout=5, connection=broker).scheduled()
    assert list(asked.values()) == [[]] * len(world.nodes)


def test_b64_a_hint_that_was_lost_with_its_whole_worker_and_its_broker_is_sent_again_by_the_sweep(
    mended: World, services: Services
) -> None:
    run_id, wait = mended.run_to_wait()
    mended.stop_beat()
    killed = mended.kill_at("after_dequeue")
    mended.approve(wait)
    killed.wait()
    kill_workers(mended)
    services.broker.collect()
    services.start_broker()
    mended.tidy()
    mended.start_processes()
    mended.wait_status(run_id, "COMPLETED")
    assert mended.executions(Records(run_id).call(POST)) == 1


def test_b65_a_stop_without_any_worker_is_what_the_next_worker_finds(mended: World) -> None:
    kill_workers(mended)
    run_id = mended.start_run()
    assert mended.stop(run_id).status == "SETTLED"
    mended.start_processes()
    before, _ = mended.deliveries()
    mended.deliver(run_id, 3)
    wait_until(lambda: mended.deliveries()[0] >= before + 3, "the late hints have arrived")
    wait_until(lambda: mended.deliveries()[1] == 0, "and were looked at")
    records = Records(run_id)
    assert records.run.status == "CANCELLED" and records.lease.fence == 0
    assert not ModelCall.objects.filter(run_id=run_id).exists()


def test_b66_two_clocks_have_everything_swept_and_nothing_done_twice(mended: World) -> None:
    """And the interval of a sweep is one of seconds, which no change of the hour makes longer or shorter."""
    assert all(isinstance(entry["schedule"], float) for entry in app.conf.beat_schedule.values())
    assert app.conf.timezone in (None, "UTC") and app.conf.enable_utc
    second = mended.stack.start_beat()
    try:
        run_id, wait = mended.run_to_wait()
        killed = mended.kill_at("after_dequeue")
        mended.approve(wait)
        killed.wait()
        mended.wait_status(run_id, "COMPLETED")
    finally:
        second.kill()
    call = Records(run_id).call(POST)
    assert (mended.executions(call), Records(run_id).tries(call)) == (1, [("OK", 2, "person:operator")])


def test_b67_a_broker_that_is_cut_off_three_times_leaves_workers_that_take_hints(
    mended: World, services: Services
) -> None:
    run_id, wait = mended.run_to_wait()
    for _ in range(3):
        services.broker.collect()
        assert health("Broker") == "stop"
        services.start_broker()
    wait_until(
        lambda: workers_answer(settings_test.CELERY_BROKER_URL, mended.nodes), "the workers are back", seconds=60
    )
    assert health("Broker") == "clear"
    mended.approve(wait)
    mended.wait_status(run_id, "COMPLETED")
    mended.stop_beat()
    before, _ = mended.deliveries()
    mended.deliver(run_id, 2 * POOL)
    wait_until(lambda: mended.deliveries()[0] >= before + 2 * POOL, "they consume what comes")


# ── the database ──


def test_b68_workers_outlive_a_restart_of_the_database_and_go_on_by_themselves(
    world: World, services: Services
) -> None:
    (called, approved), (waiting, wait) = world.run_to_wait(), world.run_to_wait()
    world.tell_outside(mode="hang", times=1)
    world.approve(approved)
    world.wait_held("wiki")
    pids = [worker.child.pid for worker in world.workers]
    connections.close_all()
    services.database.send(signal.SIGINT)
    wait_until(services.database.has_ended, "PostgreSQL has stopped")
    services.database.collect()
    services.database.start()
    wait_until(services.cluster.answers, "PostgreSQL answers")
    world.tell_outside(mode="ok")
    world.approve(wait)
    for run_id in (called, waiting):
        world.finish(run_id)
        assert Run.objects.get(id=run_id).status == "COMPLETED"
        assert world.executions(Records(run_id).call(POST)) == 1
    assert [worker.child.pid for worker in world.workers] == pids
    assert not any(worker.child.has_ended() for worker in world.workers)


def test_b69_eight_forked_processes_on_a_database_behind_tls_share_no_session(
    mended: World, services: Services, tmp_path: Path
) -> None:
    with tls_front(services.cluster.socket_dir, tmp_path) as front:
        url = f"postgresql://postgres@127.0.0.1:{front.port}/scenarios?sslmode=require"
        replace_workers(mended, count=1, pool=8, SIGNALBOX_DATABASE_URL=url)
        runs = [mended.start_run() for _ in range(16)]
        for run_id in runs:
            mended.approve(mended.open_wait(run_id))
        for run_id in runs:
            mended.wait_status(run_id, "COMPLETED", seconds=120)
        log = mended.workers[0].log()
        kill_workers(mended)
    assert front.sessions > 8 and front.broken == []
    assert PROTOCOL.findall(log) == []


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.matrix)])
def test_b70_nobody_looks_for_a_run_before_it_is_committed(world: World, count: int) -> None:
    logged = [worker.log().count("DoesNotExist") for worker in world.workers]
    wait_until(lambda: world.deliveries()[1] == 0, "what others sent is done")
    with transaction.atomic():
        runs = [world.start_run() for _ in range(count)]
        taken, under_way = world.deliveries()
        assert under_way == 0
        assert world.deliveries()[0] == taken
    for run_id in runs:
        world.wait_status(run_id, "WAITING", seconds=600)
        world.stop(run_id)
    assert [worker.log().count("DoesNotExist") for worker in world.workers] == logged
