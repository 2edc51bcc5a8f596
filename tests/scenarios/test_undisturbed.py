"""A run that nothing happens to: the measure of all the others."""

import pytest

from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process


def test_a_run_completes_with_one_attempt_a_call(world: World) -> None:
    run_id, wait = world.run_to_wait()
    world.approve(wait)
    world.wait_status(run_id, "COMPLETED")

    records = Records(run_id)
    assert records.statuses == {
        "read_disclosure/a": ("SUCCEEDED", 1),
        "read_disclosure/b": ("SUCCEEDED", 1),
        "compute_overlap/a-b": ("SUCCEEDED", 1),
        "send_answer_part/v1": ("SUCCEEDED", 1),
        "fetch_reference/sheet": ("SUCCEEDED", 1),
        "publish_report/overlap-v2": ("SUCCEEDED", 1),
    }
    assert records.transitions == [
        ("QUEUED", "ADMITTED", None),
        ("RUNNING", "ACQUIRED", 1),
        ("WAITING", "WAIT_OPENED", 1),
        ("QUEUED", "DECISION", None),
        ("RUNNING", "ACQUIRED", 2),
        ("COMPLETED", "FINISHED", 2),
    ]
    assert set(records.turns) == {("SEALED", 1)}
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "PUBLISHED")]
    assert records.wakeups == [("DECISION", "CONSUMED", 2)]
    assert world.executions(records.call("publish_report")) == 1
    assert world.readings(records.call("fetch_reference")) == 1
