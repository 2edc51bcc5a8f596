"""X11: trace rows deleted, doubled or late before a recovery. Every record ends the same: nothing reads them."""

from collections.abc import Callable

import pytest

from runs.models import TraceEvent
from tests.scenarios.records import Records
from tests.scenarios.test_f01_result_committed import READ, killed_after_the_result
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process


def deleted() -> None:
    TraceEvent.objects.all().delete()


def doubled() -> None:
    rows = list(TraceEvent.objects.all())
    for row in rows:
        row.pk = None
    TraceEvent.objects.bulk_create(rows)


def late() -> None:
    """All that was seen comes after what is seen from now on."""
    rows = list(TraceEvent.objects.all())
    deleted()
    for row in rows:
        row.pk = 10**9 + row.pk
    TraceEvent.objects.bulk_create(rows)


@pytest.mark.parametrize("disturbed", [deleted, doubled, late])
def test_a_recovery_ends_the_same_whatever_became_of_the_trace(world: World, disturbed: Callable[[], None]) -> None:
    run_id = killed_after_the_result(world, "RESUME_IN_PLACE")
    wait_until(TraceEvent.objects.exists, "the workers have noted something")
    disturbed()
    world.approve(world.open_wait(run_id))
    world.wait_status(run_id, "COMPLETED")
    records = Records(run_id)
    assert records.run.takeovers == 1
    read = records.call(READ)
    assert (read.status, records.tries(read)) == ("SUCCEEDED", [("OK", 1, "policy:builtin-1")])
    assert world.readings(read) == 1
    assert [attempts for _, attempts in records.turns] == [1, 1, 1, 1, 1, 2, 1]
