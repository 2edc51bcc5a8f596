"""A worker that was asked to stop: whatever is on the wire is finished, nothing new starts, and the run is queued again."""

from uuid import UUID

import pytest
from celery.exceptions import Reject

from receipts.models import Attempt
from runs.models import RunTransition
from runtime import drain
from runtime.drain import drain_begin
from runtime.loop import drive
from runtime.tasks import look, notices, stuck, sweep
from tests.engine.engine import At, Engine, lease_of, open_wait, pass_deadline, run_now
from tests.engine.stops import assert_stopped, causes
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls

POINTS = [
    "after_acquire",
    "after_model_dispatch_commit",
    "after_model_response",
    "after_turn_sealed",
    "after_attempt_commit",
    "after_tool",
    "inside_result_tx",
    "after_result_commit",
    "inside_dispatch_tx",
]


@pytest.fixture(autouse=True)
def fresh_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has not been asked to stop; and so is the next one."""
    monkeypatch.setattr(drain, "_byte", bytearray(1))


def next_worker(run_id: UUID, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drain, "_byte", bytearray(1))
    drive(run_id)


@pytest.mark.parametrize("point", POINTS)
def test_at_every_point_the_run_is_given_back_with_nothing_unknown(
    engine: Engine, at_point: At, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("note", "b")), calls(("look", "c"), ("look", "d")))
    run_id = engine.start()
    engine.hints.clear()
    at_point(point, drain_begin)
    drive(run_id)

    run, lease = run_now(run_id), lease_of(run_id)
    assert (run.status, run.takeovers, lease.owner, engine.hints) == ("QUEUED", 0, None, [run_id])
    assert RunTransition.objects.filter(run_id=run_id).latest("id").cause == "DRAIN"
    assert not Attempt.objects.filter(outcome=None).exists()
    assert not run.tool_calls.filter(status__in=["UNCERTAIN", "DISPATCHED"]).exists()
    assert not run.model_calls.exclude(status="SEALED").exists()
    assert not run.budgets.filter(reserved__gt=0).exists()

    next_worker(run_id, monkeypatch)
    run = run_now(run_id)
    assert (run.status, run.takeovers, causes(run_id).count("DRAIN")) == ("COMPLETED", 0, 1)
    assert sorted(SCRIPT.labels("look") + SCRIPT.labels("note")) == ["a", "b", "c", "d"]
    assert [request.turn_no for request in SCRIPT.requests] == [1, 2, 3, 4]
    assert not broken_invariants()


def test_a_stop_that_came_first_wins(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()

    def stop_and_drain() -> None:
        engine.stop(run_id)
        drain_begin()

    at_point("after_tool", stop_and_drain)
    drive(run_id)
    assert_stopped(run_id)


@pytest.mark.parametrize("message", ["look", "sweep", "notices", "stuck"])
def test_a_message_that_comes_to_a_worker_that_drains_goes_back(engine: Engine, message: str) -> None:
    run_id = engine.start()
    drain_begin()
    takes = {"look": lambda: look(str(run_id)), "sweep": sweep, "notices": notices, "stuck": stuck}
    with pytest.raises(Reject) as rejected:
        takes[message]()
    assert (rejected.value.requeue, run_now(run_id).status) == (True, "QUEUED")


def test_a_sweep_that_drains_leaves_what_is_left_to_the_next_one(
    engine: Engine, at_point: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = engine.run(calls(("once", "a"))), engine.run(calls(("once", "a")))
    for run_id in runs:
        pass_deadline(open_wait(run_id))
    at_point("during_sweep@expire", drain_begin)
    sweep()
    assert [run_now(run_id).status for run_id in runs] == ["QUEUED", "WAITING"]

    monkeypatch.setattr(drain, "_byte", bytearray(1))
    sweep()
    assert [run_now(run_id).status for run_id in runs] == ["QUEUED", "QUEUED"]
