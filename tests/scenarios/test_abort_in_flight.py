"""A tenant is aborted while a call with an effect is on the wire. It lands all the same, and that is evidence, not a result."""

import pytest

from accounts.states import Actor
from receipts.selectors import late_answers
from runs.states import ScopeKind
from runtime.services import ScopeState, named_scope, scope_end, scope_stop
from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

POST = "publish_report"


def test_what_was_on_the_wire_may_land_and_is_not_taken_for_a_result(world: World) -> None:
    run_id, wait = world.run_to_wait()
    records = Records(run_id)
    world.tell_outside(mode="hang", times=1)
    world.approve(wait)
    world.wait_held("wiki")

    actor: Actor = world.person()
    scope = named_scope(actor=actor, kind=ScopeKind.TENANT)
    stopped = scope_stop(actor=actor, scope=scope, reason="it must end now", aborts=True)
    assert isinstance(stopped, ScopeState), stopped
    call = records.call(POST)
    assert (records.run.status, call.status, call.attempts) == ("CANCELLED", "UNCERTAIN", 1)
    assert records.transitions[-2:] == [("STOPPING", "STOP_ADOPTED", 3), ("CANCELLED", "ABORTED", 3)]
    assert records.lease.owner is None

    world.tell_outside(mode="ok")  # it answers now
    wait_until(lambda: late_answers(call), "the answer is kept as evidence")
    assert [row.detail["outcome"] for row in late_answers(call)] == ["OK"]
    assert (records.call(POST).status, records.result(call), records.effects(call)) == ("UNCERTAIN", None, 0)
    assert world.executions(call) == 1
    assert records.budget(call) == [(1, "RESERVE", 1), (1, "HOLD_UNKNOWN", 1)]

    lifted = scope_end(actor=actor, control_id=stopped.control_id, reason="it is over")
    assert isinstance(lifted, ScopeState)
    assert world.start_run() != run_id
