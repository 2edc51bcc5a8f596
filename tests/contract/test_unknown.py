"""A commit whose answer is lost: it is looked up by its id, under a higher fence, and never assumed or repeated."""

from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction

from accounts.errors import Refused
from accounts.selectors import actor_named
from approvals.models import Decision, Wait
from approvals.services import Decided, Seen, Voted
from approvals.states import DecisionVerdict
from checkpoints.models import Checkpoint, SaveAttempt
from checkpoints.selectors import load_head, unknown_saves
from checkpoints.services import PROBE_LOCK_SECONDS, head_lock, head_lock_soon, saves_probe, unknown_save_record
from checkpoints.statements import Prepared, save_params
from checkpoints.states import Phase, Saved
from console import settings_test
from receipts.models import Attempt
from receipts.selectors import blocking_unknown, open_attempts, open_turn
from receipts.services import attempt_find, attempt_lost
from runs.errors import connection_lost
from runs.leases import lease_acquire, lease_given_back, lease_lock, lease_refence
from runs.models import Run
from runs.selectors import run_by_admission
from runs.services import budget_hold_unknown, budget_settle_held, run_move
from runs.states import RunStatus
from runtime import statements as steps
from runtime.services import wait_decide
from runtime.statements import write
from tests.contract.refusals import REFUSALS, refused
from tests.contract.store import Store, Worker, stored
from tests.engine.engine import expire_lease, lease_of, sql
from tests.engine.proxy import Lost, Proxy, commit, proxied, statement, through
from tests.engine.races import Aside, terminate, uncommitted


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxied(settings_test.SOCKET_DIR) as proxy:
        yield proxy


def probe(worker: Worker) -> None:
    """Raise the fence, then look (ruling 29)."""
    with transaction.atomic():
        again = lease_refence(worker.holding)
    assert again is not None
    worker.holding = again
    with worker.held():
        head_lock_soon(worker.run.id)
        saves_probe(run_id=worker.run.id, fence=again.fence)


def send_and_lose(worker: Worker, proxy: Proxy, lost: Lost) -> Prepared:
    """Save, and lose the answer to the commit or its request. Records that nobody knows."""
    prepared = worker.prepared(worker.next())

    def send() -> None:
        connection.ensure_connection()
        proxy.cut(commit, lost)
        worker.send(prepared)

    with pytest.raises(OperationalError) as raised:
        through(proxy, send)
    assert connection_lost(raised.value)
    assert proxy.happened.wait(20)
    unknown_save_record(prepared, fence=worker.holding.fence)
    return prepared


# ── saves ──


@pytest.mark.parametrize(("lost", "status"), [("answer", "SAVED"), ("request", "NOT_SAVED")])
def test_a_save_whose_answer_was_lost_is_found_or_not_by_its_id(
    worker: Worker, proxy: Proxy, lost: Lost, status: str
) -> None:
    prepared = send_and_lose(worker, proxy, lost)
    assert unknown_saves(worker.run.id)
    probe(worker)
    row = SaveAttempt.objects.get(save_id=prepared.save_id)
    assert (row.status, row.resolved_fence, row.kind) == (status, 2, None)
    assert Checkpoint.objects.filter(save_id=prepared.save_id).exists() == (status == "SAVED")
    assert not unknown_saves(worker.run.id)


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_after_the_probe_the_run_goes_on_from_its_head(worker: Worker, proxy: Proxy, lost: Lost) -> None:
    send_and_lose(worker, proxy, lost)
    probe(worker)
    worker.position = load_head(worker.run)
    worker.save()
    revisions = list(Checkpoint.objects.filter(run=worker.run).order_by("revision").values_list("revision", flat=True))
    assert revisions == [*range(1, len(revisions) + 1)]


