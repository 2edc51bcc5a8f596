"""The checker can fail: each planted fault breaks the sentence that forbids it."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from django.db import connection, transaction

from tests.scenarios.invariants import INVARIANTS, broken_invariants, outside_broken
from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process

CALL = "(SELECT id FROM receipts_toolcall WHERE run_id = %(completed)s AND tool = 'publish_report')"
PLANTED: dict[str, str] = {
    "revisions have no gap and each names its parent's digest":
        "DELETE FROM checkpoints_checkpoint WHERE run_id = %(completed)s AND revision = 5",
    "the head is the newest revision":
        "UPDATE checkpoints_head SET revision = revision - 1 WHERE run_id = %(completed)s",
    "revisions carry fences that never fall and were once held":
        "UPDATE checkpoints_checkpoint SET fence = 9 WHERE run_id = %(completed)s AND revision = 5",
    "a call is settled exactly when it has its one result":
        f"DELETE FROM receipts_result WHERE tool_call_id = {CALL}",
    "a call that has its result gains no attempt":
        "INSERT INTO receipts_attempt (tool_call_id, attempt_no, fence, authorised_by) "
        f"VALUES ({CALL}, 2, 2, 'nobody')",
    "attempts are numbered without a gap and counted":
        f"UPDATE receipts_attempt SET attempt_no = 2 WHERE tool_call_id = {CALL}",
    "at most one attempt of a receipt has no outcome or succeeded":
        "INSERT INTO receipts_attempt (tool_call_id, attempt_no, fence, authorised_by) "
        f"VALUES ({CALL}, 2, 2, 'nobody')",
    "a run that waits has nothing on the wire":
        "UPDATE receipts_modelcall SET status = 'DISPATCHED', response_digest = NULL, sealed_at = NULL, sealed_fence = NULL WHERE run_id = %(waiting)s",
    "an attempt is open exactly while its receipt is dispatched":
        f"UPDATE receipts_attempt SET outcome = NULL, finished_at = NULL WHERE tool_call_id = {CALL}",
    "a live result was written under the fence of the attempt that gave it, or one that its holder raised itself":
        f"UPDATE receipts_result SET fence = 1 WHERE tool_call_id = {CALL}",
    "a sealed turn was sealed under the fence of the attempt that gave it, or one that its holder raised itself":
        "UPDATE receipts_modelcall SET sealed_fence = 7 WHERE run_id = %(completed)s AND turn_no = 2",
    "a successful call with an effect has exactly one effect row, others have none":
        f"DELETE FROM receipts_effect WHERE tool_call_id = {CALL}",
    "a reused result is that of another call of the lineage, and nothing was sent for it":
        f"UPDATE receipts_result SET source = 'REUSED' WHERE tool_call_id = {CALL}",
    "an outside publication says what its call says":
        f"UPDATE receipts_publication SET status = 'FAILED' WHERE tool_call_id = {CALL}",
    "an intent is claimed by at most one live call of a lineage":
        f"UPDATE receipts_toolcall SET intent_key = (SELECT intent_key FROM receipts_toolcall WHERE id = {CALL}) "
        "WHERE run_id = %(completed)s AND tool = 'send_answer_part'",
    "budget columns are the sums of their entries":
        "UPDATE runs_allowance SET spent[2] = spent[2] + 1 WHERE run_id = %(completed)s",
    "every attempt reserved its budget":
        f"DELETE FROM runs_budgetentry WHERE receipt_id = {CALL}",
    "the lease is free exactly when no worker continues the run":
        "UPDATE runs_lease SET owner = 'x', expires_at = now() WHERE run_id = %(waiting)s",
    "transitions form one chain that ends at the status":
        "UPDATE runs_runtransition SET to_status = 'HELD' WHERE run_id = %(completed)s AND to_status = 'WAITING'",
    "a run is taken over as often as it says":
        "UPDATE runs_run SET takeovers = 1 WHERE id = %(completed)s",
    "nothing is sent after a stop was accepted":
        "UPDATE runs_controlrequest SET accepted_at = accepted_at - interval '1 hour' WHERE run_id = %(stopped)s",
    "an ended run has nothing under way":
        "UPDATE runs_allowance SET reserved[3] = 1 WHERE run_id = %(completed)s",
    "a waiting run has a wait that is open, or a child that has not ended":
        "UPDATE approvals_wait SET status = 'SUPERSEDED' WHERE run_id = %(waiting)s",
    "a decision saw exactly what its wait is bound to":
        "UPDATE approvals_decision SET seen_revision = 1 FROM approvals_wait w "
        "WHERE w.id = wait_id AND w.run_id = %(completed)s",
    "a consumed wait was decided, and its wakeup was consumed under a fence":
        "UPDATE runs_wakeup SET status = 'PENDING', consumed_fence = NULL WHERE run_id = %(completed)s",
    "a call that needs approval was sent only after its approval, or again by a person":
        "UPDATE approvals_decision SET verdict = 'REJECT' FROM approvals_wait w "
        "WHERE w.id = wait_id AND w.run_id = %(completed)s",
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(shared_world: World) -> dict[str, UUID]:
    """A run that completed, one that was stopped and one that waits."""
    shared_world.tidy()
    shared_world.start_processes()
    completed, stopped, waiting = (shared_world.start_run() for _ in range(3))
    for run_id in (completed, stopped, waiting):
        shared_world.open_wait(run_id)
    shared_world.finish(completed)
    shared_world.stop(stopped)
    return {"completed": completed, "stopped": stopped, "waiting": waiting}


def test_each_sentence_has_a_planted_fault() -> None:
    assert PLANTED.keys() == INVARIANTS.keys()


@pytest.mark.parametrize("sentence", PLANTED)
def test_a_planted_fault_breaks_its_sentence(world: World, runs: dict[str, UUID], sentence: str) -> None:
    assert not broken_invariants()
    with planted(PLANTED[sentence], runs):
        assert sentence in broken_invariants()


def test_executions_that_nobody_authorised_are_found(world: World, runs: dict[str, UUID]) -> None:
    key = Records(runs["completed"]).call("publish_report").idempotency_key
    unsent = Records(runs["waiting"]).call("publish_report").idempotency_key
    assert not outside_broken({"wiki": {"keys": {key: 1}}})
    assert outside_broken({"wiki": {"keys": {key: 2}}}).keys() == {
        "the wiki executed no more than was sent",
        "without a person's RETRY the wiki executed once",
    }
    assert outside_broken({"wiki": {"keys": {unsent: 1}}}).keys() == {"every execution on the wiki joins to an attempt"}


@contextmanager
def planted(fault: str, runs: dict[str, UUID]) -> Iterator[None]:
    """The fault, past the guards of the database, and away again."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(fault, runs)
        yield
        transaction.set_rollback(True)
