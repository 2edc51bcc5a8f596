"""Everything is restarted while people are asked (B10, B13, B14): the queue is the same, and what was approved goes once."""

from typing import Any

import pytest

from tests.scenarios.records import Records
from tests.scenarios.world import APPROVER, World

pytestmark = pytest.mark.process


def queue(world: World) -> list[dict[str, Any]]:
    """Every open wait as a process that was just started reads it, bound to its revision and digests."""
    listed: list[dict[str, Any]] = world.stack.manage_json("waits", "list", "--status", "OPEN", "--as", APPROVER)
    return listed


def kill_everything(world: World) -> None:
    while world.workers:
        world.kill_worker(0)
    if world.beat is not None:
        world.beat.kill()
        world.beat = None


def test_the_queue_outlives_every_process_and_an_approval_given_meanwhile_is_used_once(world: World) -> None:
    (_, other), (run_id, wait) = world.run_to_wait(), world.run_to_wait()
    show = ("waits", "show", str(wait.id), "--as", APPROVER)
    before, shown = queue(world), world.stack.manage_json(*show)
    assert {str(other.id), str(wait.id)} <= {one["id"] for one in before}
    kill_everything(world)
    assert (queue(world), world.stack.manage_json(*show)) == (before, shown)
    assert shown["arguments"]
    world.approve(wait)
    assert [one["id"] for one in queue(world)] == [one["id"] for one in before if one["id"] != str(wait.id)]
    world.start_processes()
    world.wait_status(run_id, "COMPLETED")
    records = Records(run_id)
    assert ([one.status for one in records.waits], world.executions(records.call("publish_report"))) == (
        ["CONSUMED"],
        1,
    )
    world.approve(other)
    world.wait_status(other.run_id, "COMPLETED")
