"""F04: killed between the approval's checks and the commit that dispatches. It was never sent, so it is simply sent."""

import pytest

from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process

POST = "publish_report"


@pytest.mark.parametrize("point", ["before_attempt_commit", "inside_dispatch_tx"])
def test_the_next_worker_checks_again_and_sends_once(world: World, point: str) -> None:
    run_id, wait = world.run_to_wait()
    killed = world.kill_at(point, POST)
    world.approve(wait)
    killed.wait()
    records = Records(run_id)
    # The dispatch is one commit with the wait's consumption (ruling 4): nothing of it is there.
    assert [wait.status for wait in records.waits] == ["APPROVED"]
    assert records.statuses["publish_report/overlap-v2"] == ("AWAITING_APPROVAL", 0)
    assert records.wakeups == [("DECISION", "PENDING", None)]
    assert records.head[1] == "AWAITING_APPROVAL"
    assert world.executions(records.call(POST)) == 0

    world.wait_status(run_id, "COMPLETED")

    call = records.call(POST)
    assert records.tries(call) == [("OK", 3, "person:operator")]
    assert records.result(call) == ("LIVE", True, 1, 3)
    assert [wait.status for wait in records.waits] == ["CONSUMED"]
    assert records.wakeups == [("DECISION", "CONSUMED", 3)]
    assert records.decisions == [("APPROVE", "person:operator")]
    assert records.transitions[-3:] == [
        ("RUNNING", "ACQUIRED", 2),
        ("RUNNING", "TAKEOVER", 3),
        ("COMPLETED", "FINISHED", 3),
    ]
    assert records.budget(call) == [(1, "RESERVE", 1), (1, "SETTLE", 1)]
    assert records.refusals == []
    assert world.executions(call) == 1
