"""The statements of a worker's steps, on two live connections: what they write is all or nothing, under the fence."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from secrets import token_hex
from uuid import UUID

import pytest
from django.db import transaction

from approvals.services import wait_expire
from checkpoints.models import Checkpoint, Head, SaveAttempt
from checkpoints.selectors import load_head
from checkpoints.services import prepare, proved, saved, snapshot_save
from checkpoints.statements import Candidate
from checkpoints.states import NotSaved, Trigger
from receipts.models import Attempt, ModelCall, Result
from runs.models import BudgetEntry, Refusal, RunTransition
from runs.states import Holding
from runtime import saving
from runtime import statements as steps
from runtime.loop import drive
from runtime.requeue import requeue_woken
from tests.engine.engine import (
    Engine,
    call_named,
    head_of,
    lease_of,
    open_wait,
    phases,
    run_now,
    sql,
    sql_past_triggers,
)
from tests.engine.held import STATEMENTS, held_worker
from tests.engine.races import together, uncommitted
from tests.engine.stops import tried
from tests.scenarios.invariants import broken_invariants
from tests.scripted import calls
from tests.waiting import wait_until

SAVING = ["SEAL_AND_SEND", "SEAL_TURN", "RECORD_READ", "DISPATCH_CALLS"]
TAKE = (
    "UPDATE runs_lease SET owner = 'w2', fence = fence + 1, expires_at = clock_timestamp() + interval '1 minute' "
    "WHERE run_id = %s"
)
# Each makes the fence of the holder stale.
STALE = {
    "taken over": TAKE,
    "freed": "UPDATE runs_lease SET owner = NULL, expires_at = NULL WHERE run_id = %s",
    "fenced": "UPDATE runs_lease SET fence = fence + 1 WHERE run_id = %s",
    "expired": "UPDATE runs_lease SET expires_at = clock_timestamp() WHERE run_id = %s",
}


def contents() -> dict[str, str]:
    """A digest of every row of every table that a step may touch."""
    tables = sql(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(runs|receipts|checkpoints|approvals)_' "
        "AND relname NOT IN ('runs_lease', 'runs_refusal')"
    )
    query = "SELECT coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM {} t"
    return {table: sql(query.format(table))[0][0] for (table,) in tables}


# ── the fence ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("statement", "how"),
    [*((statement, "taken over") for statement in STATEMENTS), *(("SEAL_AND_SEND", how) for how in list(STALE)[1:])],
)
def test_under_a_stale_fence_a_statement_writes_nothing_at_all(
    engine: Engine, statement: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, gate, worker = held_worker(engine, statement, monkeypatch)
    sql(STALE[how], run_id)
    before = contents()
    gate.open()
    worker.result()
    assert contents() == before


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_that_waited_for_a_taker_writes_nothing_at_all(
    engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its snapshot still shows it as the holder; the row that it locked says otherwise."""
    run_id, gate, worker = held_worker(engine, statement, monkeypatch)
    before = contents()
    with uncommitted():
        sql(TAKE, run_id)
        gate.open()
        worker.wait_blocked()
    worker.result()
    assert contents() == before
    assert lease_of(run_id).owner == "w2"


def without_lock(statement: str) -> str:
    """The same statement, with the fence read and not locked."""
    changed = statement.replace("FOR NO KEY UPDATE),", "),", 1)
    assert changed != statement
    return changed


