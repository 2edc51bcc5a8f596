"""X07: a step that kills every worker that tries it. The run is held with the list of who was lost; the others go on."""

import pytest

from runs.models import Refusal
from runtime.services import Resumed, run_resume
from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = [pytest.mark.process, pytest.mark.matrix]

READ = "fetch_reference"
LIMIT = 5


def test_a_step_that_always_kills_its_worker_holds_its_run_alone(world: World) -> None:
    killed = world.kill_at("after_attempt_commit", READ)
    run_id = world.start_run()
    for lost in range(LIMIT + 1):
        killed.wait()
        for hit in world.stack.fault_dir.glob("*.hit.*"):
            hit.unlink()
        if lost < LIMIT:
            killed = world.kill_at("after_attempt_commit", READ)
    held = world.wait_status(run_id, "HELD")

    records = Records(run_id)
    assert (held.hold_reason, held.takeovers, records.lease.owner) == ("TAKEOVER_LIMIT", LIMIT + 1, None)
    read = records.call(READ)
    assert [outcome for outcome, _, _ in records.tries(read)] == ["NO_RESPONSE"] * (LIMIT + 1)
    refusal = Refusal.objects.get(run_id=run_id, kind="TAKEOVER_LIMIT")
    assert [lost["sending"] for lost in refusal.detail["lost"]] == [f"{READ}/sheet"] * (LIMIT + 1)
    assert world.readings(read) == 0

    other, wait = world.run_to_wait()
    world.approve(wait)
    world.wait_status(other, "COMPLETED")
    assert Records(run_id).run.status == "HELD"

    resumed = run_resume(actor=world.person(), run_id=run_id, reason="the machine was repaired")
    assert isinstance(resumed, Resumed)
    world.approve(world.open_wait(run_id))
    world.wait_status(run_id, "COMPLETED")
    assert (read.id, world.readings(read)) == (records.call(READ).id, 1)
