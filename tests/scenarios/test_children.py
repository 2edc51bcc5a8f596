"""A run with a child, on real processes: what becomes of both when a worker dies, and when somebody stops them (A-161, F13)."""

from uuid import UUID

import pytest

from receipts.models import Reconciliation
from runs.models import Budget, BudgetEntry, ControlRequest, Run
from runtime.services import Reconciled
from tests.scenarios.agents import AWAIT, CARVED, SPAWN
from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

POST, STEP = "publish_report", "publish_report/overlap-v2"


def child_of(run_id: UUID) -> Run:
    """The one child of a run, once it is there."""
    return wait_until(lambda: Run.objects.filter(parent_run_id=run_id).first(), "the child is admitted")  # type: ignore[return-value]


def child_waits(world: World, run_id: UUID) -> Records:
    """Wait until the child asks for its approval and the parent waits for the child; the child's records."""
    child = child_of(run_id)
    world.open_wait(child.id)
    world.wait_status(run_id, "WAITING")
    assert Records(run_id).transitions[-1][:2] == ("WAITING", "CHILD_LIVES")
    assert Records(run_id).lease.owner is None
    return Records(child.id)


def carved(run_id: UUID, child_id: UUID) -> list[tuple[str, str, int]]:
    """The movements of the parent's budget for a child: (unit, kind, amount)."""
    rows = BudgetEntry.objects.filter(run_id=run_id, receipt_id=child_id).order_by("kind")
    return sorted((unit, row.kind, amount) for row in rows for unit, amount in row.amounts.items())


def spent(run_id: UUID, *units: str) -> list[int]:
    return [Budget.objects.get(run_id=run_id, unit=unit).spent for unit in units]


def settled(child_id: UUID) -> list[tuple[str, str, int]]:
    """The entries of a child in its parent's budget, once it has ended."""
    units = sorted(CARVED)
    return [
        row
        for unit, used in zip(units, spent(child_id, *units), strict=True)
        for row in ((unit, "RESERVE", CARVED[unit]), (unit, "SETTLE", used))
    ]


def test_a_parent_waits_without_a_worker_and_is_woken_by_the_end_of_its_child(world: World) -> None:
    run_id = world.start_run(agent="family")
    child = child_waits(world, run_id)
    parent = Records(run_id)
    assert carved(run_id, child.run_id) == [(unit, "RESERVE", cap) for unit, cap in sorted(CARVED.items())]
    assert (child.run.origin, child.run.lineage_id, child.run.root_run_id) == ("CHILD", run_id, run_id)
    assert child.run.thread_id != parent.run.thread_id

    world.approve(Records(child.run_id).waits[0])
    world.wait_status(child.run_id, "COMPLETED")
    world.wait_status(run_id, "COMPLETED")

    assert parent.wakeups == [("CHILD", "CONSUMED", 2)]
    assert parent.transitions == [
        ("QUEUED", "ADMITTED", None),
        ("RUNNING", "ACQUIRED", 1),
        ("WAITING", "CHILD_LIVES", 1),
        ("QUEUED", "WOKEN", None),
        ("RUNNING", "ACQUIRED", 2),
        ("COMPLETED", "FINISHED", 2),
    ]
    assert parent.statuses == {f"{SPAWN}/comparison": ("SUCCEEDED", 1), f"{AWAIT}/{child.run_id}": ("SUCCEEDED", 2)}
    assert carved(run_id, child.run_id) == settled(child.run_id)
    assert child.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "PUBLISHED")]
    assert parent.reports == []
    assert world.executions(child.call(POST)) == 1


@pytest.mark.parametrize(
    ("point", "subject", "tries"),
    [
        ("inside_result_tx", SPAWN, ["NO_RESPONSE", "OK"]),
        pytest.param("after_result_commit", SPAWN, ["OK"], marks=pytest.mark.matrix),
    ],
)
def test_a_worker_that_dies_around_the_admission_leaves_one_child(
    world: World, point: str, subject: str, tries: list[str]
) -> None:
    """The child is committed with the result of its call: both are there, or neither, and then the journal says so."""
    killed = world.kill_at(point, subject)
    run_id = world.start_run(agent="family")
    killed.wait()
    parent = Records(run_id)
    assert Run.objects.filter(parent_run_id=run_id).count() == len(tries) % 2

    child = child_waits(world, run_id)
    world.approve(child.waits[0])
    world.wait_status(run_id, "COMPLETED")

    assert Run.objects.filter(parent_run_id=run_id).count() == 1
    assert parent.run.takeovers == 1
    spawned = parent.call(SPAWN)
    assert [outcome for outcome, _, _ in parent.tries(spawned)] == tries
    assert [row.verdict for row in Reconciliation.objects.filter(tool_call=spawned)] == ["NOT_EXECUTED"] * (
        len(tries) - 1
    )
    assert carved(run_id, child.run_id) == settled(child.run_id)
    assert world.executions(child.call(POST)) == 1