def seal_on_its_way(worker: Worker, proxy: Proxy) -> None:
    """Send the statement that seals a turn, and lose the connection while it is still in a socket."""
    worker.ask()
    prepared = worker.prepared(worker.next(Phase.READY_TO_VERIFY, turn_no=1))
    params = worker.seal_params((), b"{}") | save_params(prepared, key_id=worker.key_id)

    def send() -> None:
        connection.ensure_connection()
        proxy.cut(statement, "both for now")
        write(steps.SEAL_TURN, params)

    with pytest.raises(REFUSALS):
        through(proxy, send)
    assert proxy.happened.wait(20)


def test_a_save_that_was_still_on_its_way_can_not_land_after_the_probe(worker: Worker, proxy: Proxy) -> None:
    """Ruling 29: NOT_SAVED would be a lie without the higher fence."""
    seal_on_its_way(worker, proxy)
    probe(worker)
    proxy.deliver()
    assert load_head(worker.run).revision == 1
    assert worker.run.model_calls.get().status == "DISPATCHED"


def test_without_the_higher_fence_it_would_land_after_the_probe(worker: Worker, proxy: Proxy) -> None:
    """What the higher fence is for: the probe looked, found nothing, and said so."""
    seal_on_its_way(worker, proxy)
    with worker.held():
        head_lock_soon(worker.run.id)
        saves_probe(run_id=worker.run.id, fence=worker.holding.fence)
    assert load_head(worker.run).revision == 1
    proxy.deliver()
    assert load_head(worker.run).revision == 2


def test_a_probe_waits_for_a_save_that_is_still_being_committed(worker: Worker) -> None:
    prepared = worker.prepared(worker.next())
    unknown_save_record(prepared, fence=1)
    with uncommitted():
        worker.send(prepared)
        looking = Aside(partial(probe, worker))
        looking.wait_blocked()
    looking.result()
    assert SaveAttempt.objects.get(save_id=prepared.save_id).status == "SAVED"


def test_a_probe_does_not_wait_for_ever(worker: Worker) -> None:
    unknown_save_record(worker.prepared(worker.next()), fence=1)
    with transaction.atomic():
        head_lock(worker.run.id)
        looking = Aside(partial(probe, worker))
        error = looking.error()
    assert isinstance(error, OperationalError)
    assert not connection_lost(error)
    assert PROBE_LOCK_SECONDS < 15
    assert unknown_saves(worker.run.id)


def test_an_unknown_save_is_recorded_once(worker: Worker) -> None:
    prepared = worker.prepared(worker.next())
    for _ in range(3):
        unknown_save_record(prepared, fence=1)
    row = SaveAttempt.objects.get(run=worker.run)
    assert (row.status, row.expected_revision, row.trigger, row.resolved_at) == ("UNKNOWN", 1, "CURSOR", None)


def test_what_was_resolved_stays_so(worker: Worker) -> None:
    prepared = worker.prepared(worker.next())
    unknown_save_record(prepared, fence=1)
    probe(worker)
    worker.position = load_head(worker.run)
    worker.send(prepared)
    with worker.held():
        saves_probe(run_id=worker.run.id, fence=2)
    assert SaveAttempt.objects.get(save_id=prepared.save_id).status == "NOT_SAVED"


def test_a_probe_of_one_run_resolves_no_other(store: Store) -> None:
    one, other = store.worker(), store.worker()
    for worker in (one, other):
        unknown_save_record(worker.prepared(worker.next()), fence=1)
    probe(one)
    assert (unknown_saves(one.run.id), unknown_saves(other.run.id)) == (False, True)


def test_the_next_holder_can_look_where_the_last_one_could_not(store: Store, worker: Worker) -> None:
    prepared = worker.prepared(worker.next())
    assert isinstance(worker.send(prepared), Saved)
    unknown_save_record(prepared, fence=1)
    expire_lease(worker.run.id)
    taker = store.worker(worker.run, "w2")
    with taker.held():
        head_lock_soon(taker.run.id)
        saves_probe(run_id=taker.run.id, fence=taker.holding.fence)
    assert SaveAttempt.objects.get(save_id=prepared.save_id).status == "SAVED"
    assert taker.position.revision == 2


