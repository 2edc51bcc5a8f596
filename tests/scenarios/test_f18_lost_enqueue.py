"""F18 and the dead broker: a decision is stored although nobody could be told, and the run moves once somebody can be."""

import http.client
import json
import signal
from collections.abc import Iterator
from time import monotonic
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.conf import settings

from accounts.models import Membership
from accounts.services import token_create
from approvals.models import Wait
from console import settings_test
from console.local.readiness import workers_answer
from runs import wakeups
from runs.wakeups import hint_run
from tests.scenarios.records import Records
from tests.scenarios.world import APPROVER, POOL, World
from tests.services import Services
from tests.waiting import wait_until

pytestmark = pytest.mark.process

POST = "publish_report"
BROKER_LOST = "Connection to broker lost"


@pytest.fixture
def dead_broker(services: Services) -> Iterator[Services]:
    """The broker, for a test that kills it; it is there again afterwards."""
    yield services
    if services.broker.process is None:
        services.start_broker()


def kill_broker(services: Services) -> None:
    """kill -9. What was queued is gone: it keeps nothing on disk."""
    services.broker.collect()


def test_a_decision_survives_the_broker_and_its_own_web_process(world: World, dead_broker: Services) -> None:
    web = world.stack.start_web()
    run_id, wait = world.run_to_wait()
    records = Records(run_id)
    world.stop_beat()
    kill_broker(dead_broker)
    killed = world.kill_at("after_decision_committed", "APPROVE")

    with pytest.raises((ConnectionError, http.client.HTTPException)):
        approve_over_http(world, wait)
    killed.wait()
    web.wait_ended()

    assert records.decisions == [("APPROVE", "person:operator")]
    assert [row.status for row in records.waits] == ["APPROVED"]
    assert records.wakeups == [("DECISION", "PENDING", None)]
    assert records.transitions[-1] == ("QUEUED", "DECISION", None)
    assert (records.lease.owner, records.lease.fence) == (None, 1)
    assert world.executions(records.call(POST)) == 0

    dead_broker.start_broker()
    world.start_processes()  # the clock goes again, and with it the sweep
    world.wait_status(run_id, "COMPLETED")
    before, _ = world.deliveries()
    world.deliver(run_id, 5)
    wait_until(lambda: world.deliveries()[0] >= before + 5, "the late deliveries have arrived")

    assert records.wakeups == [("DECISION", "CONSUMED", 2)]
    assert [row.status for row in records.waits] == ["CONSUMED"]
    assert records.decisions == [("APPROVE", "person:operator")]
    call = records.call(POST)
    assert records.tries(call) == [("OK", 2, "person:operator")]
    assert records.transitions[-2:] == [("RUNNING", "ACQUIRED", 2), ("COMPLETED", "FINISHED", 2)]
    assert records.run.takeovers == 0
    assert world.executions(call) == 1


def test_a_decision_is_accepted_while_the_broker_is_dead(world: World, dead_broker: Services) -> None:
    run_id, wait = world.run_to_wait()
    kill_broker(dead_broker)

    world.approve(wait)
    assert Records(run_id).transitions[-1] == ("QUEUED", "DECISION", None)

    dead_broker.start_broker()
    world.wait_status(run_id, "COMPLETED")
    assert world.executions(Records(run_id).call(POST)) == 1


def test_a_worker_with_a_call_on_the_wire_outlives_the_broker(world: World, dead_broker: Services) -> None:
    run_id, wait = world.run_to_wait()
    world.tell_outside(mode="hang", times=1)
    world.approve(wait)
    world.wait_held("wiki")
    lost = [worker.log().count(BROKER_LOST) for worker in world.workers]
    kill_broker(dead_broker)
    wait_until(
        lambda: all(worker.log().count(BROKER_LOST) > n for worker, n in zip(world.workers, lost, strict=True)),
        "the workers notice",
    )
    dead_broker.start_broker()
    wait_until(lambda: workers_answer(settings_test.CELERY_BROKER_URL, world.nodes), "the workers are back", seconds=60)

    world.tell_outside(mode="ok")  # the call answers, and its hint can't be acknowledged to the broker that brought it
    world.wait_status(run_id, "COMPLETED")
    call = Records(run_id).call(POST)
    assert Records(run_id).tries(call) == [("OK", 2, "person:operator")]
    assert world.executions(call) == 1
    before, _ = world.deliveries()
    world.deliver(run_id, 4 * POOL)
    wait_until(lambda: world.deliveries()[0] >= before + 4 * POOL, "every pool process takes hints")
    assert not any(worker.child.has_ended() for worker in world.workers)


@pytest.mark.matrix
def test_a_decision_is_accepted_while_the_broker_hangs(world: World, services: Services) -> None:
    run_id, wait = world.run_to_wait()
    services.broker.send(signal.SIGSTOP)
    try:
        world.approve(wait)
        assert Records(run_id).decisions == [("APPROVE", "person:operator")]
    finally:
        services.broker.send(signal.SIGCONT)
    world.wait_status(run_id, "COMPLETED")
    assert world.executions(Records(run_id).call(POST)) == 1


def test_who_decides_many_at_once_waits_once_for_a_broker_that_hangs(
    services: Services, live_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for each of them: a batch of forty would take minutes. It is asked again a moment later."""
    monkeypatch.setattr(wakeups._broker, "hangs_until", 0.0)  # whatever an earlier test has met; put back at the end
    services.broker.send(signal.SIGSTOP)
    try:
        began = monotonic()
        for _ in range(4):
            hint_run(run_id=uuid4())
        waited = monotonic() - began
    finally:
        services.broker.send(signal.SIGCONT)
    assert wakeups.HANGS_SECONDS < waited < 2 * settings.CELERY_BROKER_TRANSPORT_OPTIONS["socket_timeout"]


def approve_over_http(world: World, wait: Wait) -> None:
    """Approve as the page would, over the real web server."""
    member = Membership.objects.get(tenant=world.tenant, user__username=APPROVER)
    token = token_create(membership=member, name=f"test {wait.id}")
    said = {
        "verdict": "APPROVE",
        "revision": wait.checkpoint_revision,
        "digest": wait.checkpoint_digest,
        "args_digest": wait.args_digest,
        "reason": "read it",
    }
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(urlsplit(world.stack.url).netloc, timeout=20)
    try:
        connection.request("POST", f"/api/v1/waits/{wait.id}/decide/", json.dumps(said), headers)
        connection.getresponse()
    finally:
        connection.close()
