"""A pause is accepted while a call with an effect is on the wire: its effect is recorded, nothing new starts, and the run
goes on where it stopped once somebody resumes it.
"""

import pytest

from runs.models import ControlRequest
from runtime.services import PauseState, Resumed, run_pause, run_resume
from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process

POST, STEP = "publish_report", "publish_report/overlap-v2"


def test_what_was_sent_lands_and_the_rest_waits_for_the_resume(world: World) -> None:
    run_id, wait = world.run_to_wait()
    records = Records(run_id)
    world.tell_outside(mode="hang", times=1)
    world.approve(wait)
    world.wait_held("wiki")

    accepted = run_pause(actor=world.person(), run_id=run_id, reason="not tonight")
    assert isinstance(accepted, PauseState) and accepted.status == "ACCEPTED"
    assert (records.run.status, records.statuses[STEP]) == ("RUNNING", ("DISPATCHED", 1))
    world.tell_outside(mode="ok")
    run = world.wait_status(run_id, "HELD")
    assert (run.hold_reason, run.hold_detail) == ("PAUSED", "not tonight")

    pause, call = ControlRequest.objects.get(run_id=run_id, kind="PAUSE"), records.call(POST)
    assert (pause.status, pause.adopted_fence) == ("ADOPTED", 2)
    assert pause.adopted_at is not None and pause.accepted_at < call.result.at < pause.adopted_at
    assert (records.result(call), records.effects(call)) == (("LIVE", True, 1, 2), 1)
    assert (records.lease.owner, records.head[1]) == (None, "TOOL_RESULT_RECORDED")
    turns = len(records.turns)

    resumed = run_resume(actor=world.person(), run_id=run_id, reason="morning")
    assert isinstance(resumed, Resumed)
    world.wait_status(run_id, "COMPLETED")
    assert records.transitions[-5:] == [
        ("RUNNING", "ACQUIRED", 2),
        ("HELD", "PAUSED", 2),
        ("QUEUED", "RESUMED", None),
        ("RUNNING", "ACQUIRED", 3),
        ("COMPLETED", "FINISHED", 3),
    ]
    assert len(records.turns) == turns + 1
    assert (world.executions(call), records.run.takeovers, records.refusals) == (1, 0, [])
