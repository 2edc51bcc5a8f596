"""Issue 4: an endpoint that answers slowly keeps no decision and no run waiting. A worker of the queue of notices, by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network

import pytest
from django.db.models import QuerySet
from django.test import override_settings

from accounts.models import Notice
from runs.selectors import runs_untaken
from runtime.services import EndpointAdded, EndpointRequest, endpoint_add, endpoint_drop
from tests.receiver import Receiver, receiver
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process


@contextmanager
def told(world: World, hook: Receiver, *hears: str) -> Iterator[QuerySet[Notice]]:
    """A worker of the queue of notices, and an endpoint that hears of these kinds; yields what it is told."""
    teller = world.stack.start_worker("notices", queue="notices")
    with override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.1/32")]):
        wanted = EndpointRequest("WEBHOOK", "desk", hook.url, frozenset(hears), whole_tenant=True)
        outcome = endpoint_add(actor=world.person(), wanted=wanted)
    assert isinstance(outcome, EndpointAdded), outcome
    try:
        yield Notice.objects.filter(endpoint_id=outcome.endpoint_id)
    finally:
        teller.stop()
        endpoint_drop(actor=world.person(), endpoint_id=outcome.endpoint_id)


def test_a_run_is_approved_and_done_while_an_endpoint_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(world.stack.environment, "SIGNALBOX_NOTICE_NETWORKS", '["127.0.0.1/32"]')
    monkeypatch.setitem(world.stack.environment, "SIGNALBOX_NOTICE_SECONDS", "60")
    with receiver() as hook, told(world, hook, "OPENED", "DECIDED") as notices:
        hook.slow = True
        run_id, wait = world.run_to_wait()
        wait_until(lambda: hook.bodies, "the endpoint is being told")

        world.approve(wait)
        world.wait_status(run_id, "COMPLETED")
        assert [body["kind"] for body in hook.bodies] == ["OPENED"]
        assert set(notices.values_list("kind", "status")) == {("OPENED", "PENDING"), ("DECIDED", "PENDING")}

        hook.slow = False
        hook.end.set()
        wait_until(notices.filter(kind="DECIDED", status="SENT").exists, "the next notice is told")
        assert hook.bodies[1]["subject_id"] == str(wait.id)


def test_where_no_worker_takes_runs_that_of_the_notices_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is missing can't tell of themselves: the queue of notices has a worker of its own, which looks as well."""
    monkeypatch.setitem(world.stack.environment, "SIGNALBOX_NOTICE_NETWORKS", '["127.0.0.1/32"]')
    monkeypatch.setitem(world.stack.environment, "SIGNALBOX_NOTICE_STUCK_SECONDS", "0.2")
    world.stop_beat()
    while world.workers:
        world.kill_worker(0)
    with receiver() as hook, told(world, hook, "STUCK") as notices:
        run_id = world.start_run()
        wait_until(lambda: runs_untaken(0.2), "the run has waited for longer than that")
        world.send("runtime.stuck", queue="notices")
        wait_until(notices.filter(subject="tenant").exists, "it is written")
        world.send("runtime.notices", queue="notices")
        wait_until(lambda: hook.bodies, "it is told")
        assert "queued" in hook.bodies[0]["text"] and "no worker takes them" in hook.bodies[0]["text"]
    world.start_processes()
    world.finish(run_id)
