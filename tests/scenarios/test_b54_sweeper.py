"""B54: the sweeper is killed in the middle of a sweep, and the next sweep does what is left."""

import pytest

from runs import wakeups
from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process


def test_the_next_sweep_finds_what_a_killed_one_left(world: World) -> None:
    killed = world.kill_at("during_sweep", "hint")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wakeups, "_send", lambda *_: None)  # the hint is lost: only a sweep can find the run
        run_id = world.start_run()
    killed.wait()
    world.open_wait(run_id)
    assert Records(run_id).run.takeovers == 0
