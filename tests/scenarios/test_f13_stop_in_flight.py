"""F13: a stop is accepted while a call with an effect is on the wire, and the call succeeds. Its effect is recorded."""

import pytest

from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

POST, STEP = "publish_report", "publish_report/overlap-v2"


def test_what_was_sent_lands_and_nothing_else_starts(world: World) -> None:
    run_id, wait = world.run_to_wait()
    records = Records(run_id)
    draft = records.report(1)
    world.tell_outside(mode="hang", times=1)
    world.approve(wait)
    world.wait_held("wiki")

    accepted = world.stop(run_id)
    assert (accepted.status, accepted.new) == ("ACCEPTED", True)
    wait_until(lambda: records.stop_request.status == "ADOPTED", "the worker adopts the stop")
    assert records.run.status == "STOPPING"
    assert records.statuses[STEP] == ("DISPATCHED", 1)
    again = world.stop(run_id)
    assert (again.request_id, again.status, again.new) == (accepted.request_id, "ADOPTED", False)

    world.tell_outside(mode="ok")
    world.wait_status(run_id, "CANCELLED")

    stop, call = records.stop_request, records.call(POST)
    assert (stop.status, stop.adopted_fence) == ("SETTLED", 2)
    assert stop.adopted_at is not None and stop.settled_at is not None
    assert stop.accepted_at < stop.adopted_at < call.result.at < stop.settled_at
    assert records.transitions[-3:] == [
        ("RUNNING", "ACQUIRED", 2),
        ("STOPPING", "STOP_ADOPTED", 2),
        ("CANCELLED", "STOPPED", 2),
    ]
    assert records.result(call) == ("LIVE", True, 1, 2)
    assert records.statuses[STEP] == ("SUCCEEDED", 1)
    assert records.effects(call) == 1
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "PUBLISHED")]
    assert records.report(1) == draft
    assert records.phases[-3:] == [("AWAITING_TOOL_RESULT", 2), ("TOOL_RESULT_RECORDED", 2), ("STOPPED", 2)]
    assert records.budget(call) == [(1, "RESERVE", 1), (1, "SETTLE", 1)]
    assert len(records.turns) == 6
    assert records.lease.owner is None
    assert world.executions(call) == 1


def test_a_sent_call_without_an_answer_stays_unknown_after_the_stop(world: World) -> None:
    run_id, wait = world.run_to_wait()
    records = Records(run_id)
    world.tell_outside(mode="hang", times=1, execute="never")
    world.approve(wait)
    world.wait_held("wiki")
    world.stop(run_id)
    wait_until(lambda: records.run.status == "STOPPING", "the worker adopts the stop")

    world.tell_outside(mode="ok")  # the connection is cut without an answer
    world.wait_status(run_id, "CANCELLED")

    call = records.call(POST)
    assert (call.status, call.attempts, call.blocking) == ("UNCERTAIN", 1, True)
    assert records.result(call) is None
    assert records.reports[1] == (2, "wiki", "UNCERTAIN")
    assert records.budget(call) == [(1, "RESERVE", 1), (1, "HOLD_UNKNOWN", 1)]
    assert records.stop_request.status == "SETTLED"
    assert records.phases[-1] == ("STOPPED", 2)
