"""The head and the lease, moved by direct SQL."""

from pathlib import Path
from uuid import UUID

import pytest
from django.db import DatabaseError
from django.utils import timezone

from approvals.states import LIVE_WAIT, WaitStatus
from runs.models import Lease
from tests.engine.engine import sql, sql_past_triggers
from tests.engine.guards.rows import DIGEST, MOVE_HEAD, OTHER_DIGEST, Told, refused
from tests.engine.races import undone
from tests.written import made

# ── the head ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("revision", [1, 4, 5, 7, 8])
def test_a_head_moves_by_exactly_one(told: Told, revision: int) -> None:
    run = told.run_with_head_in("READY_TO_DECIDE")
    refused("moves by exactly one", MOVE_HEAD, revision, "READY_TO_DECIDE", "CURSOR", run.id)


@pytest.mark.parametrize("status", WaitStatus)
def test_a_head_is_frozen_exactly_while_a_wait_is_live(told: Told, status: str) -> None:
    run = told.run_with_head_in("AWAITING_APPROVAL")
    told.another_wait(status, run_id=run.id)
    if status in LIVE_WAIT:
        refused("frozen while a wait is live", MOVE_HEAD, 6, "AWAITING_TOOL_RESULT", "CURSOR", run.id)
        refused("frozen while a wait is live", MOVE_HEAD, 6, "AWAITING_APPROVAL", "INTENT", run.id)
    else:
        sql(MOVE_HEAD, 6, "AWAITING_TOOL_RESULT", "CURSOR", run.id)


@pytest.mark.parametrize(("revision", "phase"), [(2, "READY_TO_DECIDE"), (1, "DECISION_RECORDED"), (0, "FINISHED")])
def test_a_first_head_is_revision_one_ready_to_decide(told: Told, revision: int, phase: str) -> None:
    run = told.another_run()
    refused(
        "a first head is revision 1",
        "INSERT INTO checkpoints_head (run_id, revision, digest, phase, trigger) VALUES (%s, %s, %s, %s, 'INIT')",
        *(run.id, revision, DIGEST, phase),
    )


def test_a_head_moves_only_to_a_stored_revision_and_its_digest(told: Told) -> None:
    run = told.run_with_head_in("READY_TO_DECIDE")
    move = "UPDATE checkpoints_head SET revision = 6, digest = %s WHERE run_id = %s"
    refused("a head names a revision that is not stored", move, OTHER_DIGEST, run.id)
    sql(move, DIGEST, run.id)
    refused("a head names a revision that is not stored", MOVE_HEAD, 7, "STOPPED", "CURSOR", run.id)


def test_a_head_names_a_revision_that_exists_with_that_digest(told: Told) -> None:
    run = told.another_run()
    refused(
        "checkpoints_head names a revision",
        "INSERT INTO checkpoints_head (run_id, revision, digest, phase, trigger) "
        "VALUES (%s, 1, %s, 'READY_TO_DECIDE', 'INIT')",
        *(run.id, DIGEST),
    )


# ── the lease ────────────────────────────────────────────────────────────────


@pytest.fixture
def lease(told: Told) -> UUID:
    """The run of a lease held by w1 under fence 5."""
    run = told.another_run()
    made(Lease, run=run, fence=5, owner="w1", expires_at=timezone.now())
    run_id: UUID = run.id
    return run_id


def test_a_fence_never_falls(lease: UUID) -> None:
    refused("a fence never falls", "UPDATE runs_lease SET fence = 4 WHERE run_id = %s", lease)
    refused(
        "a fence never falls",
        "UPDATE runs_lease SET fence = 4, owner = NULL, expires_at = NULL WHERE run_id = %s",
        lease,
    )


@pytest.mark.parametrize("fence", [5, 7, 100])
def test_another_owner_raises_the_fence_by_one(lease: UUID, fence: int) -> None:
    refused("by one", "UPDATE runs_lease SET owner = 'w2', fence = %s WHERE run_id = %s", fence, lease)
    sql("UPDATE runs_lease SET owner = 'w2', fence = 6 WHERE run_id = %s", lease)


def test_a_freed_lease_keeps_its_fence_for_the_next_owner(lease: UUID) -> None:
    sql("UPDATE runs_lease SET owner = NULL, expires_at = NULL WHERE run_id = %s", lease)
    take = "UPDATE runs_lease SET owner = 'w1', expires_at = clock_timestamp(), fence = %s WHERE run_id = %s"
    refused("by one", take, 5, lease)
    sql(take, 6, lease)


def test_an_owner_has_an_expiry_and_a_fence_is_not_negative(told: Told, lease: UUID) -> None:
    refused("lease_owner_has_expiry", "UPDATE runs_lease SET expires_at = NULL WHERE run_id = %s", lease)
    refused("lease_owner_has_expiry", "UPDATE runs_lease SET owner = NULL WHERE run_id = %s", lease)
    insert = "INSERT INTO runs_lease (run_id, fence) VALUES (%s, -1)"
    refused("not in a first state", insert, told.another_run().id)


@pytest.mark.parametrize("what", ["a call", "a turn"])
def test_a_wait_opens_only_while_nothing_of_its_run_is_on_the_wire(told: Told, what: str) -> None:
    """T21, T37: what a step has sent has come back before anybody is asked; nothing effectful comes before the wait in it."""
    with undone():
        told.another_wait(tool_call=told.another_call("AWAITING_APPROVAL"))
    if what == "a call":
        told.another_call("DISPATCHED")
    else:
        sql_past_triggers(
            "UPDATE receipts_modelcall SET status = 'DISPATCHED', response_digest = NULL, sealed_at = NULL"
        )
    with pytest.raises(DatabaseError, match="nothing of its run is on the wire"), undone():
        told.another_wait(tool_call=told.another_call("AWAITING_APPROVAL"))


def test_a_step_that_opens_a_wait_sends_nothing() -> None:
    """A-097: waits are opened in one module, which has no way to a tool or a model."""
    root = Path(__file__).resolve().parents[3] / "runtime"
    opens = [file for file in root.rglob("*.py") if "wait_open(" in file.read_text()]
    assert [file.name for file in opens] == ["route.py"]
    assert not any(name in opens[0].read_text() for name in ("runtime.hosts", "try_tool", "try_model", "gateway"))