def test_a_child_whose_post_is_unknown_holds_itself_and_keeps_its_parent_waiting(world: World) -> None:
    run_id = world.start_run(agent="family")
    child = child_waits(world, run_id)
    killed = world.kill_at("after_send")
    world.approve(child.waits[0])
    killed.wait()
    world.wait_status(child.run_id, "HELD")
    call = child.call(POST)
    wait_until(lambda: world.executions(call) == 1, "the wiki has executed the post")
    parent = Records(run_id)
    assert (parent.run.status, parent.run.takeovers, parent.wakeups) == ("WAITING", 0, [])
    assert (child.run.hold_reason, call.status) == ("UNCERTAIN_CALL", "UNCERTAIN")

    said = world.reconcile(call, "EXECUTED", ref="post-1")
    assert isinstance(said, Reconciled)
    world.wait_status(run_id, "COMPLETED")

    assert child.run.status == "COMPLETED"
    assert parent.wakeups == [("CHILD", "CONSUMED", 2)]
    assert carved(run_id, child.run_id) == settled(child.run_id)
    assert world.executions(call) == 1


def test_a_stop_goes_down_to_a_child_whose_post_is_on_the_wire(world: World) -> None:
    """F13: what was sent lands and is recorded, in the child; nothing else starts, in neither."""
    run_id = world.start_run(agent="family")
    child = child_waits(world, run_id)
    world.tell_outside(mode="hang", times=1)
    world.approve(child.waits[0])
    world.wait_held("wiki")

    accepted = world.stop(run_id)
    assert (accepted.status, accepted.new) == ("SETTLED", True)
    parent = Records(run_id)
    assert parent.run.status == "CANCELLED"
    wait_until(lambda: child.stop_request.status == "ADOPTED", "the child's worker adopts the stop")
    assert (child.run.status, child.statuses[STEP]) == ("STOPPING", ("DISPATCHED", 1))

    world.tell_outside(mode="ok")
    world.wait_status(child.run_id, "CANCELLED")

    stop, cascaded = parent.stop_request, ControlRequest.objects.get(run_id=child.run_id)
    assert (cascaded.cascade_of_id, cascaded.status, cascaded.adopted_fence) == (stop.id, "SETTLED", 2)
    assert (stop.status, stop.adopted_at) == ("SETTLED", None)
    call = child.call(POST)
    assert (child.statuses[STEP], child.result(call), child.effects(call)) == (
        ("SUCCEEDED", 1),
        ("LIVE", True, 1, 2),
        1,
    )
    assert child.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "PUBLISHED")]
    assert child.phases[-1] == ("STOPPED", 2)
    assert parent.statuses[f"{AWAIT}/{child.run_id}"][0] == "CANCELLED"
    wait_until(lambda: carved(run_id, child.run_id) == settled(child.run_id), "the parent's budget is settled")
    assert Budget.objects.filter(run_id=run_id).exclude(reserved=0).count() == 0
    assert world.executions(call) == 1


@pytest.mark.matrix
def test_a_family_outlives_every_process_that_worked_on_it(world: World) -> None:
    """The child's worker dies, then all workers and the clock: each run goes on from its own rows (D-042)."""
    run_id = world.start_run(agent="family")
    child = child_waits(world, run_id)
    killed = world.kill_at("before_attempt_commit", POST)
    world.approve(child.waits[0])
    killed.wait()
    world.stop_beat()
    while world.workers:
        world.kill_worker(0)
    world.start_processes()

    world.wait_status(run_id, "COMPLETED")

    assert child.run.status == "COMPLETED"
    assert (child.run.takeovers, Records(run_id).run.takeovers) == (1, 0)
    assert carved(run_id, child.run_id) == settled(child.run_id)
    assert world.executions(child.call(POST)) == 1