def test_an_unknown_save_can_not_be_called_saved_without_a_probe(worker: Worker) -> None:
    unknown_save_record(worker.prepared(worker.next()), fence=1)
    row = SaveAttempt.objects.get(run=worker.run)
    assert "save_attempt_refused_or_probed" in refused(
        lambda: SaveAttempt.objects.filter(save_id=row.save_id).update(status="SAVED")
    )


def test_a_session_that_is_ended_in_the_middle_leaves_nothing(worker: Worker) -> None:
    prepared = worker.prepared(worker.next())

    def send_and_die() -> None:
        with transaction.atomic():
            worker.send(prepared)
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    assert isinstance(Aside(send_and_die).error(), OperationalError)
    assert load_head(worker.run).revision == 1


def test_a_session_that_is_ended_while_it_waits_leaves_nothing(worker: Worker) -> None:
    worker.ask()
    with uncommitted():
        lease_lock(worker.holding)
        late = Aside(worker.seal)
        late.wait_blocked()
        terminate(late.pid)
        assert isinstance(late.error(), REFUSALS)
    assert load_head(worker.run).revision == 1


# ── leases ──


def test_a_lease_whose_taking_was_not_answered_is_given_to_nobody_until_it_expires(store: Store, proxy: Proxy) -> None:
    run = store.admit()

    def take() -> None:
        connection.ensure_connection()
        proxy.cut(commit, "answer")
        lease_acquire(run_id=run.id, owner="w1")

    with pytest.raises(OperationalError):
        through(proxy, take)
    assert proxy.happened.wait(20)
    assert lease_of(run.id).owner == "w1"
    assert lease_acquire(run_id=run.id, owner="w1") is None
    expire_lease(run.id)
    assert store.worker(run, "w1").holding.fence == 2


def test_a_lease_that_was_given_back_is_told_from_one_that_was_lost(store: Store) -> None:
    back, lost = store.worker(), store.worker()
    with back.held() as run:
        run_move(run, RunStatus.QUEUED, cause="DRAIN", actor="worker:w1", fence=1)
    expire_lease(lost.run.id)
    store.worker(lost.run, "w2")
    assert (lease_given_back(back.holding), lease_given_back(lost.holding)) == (True, False)
    assert lease_refence(back.holding) is None


def test_a_lease_that_was_given_back_and_taken_again_is_lost(store: Store, worker: Worker) -> None:
    with worker.held() as run:
        run_move(run, RunStatus.QUEUED, cause="DRAIN", actor="worker:w1", fence=1)
    store.worker(worker.run, "w2")
    assert not lease_given_back(worker.holding)


# ── admissions and decisions ──


@pytest.mark.parametrize(("lost", "found"), [("answer", True), ("request", False)])
def test_an_admission_whose_answer_was_lost_is_found_by_its_key_or_can_be_made_again(
    store: Store, proxy: Proxy, lost: Lost, found: bool
) -> None:
    key = str(uuid4())

    def admit() -> None:
        connection.ensure_connection()
        proxy.cut(commit, lost)
        store.admit(key=key)

    with pytest.raises(OperationalError):
        through(proxy, admit)
    assert proxy.happened.wait(20)
    assert (run_by_admission(tenant_id=store.tenant.id, admission_key=key) is not None) == found
    if not found:
        store.admit(key=key)
    assert Run.objects.filter(admission_key=key).count() == 1


def waiting(worker: Worker) -> Wait:
    call = worker.new_call(effect="NON_IDEMPOTENT", send=False)
    worker.turn_with(call)
    wait = worker.open_wait(call)
    with worker.held() as run:
        run_move(run, RunStatus.WAITING, cause="WAIT_OPENED", actor="worker:w1", fence=worker.holding.fence)
    return wait


