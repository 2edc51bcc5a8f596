"""F14: a run is stopped while it waits for an approval, and the approval comes later. Nothing was sent, nothing is."""

import pytest

from accounts.selectors import audit_of
from approvals.errors import RunStopped
from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process

POST, STEP = "publish_report", "publish_report/overlap-v2"


def test_the_stop_closes_the_wait_and_a_late_approval_is_refused(world: World) -> None:
    run_id, wait = world.run_to_wait()
    records = Records(run_id)
    head = records.head

    state = world.stop(run_id)

    assert (state.status, state.new) == ("SETTLED", True)
    stop = records.stop_request
    assert (stop.status, stop.adopted_at, stop.adopted_fence) == ("SETTLED", None, None)
    assert stop.settled_at is not None
    assert records.transitions[-2:] == [("WAITING", "WAIT_OPENED", 1), ("CANCELLED", "STOPPED", None)]
    assert [row.status for row in records.waits] == ["CANCELLED"]
    assert records.statuses[STEP] == ("CANCELLED", 0)
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "FAILED")]
    assert records.head == head
    assert records.lease.owner is None

    refused = world.decide(wait)

    assert isinstance(refused, RunStopped)
    assert refused.status == 409
    assert records.decisions == []
    assert records.wakeups == []
    assert records.transitions[-1] == ("CANCELLED", "STOPPED", None)
    events = audit_of(tenant_id=world.tenant.id, object_type="wait", object_id=str(wait.id))
    assert [(event.action, event.detail["code"]) for event in events] == [("wait.decide.refused", "RUN_STOPPED")]
    assert world.executions(records.call(POST)) == 0
