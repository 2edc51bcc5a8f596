"""The head moves by compare and swap: one winner per revision, and the loser is told what it lost to."""

from functools import partial
from itertools import product
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from checkpoints.models import Checkpoint, Head, SaveAttempt
from checkpoints.selectors import load_head
from checkpoints.services import head_lock, prepare, proved, refused_save_record, snapshot_save
from checkpoints.statements import Candidate, save_params
from checkpoints.states import NotSaved, Phase, Saved, Trigger
from runs.leases import lease_acquire
from runs.models import Refusal
from runtime import statements as steps
from runtime.statements import write
from tests.contract.refusals import refused
from tests.contract.store import Store, Worker, stored
from tests.engine.engine import added, counts, expire_lease, sql
from tests.engine.races import Aside, together, uncommitted, undone


def lost(outcome: Saved | NotSaved) -> NotSaved:
    assert isinstance(outcome, NotSaved), outcome
    return outcome


def test_a_save_moves_the_head_by_one(worker: Worker) -> None:
    outcome = worker.save()
    assert outcome.revision == 2
    assert Head.objects.get(run=worker.run).digest == outcome.digest


def test_of_two_saves_from_one_revision_the_second_is_told_which_revision_won(worker: Worker) -> None:
    first, second = worker.prepared(worker.next()), worker.prepared(worker.next())
    assert isinstance(worker.send(first), Saved)
    outcome = lost(worker.send(second))
    assert (outcome.kind, outcome.expected, outcome.actual, outcome.path) == ("VERSION_CONFLICT", 1, 2, "$.revision")
    assert outcome.save_id == second.save_id


def test_a_lost_save_leaves_no_revision(worker: Worker) -> None:
    first, second = worker.prepared(worker.next()), worker.prepared(worker.next())
    worker.send(first)
    worker.send(second)
    assert Checkpoint.objects.filter(run=worker.run).count() == 2
    assert not Checkpoint.objects.filter(save_id=second.save_id).exists()


def test_a_lost_save_is_recorded_without_its_content(worker: Worker) -> None:
    worker.send(worker.prepared(worker.next()))
    outcome = lost(worker.send(worker.prepared(worker.next(next_node="secret"))))
    with transaction.atomic():
        refused_save_record(outcome, tenant_id=worker.run.tenant_id, run_id=worker.run.id, fence=1)
    row, refusal = SaveAttempt.objects.get(run=worker.run), Refusal.objects.get(run=worker.run)
    assert (row.save_id, row.status, row.kind) == (outcome.save_id, "NOT_SAVED", "VERSION_CONFLICT")
    assert (refusal.expected_revision, refusal.actual_revision, refusal.subject_id) == (1, 2, outcome.save_id)
    assert "secret" not in str(vars(row)) + str(vars(refusal))


@pytest.mark.parametrize("revision", [1, 3, 4, 2**31 - 2])
def test_a_revision_that_does_not_follow_the_head_is_refused(worker: Worker, revision: int) -> None:
    prepared = worker.prepared(worker.next(revision=revision))
    assert lost(worker.send(prepared)).kind == "VERSION_CONFLICT"
    assert load_head(worker.run).revision == 1


def test_the_right_revision_after_another_digest_is_refused(worker: Worker) -> None:
    """Same number, another history: the digest is part of what is compared."""
    prepared = worker.prepared(worker.next(parent_digest="a" * 64))
    assert lost(worker.send(prepared)).kind == "VERSION_CONFLICT"


def test_of_many_saves_at_once_one_wins_and_the_chain_has_no_fork(worker: Worker) -> None:
    """B43."""
    prepared = [worker.prepared(worker.next(next_node=f"n{n}")) for n in range(8)]
    outcomes = together(*(partial(worker.send, one) for one in prepared))
    assert [type(outcome) for outcome in outcomes].count(Saved) == 1
    rows = list(Checkpoint.objects.filter(run=worker.run).order_by("revision"))
    assert [row.revision for row in rows] == [1, 2]
    assert rows[1].parent_digest == rows[0].digest


def test_a_save_that_waits_for_another_is_told_that_it_lost(worker: Worker) -> None:
    first, second = worker.prepared(worker.next()), worker.prepared(worker.next())
    with uncommitted():
        worker.send(first)
        late = Aside(partial(worker.send, second))
        late.wait_blocked()
    assert lost(late.result()).actual == 2


def test_a_save_that_waits_for_one_that_is_rolled_back_wins(worker: Worker) -> None:
    first, second = worker.prepared(worker.next()), worker.prepared(worker.next())
    with undone():
        worker.send(first)
        late = Aside(partial(worker.send, second))
        late.wait_blocked()
    assert isinstance(late.result(), Saved)
    assert Head.objects.get(run=worker.run).digest == second.digest


def test_a_save_that_is_rolled_back_leaves_nothing(worker: Worker) -> None:
    with undone():
        worker.send(worker.prepared(worker.next()))
    assert load_head(worker.run).revision == 1
    assert Checkpoint.objects.filter(run=worker.run).count() == 1


def test_a_lost_save_can_be_derived_anew_from_the_head(worker: Worker) -> None:
    worker.send(worker.prepared(worker.next(next_node="winner")))
    assert isinstance(worker.send(worker.prepared(worker.next(next_node="loser"))), NotSaved)
    worker.position = load_head(worker.run)
    assert worker.save(next_node="loser").revision == 3
    nodes = Checkpoint.objects.filter(run=worker.run).order_by("revision").values_list("next_node", flat=True)
    assert list(nodes) == ["think", "winner", "loser"]