def decide(wait: Wait) -> Decided | Voted | Refused:
    return wait_decide(
        actor=actor_named(username="ann-north", door="page"),
        wait_id=wait.id,
        verdict=DecisionVerdict.APPROVE,
        seen=Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest),
        reason="I read it",
    )


@pytest.mark.parametrize(("lost", "again"), [("answer", Refused), ("request", Decided)])
def test_a_decision_whose_answer_was_lost_is_there_once_whoever_asks_again(
    worker: Worker, proxy: Proxy, lost: Lost, again: type
) -> None:
    """Commit happened, reply lost: the second try is told of the first, and never counts twice."""
    wait = waiting(worker)

    def send() -> None:
        connection.ensure_connection()
        proxy.cut(commit, lost)
        decide(wait)

    with pytest.raises(OperationalError):
        through(proxy, send)
    assert proxy.happened.wait(20)
    assert isinstance(decide(wait), again)
    assert Decision.objects.filter(wait=wait).count() == 1
    assert worker.run.wakeups.count() == 1


# ── calls and turns ──


def test_an_attempt_of_a_holder_before_is_open_and_can_be_found(store: Store) -> None:
    worker = store.worker()
    call = worker.new_call()
    worker.turn_with(call)
    assert open_attempts(run_id=worker.run.id, before_fence=1) == []
    assert [attempt.tool_call_id for attempt in open_attempts(run_id=worker.run.id, before_fence=2)] == [call.id]


def test_an_attempt_without_an_answer_makes_its_call_uncertain(worker: Worker) -> None:
    call = worker.new_call(effect="NON_IDEMPOTENT")
    worker.turn_with(call)
    attempt_lost(attempt_find(receipt_id=call.id, attempt_no=1), why="no answer")
    unknown = blocking_unknown(run_id=worker.run.id)
    assert unknown is not None
    assert (unknown.id, unknown.status) == (call.id, "UNCERTAIN")


def test_an_uncertain_call_takes_no_result_from_a_step(worker: Worker) -> None:
    """What came after it was called unknown is for a verdict, not for a worker."""
    call = worker.new_call(effect="NON_IDEMPOTENT")
    worker.turn_with(call)
    attempt_lost(attempt_find(receipt_id=call.id, attempt_no=1), why="no answer")
    assert not worker.record_alone(call, {"v": 1}).done
    assert not hasattr(stored(call), "result")


def test_a_turn_without_an_answer_is_open_and_asked_again_as_the_same_turn(worker: Worker) -> None:
    worker.ask()
    assert worker.asked is not None
    attempt_lost(attempt_find(receipt_id=worker.asked, attempt_no=1), why="no answer")
    turn = open_turn(run_id=worker.run.id)
    assert turn is not None
    assert (turn.id, turn.status) == (worker.asked, "UNCERTAIN")
    assert worker.ask(again=True).started == 2
    assert worker.run.model_calls.count() == 1
    assert Attempt.objects.filter(model_call_id=worker.asked).count() == 2


@pytest.mark.parametrize(("happened", "row"), [(True, (0, 0, 1)), (False, (0, 0, 0))])
def test_what_an_unknown_attempt_reserved_is_held_until_somebody_knows(
    worker: Worker, happened: bool, row: tuple[int, int, int]
) -> None:
    call = worker.new_call(effect="NON_IDEMPOTENT")
    worker.turn_with(call)
    budget_hold_unknown(run_id=worker.run.id, receipt_id=call.id, attempt_no=1)
    columns = "SELECT reserved, held_unknown, spent FROM runs_budget WHERE run_id = %s AND unit = 'tool_calls'"
    assert sql(columns, worker.run.id) == [(0, 1, 0)]
    budget_settle_held(run_id=worker.run.id, receipt_id=call.id, last_attempt=1, spent=happened)
    assert sql(columns, worker.run.id) == [row]
