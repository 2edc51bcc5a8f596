"""F08: the same run is delivered eight times at once. One worker takes it, the others find nothing to do."""

import pytest
from django.db import transaction

from tests.scenarios.records import Records
from tests.scenarios.world import POOL, WORKERS, World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

DELIVERIES = 8


def test_one_delivery_takes_the_run(world: World) -> None:
    assert WORKERS * POOL >= DELIVERIES
    world.stop_beat()  # so that no sweep delivers it as well
    wait_until(lambda: world.deliveries()[1] == 0, "the workers are idle")
    before, _ = world.deliveries()
    with transaction.atomic():
        transaction.on_commit(lambda: world.deliver(run_id, DELIVERIES))
        run_id = world.start_run()  # its own hint is one more
    world.open_wait(run_id)
    wait_until(lambda: world.deliveries() == (before + DELIVERIES + 1, 0), "every delivery is worked off")

    records = Records(run_id)
    assert records.transitions == [
        ("QUEUED", "ADMITTED", None),
        ("RUNNING", "ACQUIRED", 1),
        ("WAITING", "WAIT_OPENED", 1),
    ]
    assert records.lease.fence == 1
    assert records.run.takeovers == 0
    assert {attempts for status, attempts in records.statuses.values() if status == "SUCCEEDED"} == {1}
    assert set(records.turns) == {("SEALED", 1)}
    assert records.refusals == []
    assert world.readings(records.call("fetch_reference")) == 1