def test_a_taker_goes_on_from_the_head_and_not_from_what_was_under_way(store: Store, worker: Worker) -> None:
    under_way = worker.prepared(worker.next(next_node="lost"))
    expire_lease(worker.run.id)
    taker = store.worker(worker.run, "w2")
    taker.save(next_node="kept")
    with transaction.atomic():
        head_lock(worker.run.id)
        assert isinstance(snapshot_save(under_way, fence=1), NotSaved)
    assert load_head(worker.run).snapshot.next_node == "kept"


# ── the same in the steps ──


@pytest.mark.parametrize("step", ["SEAL_TURN", "DISPATCH_CALLS", "RECORD_READ"])
def test_a_step_on_a_head_that_has_moved_writes_nothing(worker: Worker, step: str) -> None:
    call = worker.new_call(send=step == "RECORD_READ")
    if step == "SEAL_TURN":
        worker.ask()
    else:
        worker.turn_with(call)
    keep = {Phase.READY_TO_DECIDE: "CURSOR"}.get(Phase(worker.position.snapshot.phase), Trigger.INTENT)
    moved = worker.prepared(worker.next(worker.position.snapshot.phase), Trigger(keep))
    assert isinstance(worker.send(moved), Saved)
    before = sql("SELECT count(*) FROM receipts_attempt"), Checkpoint.objects.filter(run=worker.run).count()
    acts: dict[str, Any] = {
        "SEAL_TURN": lambda: worker.seal(call),
        "DISPATCH_CALLS": lambda: worker.dispatch(call),
        "RECORD_READ": lambda: worker.record(call, {"v": 1}),
    }
    written = acts[step]()
    assert (written.held, written.done) == (True, False)
    assert (sql("SELECT count(*) FROM receipts_attempt"), Checkpoint.objects.filter(run=worker.run).count()) == before
    assert load_head(worker.run).digest == moved.digest


def test_a_result_whose_revision_lost_can_be_stored_alone(worker: Worker) -> None:
    """T11."""
    call = worker.new_call()
    worker.turn_with(call)
    worker.send(worker.prepared(worker.next(worker.position.snapshot.phase), Trigger.INTENT))
    assert not worker.record(call, {"v": 1}).done
    assert worker.record_alone(call, {"v": 1}).done
    assert (stored(call).status, load_head(worker.run).revision) == ("SUCCEEDED", 3)


def test_without_the_condition_on_the_head_two_saves_would_both_move_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the compare is for: the last line of defence is the database, which stores a revision once."""
    careless = steps.SEAL_TURN.replace("AND h.revision = %(ck_revision)s - 1 AND h.digest = %(ck_parent)s", "")
    assert careless != steps.SEAL_TURN
    monkeypatch.setattr(steps, "SEAL_TURN", careless)
    worker.ask()
    call = worker.new_call(send=False)
    worker.send(worker.prepared(worker.next()))
    assert "checkpoint_revision_once" in refused(lambda: worker.seal(call))


# ── what the database holds of it ──


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("revision = revision + 2", "a head moves by exactly one"),
        ("revision = revision - 1", "a head moves by exactly one"),
        ("revision = revision", "a head moves by exactly one"),
        ("revision = revision + 1, phase = 'FINISHED'", "illegal phase move"),
    ],
)
def test_the_database_refuses_any_other_move(worker: Worker, change: str, said: str) -> None:
    assert said in refused(lambda: sql(f"UPDATE checkpoints_head SET {change} WHERE run_id = %s", worker.run.id))


def test_a_head_can_not_name_a_revision_that_is_not_stored(worker: Worker) -> None:
    assert refused(
        lambda: sql(
            "UPDATE checkpoints_head SET revision = 2, digest = repeat('a', 64), phase = 'DECISION_RECORDED' "
            "WHERE run_id = %s",
            worker.run.id,
        )
    )


def test_a_head_is_frozen_while_a_wait_is_live(worker: Worker) -> None:
    call = worker.new_call(effect="NON_IDEMPOTENT", send=False)
    worker.turn_with(call)
    worker.open_wait(call)
    prepared = worker.prepared(worker.next(Phase.AWAITING_TOOL_RESULT))
    assert "frozen while a wait is live" in refused(lambda: worker.send(prepared))


def test_a_revision_number_is_given_once(worker: Worker) -> None:
    worker.save()
    row = Checkpoint.objects.get(run=worker.run, revision=2)
    row.pk = None
    assert refused(row.save)


@pytest.mark.parametrize(("held", "newest", "follows"), list(product((True, False), repeat=3)))
def test_a_step_writes_only_where_lease_version_and_phase_all_hold(
    worker: Worker, held: bool, newest: bool, follows: bool
) -> None:
    """B-022, B-023: the whole truth table; a step that fails one of the three leaves no row."""
    worker.ask()
    now = worker.position.snapshot
    after = now if follows else now.model_copy(update={"phase": Phase.READY_TO_VERIFY})
    draft = worker.next(Phase.DECISION_RECORDED if follows else Phase.FINISHED, turn_no=1)
    prepared = proved(prepare(Candidate(draft, Trigger.CURSOR, after=after)))
    params = worker.seal_params((), b"{}") | save_params(prepared, key_id=worker.key_id)
    if not newest:
        worker.send(worker.prepared(worker.next()))
    if not held:
        expire_lease(worker.run.id)
        assert lease_acquire(run_id=worker.run.id, owner="w2") is not None
    before, head = counts(), Head.objects.get(run=worker.run).digest
    if held and newest and not follows:
        with pytest.raises(DatabaseError, match="illegal phase move"):
            write(steps.SEAL_TURN, params)
        done = False
    else:
        done = write(steps.SEAL_TURN, params).done
    assert done == (held and newest and follows)
    assert (added(before) == {}, Head.objects.get(run=worker.run).digest == head) == (not done, not done)
