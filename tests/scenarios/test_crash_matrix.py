"""Every fault point: a worker is killed there, or frozen there and woken when others have finished its run.

After each, with an honest operator, the run has completed, the wiki has the post once, and the invariants hold.
"""

import signal
from itertools import product
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from runs.models import Run
from tests.scenarios.records import Records
from tests.scenarios.world import ALDER, APPROVER, BIRCH, World, thaw
from tests.waiting import wait_until

DRAFT, READ, POST = "send_answer_part", "fetch_reference", "publish_report"
ONCE = [
    ("after_acquire", ""),
    ("after_model_dispatch_commit", ""),
    ("after_model_response", ""),
    ("after_turn_sealed", ""),
    ("after_decision_saved", ""),
    ("after_wait_opened", POST),
    ("before_attempt_commit", POST),
    ("inside_dispatch_tx", DRAFT),
    ("inside_dispatch_tx", POST),
    ("after_wake_consumed", POST),
    ("after_send", ""),
    ("after_terminal_commit", ""),
]
AROUND_A_CALL = ("after_attempt_commit", "after_response", "after_tool", "inside_result_tx", "after_result_commit")
EFFECTS = list(product(AROUND_A_CALL, (DRAFT, POST)))
READS = list(product(AROUND_A_CALL, ("read_disclosure", "compute_overlap", READ)))


def named(points: list[tuple[str, str]]) -> list[str]:
    return [f"{point}@{subject}" if subject else point for point, subject in points]


@pytest.mark.process
@pytest.mark.parametrize(("point", "subject"), ONCE + EFFECTS, ids=named(ONCE + EFFECTS))
def test_a_worker_killed_there(world: World, point: str, subject: str) -> None:
    run_id = kill_and_finish(world, point, subject)
    assert_completed_once(world, run_id)


@pytest.mark.matrix
@pytest.mark.parametrize(("point", "subject"), READS, ids=named(READS))
def test_a_worker_killed_around_a_reading(world: World, point: str, subject: str) -> None:
    run_id = kill_and_finish(world, point, subject)
    assert_completed_once(world, run_id)


@pytest.mark.matrix
@pytest.mark.parametrize(("point", "subject"), ONCE + EFFECTS + READS, ids=named(ONCE + EFFECTS + READS))
def test_a_worker_frozen_there_and_woken_later(world: World, point: str, subject: str) -> None:
    frozen = world.freeze_at(point, subject)
    run_id = world.start_run()
    zombie = world.reach(frozen, run_id)
    world.finish(run_id)
    thaw(zombie)
    wait_until(lambda: world.deliveries()[1] == 0, "the woken worker has given up")
    assert_completed_once(world, run_id)


@pytest.mark.matrix
def test_the_process_that_admits_a_run_killed_after_its_commit(world: World, tmp_path: Path) -> None:
    key, files = str(uuid4()), {"a": tmp_path / "alder.csv", "b": tmp_path / "birch.csv"}
    files["a"].write_text(ALDER)
    files["b"].write_text(BIRCH)
    killed = world.kill_at("after_admit", "fund_comparison")
    inputs = [part for name, path in files.items() for part in ("--file", f"{name}={path}")]
    starting = ("runs", "start", "fund_comparison", *inputs, "--key", key, "--as", APPROVER)
    world.stack.manage(*starting, code=-signal.SIGKILL)
    killed.wait()
    run = Run.objects.get(admission_key=key)
    world.finish(run.id)
    assert_completed_once(world, run.id)


@pytest.mark.matrix
@pytest.mark.parametrize("point", ["after_decision_committed", "before_enqueue"])
def test_the_process_that_decides_killed_after_its_commit(world: World, point: str) -> None:
    run_id, wait = world.run_to_wait()
    killed = world.kill_at(point)
    bound = ("--revision", str(wait.checkpoint_revision), "--digest", wait.checkpoint_digest)
    deciding = ("waits", "decide", str(wait.id), "--approve", *bound, "--args-digest", wait.args_digest)
    world.stack.manage(*deciding, "--reason", "read it", "--as", APPROVER, code=-signal.SIGKILL)
    killed.wait()
    world.wait_status(run_id, "COMPLETED")
    assert_completed_once(world, run_id)


def kill_and_finish(world: World, point: str, subject: str) -> UUID:
    killed = world.kill_at(point, subject)
    run_id = world.start_run()
    world.reach(killed, run_id)
    world.finish(run_id)
    return run_id


def assert_completed_once(world: World, run_id: UUID) -> None:
    records = Records(run_id)
    assert records.run.status == "COMPLETED", records.run.end_reason
    assert {status for status, _ in records.statuses.values()} == {"SUCCEEDED"}
    assert len(records.statuses) == 6
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "PUBLISHED")]
    assert set(records.obligations.values()) == {"FULFILLED"}
    assert {refusal for refusal, _ in records.refusals} <= {
        "STALE_FENCE",
        "LEASE_EXPIRED",
        "LATE_RESULT",
        "UNCERTAIN_CALL",
    }
    assert world.executions(records.call(POST)) == 1
    assert 1 <= world.readings(records.call(READ)) <= records.call(READ).attempts