@pytest.mark.parametrize("statement", [name for name in STATEMENTS if name != "DISPATCH_CALLS"])
def test_without_the_lock_it_would_write_under_a_fence_that_has_passed(
    engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the lock is for: while a taker commits, a statement that only reads the fence writes all the same."""
    run_id, gate, worker = held_worker(engine, statement, monkeypatch, without_lock)
    before = contents()
    with uncommitted():
        sql(TAKE, run_id)
        gate.open()
        wait_until(lambda: contents() != before, "it writes while the taker has not committed")
    worker.result()


# ── the head ─────────────────────────────────────────────────────────────────


def move_head(run_id: UUID) -> None:
    """Another save from the same revision, by somebody who is not the worker."""
    position = load_head(run_now(run_id))
    snapshot = position.snapshot.model_copy(
        update={"revision": position.revision + 1, "parent_digest": position.digest, "nonce": token_hex(16)}
    )
    with transaction.atomic():
        prepared = proved(prepare(Candidate(snapshot, Trigger.INTENT, after=position.snapshot)))
        saved(snapshot_save(prepared, fence=lease_of(run_id).fence))


def watch_refusals(patch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What every table holds where a refused save reaches the owner of the run, before anything is decided."""
    seen: list[dict[str, str]] = []

    def seeing(holding: Holding, outcome: NotSaved) -> None:
        seen.append(contents())
        record(holding, outcome)

    record = saving.record_refused_save
    for module in ("runtime.saving", "runtime.loop.act"):
        patch.setattr(import_module(module), "record_refused_save", seeing)
    return seen


def assert_lost_to(run_id: UUID, winner: Head) -> None:
    """The loser is recorded, and wrote no revision beside the winner's; the run went on from there."""
    attempt = SaveAttempt.objects.get(run_id=run_id)
    refusal = Refusal.objects.get(subject_id=attempt.save_id)
    assert (attempt.status, attempt.kind, attempt.expected_revision) == (
        "NOT_SAVED",
        "VERSION_CONFLICT",
        winner.revision - 1,
    )
    assert (refusal.kind, refusal.expected_revision, refusal.actual_revision) == (
        "VERSION_CONFLICT",
        winner.revision - 1,
        winner.revision,
    )
    assert not Checkpoint.objects.filter(save_id=attempt.save_id).exists()
    assert Checkpoint.objects.get(run_id=run_id, revision=winner.revision).digest == winner.digest
    assert run_now(run_id).status == "COMPLETED"


@pytest.mark.parametrize("statement", SAVING)
def test_of_two_saves_from_one_revision_the_second_saves_nothing(
    engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F09. A turn or a dispatch writes nothing at all; of a result the facts stay, without a revision (T11)."""
    run_id, gate, worker = held_worker(engine, statement, monkeypatch)
    move_head(run_id)
    winner, before, seen = head_of(run_id), contents(), watch_refusals(monkeypatch)
    gate.open()
    worker.result()
    assert_lost_to(run_id, winner)
    assert len(seen) == 1
    changed = {table for table, held in before.items() if seen[0][table] != held}
    facts = {f"receipts_{part}" for part in ("attempt", "toolcall", "result", "effect")}
    assert changed <= (facts | {"runs_allowance", "runs_budgetentry"} if statement == "RECORD_READ" else set())


@pytest.mark.parametrize("statement", SAVING)
def test_a_save_that_waited_for_another_from_the_same_revision_saves_nothing(
    engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, gate, worker = held_worker(engine, statement, monkeypatch)
    with uncommitted():
        move_head(run_id)
        winner = head_of(run_id)
        gate.open()
        worker.wait_blocked()
    worker.result()
    assert_lost_to(run_id, winner)


@pytest.mark.parametrize("statement", SAVING)
def test_a_frozen_head_refuses_the_whole_step(engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that is live, wherever it came from, keeps the head. What is known is kept beside it, and the run is given back."""
    run_id, gate, worker = held_worker(engine, statement, monkeypatch)
    sql_past_triggers(
        "INSERT INTO approvals_wait (id, tenant_id, run_id, tool_call_id, checkpoint_revision, checkpoint_digest, "
        "args_digest, tool_hash, policy_version, policy_rule, opened_fence, deadline) SELECT gen_random_uuid(), "
        "tenant_id, id, gen_random_uuid(), 1, repeat('0', 64), repeat('0', 64), '', '', '', 1, clock_timestamp() "
        "FROM runs_run WHERE id = %s",
        run_id,
    )
    head, dispatched = head_of(run_id), Attempt.objects.count()
    gate.open()
    worker.result()
    assert (head_of(run_id), Attempt.objects.count()) == (head, dispatched)
    assert RunTransition.objects.filter(run_id=run_id).latest("id").cause == "STORE_ERROR"


# ── new work and facts ───────────────────────────────────────────────────────


def take_room(run_id: UUID) -> None:
    sql("UPDATE runs_budget SET cap = 0 WHERE run_id = %s", run_id)


@pytest.mark.parametrize("why", ["stop", "budget"])
def test_a_turn_is_sealed_where_its_call_may_not_start(
    engine: Engine, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 24."""
    run_id, gate, worker = held_worker(engine, "SEAL_AND_SEND", monkeypatch)
    engine.stop(run_id) if why == "stop" else take_room(run_id)
    gate.open()
    worker.result()
    turn, call = ModelCall.objects.get(run_id=run_id, turn_no=1), call_named(run_id, "a")
    assert (turn.status, turn.proposals.get().tool_call, call.attempts) == ("SEALED", call, 0)
    assert (call.status, run_now(run_id).status) == (
        ("CANCELLED", "CANCELLED") if why == "stop" else ("PROPOSED", "HELD")
    )
    assert phases(run_id)[:2] == ["READY_TO_DECIDE", "DECISION_RECORDED"]
    assert not BudgetEntry.objects.filter(receipt_id=call.id).exists()
    assert not call.policy_decisions.exists()


@pytest.mark.parametrize("why", ["stop", "budget"])
def test_a_result_is_stored_where_the_next_turn_may_not_be_asked(
    engine: Engine, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, gate, worker = held_worker(engine, "RECORD_READ", monkeypatch)
    engine.stop(run_id) if why == "stop" else take_room(run_id)
    gate.open()
    worker.result()
    call = call_named(run_id, "a")
    assert (call.status, Result.objects.get(tool_call=call).ok) == ("SUCCEEDED", True)
    assert "TOOL_RESULT_RECORDED" in phases(run_id)
    assert not ModelCall.objects.filter(run_id=run_id, turn_no=2).exists()
    assert list(
        BudgetEntry.objects.filter(receipt_id=call.id, attempt_no=2).order_by("at").values_list("kind", flat=True)
    ) == [
        "RESERVE",
        "SETTLE",
    ]


# ── room in the budget ───────────────────────────────────────────────────────


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_that_waited_for_a_change_of_the_cap_goes_by_the_new_one(
    engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, gate, worker = held_worker(engine, statement, monkeypatch)
    before = tried(run_id)
    with uncommitted():
        take_room(run_id)
        gate.open()
        worker.wait_blocked()
    worker.result()
    assert (tried(run_id), run_now(run_id).hold_reason) == (before, "BUDGET")
    assert sql("SELECT coalesce(sum(reserved), 0) FROM runs_budget WHERE run_id = %s", run_id) == [(0,)]


def test_a_statement_that_waited_for_more_room_uses_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id, gate, worker = held_worker(engine, "SEAL_AND_SEND", monkeypatch)
    take_room(run_id)
    with uncommitted():
        sql("UPDATE runs_budget SET cap = 1000000 WHERE run_id = %s", run_id)
        gate.open()
        worker.wait_blocked()
    worker.result()
    assert run_now(run_id).status == "COMPLETED"


# ── the order of locks ───────────────────────────────────────────────────────


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_begins_with_the_fence(statement: str) -> None:
    """Ruling 37: lease first; each part after it names it, directly or through one that does."""
    text = getattr(steps, statement)
    parts = [part.strip() for part in text.split("\n") if part.strip().endswith("AS (")]
    assert parts[0] == "fence AS ("
    assert text.count("FROM runs_lease") == 1


def test_people_and_workers_that_lock_at_once_never_wait_for_each_other_in_a_ring(engine: Engine) -> None:
    """Acts and steps of every kind at the same instant: nobody is cut off as a deadlock, and what is left is in order."""
    for n in range(6):
        wait = open_wait(engine.run(calls(("once", "a")), calls(("look", "b")), agent="promising"))
        run_id = wait.run_id
        acts: list[Callable[[], object]] = [
            partial(engine.decide, wait, ("APPROVE", "REJECT")[n % 2]),
            partial(engine.revise, run_id, f"goal {n}"),
            partial(engine.release, run_id),
            partial(wait_expire, wait_id=wait.id),
            partial(requeue_woken, run_id),
            partial(drive, run_id),
            partial(drive, run_id),
        ]
        together(*acts, *([partial(engine.stop, run_id)] if n % 4 == 3 else []))
    assert broken_invariants() == {}
