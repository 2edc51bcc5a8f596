"""Under a fence that has passed nothing is written, whatever the act; and nothing is started under a stop or a full budget."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from checkpoints.models import Checkpoint, Head
from receipts.models import Attempt, ModelCall
from runs.models import BudgetEntry
from runs.statements import FENCE
from runtime import statements as steps
from runtime.statements import Written
from tests.contract.store import Store, Worker, stored
from tests.engine.engine import sql
from tests.engine.races import Aside, uncommitted
from tests.waiting import wait_until

TAKE = (
    "UPDATE runs_lease SET owner = 'w2', fence = fence + 1, expires_at = clock_timestamp() + interval '1 minute' "
    "WHERE run_id = %s"
)
# Each makes the fence of the holder stale.
STALE = {
    "taken over": TAKE,
    "given back": "UPDATE runs_lease SET owner = NULL, expires_at = NULL WHERE run_id = %s",
    "fenced": "UPDATE runs_lease SET fence = fence + 1 WHERE run_id = %s",
    "expired": "UPDATE runs_lease SET expires_at = clock_timestamp() WHERE run_id = %s",
}

Act = Callable[[Worker], Callable[[], Written]]


def ask(worker: Worker) -> Callable[[], Written]:
    return worker.ask


def ask_again(worker: Worker) -> Callable[[], Written]:
    worker.ask()
    sql(
        "UPDATE receipts_attempt SET outcome = 'NO_RESPONSE', finished_at = clock_timestamp() WHERE model_call_id = %s",
        worker.asked,
    )
    sql("UPDATE receipts_modelcall SET status = 'UNCERTAIN' WHERE id = %s", worker.asked)
    return lambda: worker.ask(again=True)


def seal_and_send(worker: Worker) -> Callable[[], Written]:
    worker.ask()
    call = worker.new_call()
    return lambda: worker.seal(call)


def seal(worker: Worker) -> Callable[[], Written]:
    worker.ask()
    call = worker.new_call(send=False)
    return lambda: worker.seal(call)


def seal_alone(worker: Worker) -> Callable[[], Written]:
    worker.ask()
    call = worker.new_call()
    return lambda: worker.seal_alone(call)


def record(worker: Worker) -> Callable[[], Written]:
    call = worker.new_call(effect="IDEMPOTENT")
    worker.turn_with(call)
    return lambda: worker.record(call, {"v": 1}, ask=True)


def record_read(worker: Worker) -> Callable[[], Written]:
    call = worker.new_call()
    worker.turn_with(call)
    return lambda: worker.record(call, {"v": 1}, ask=True)


def record_task(worker: Worker) -> Callable[[], Written]:
    call = worker.new_call()
    worker.turn_with(call, worker.new_call("b"))
    return lambda: worker.record_task(call, {"v": 1})


def record_alone(worker: Worker) -> Callable[[], Written]:
    call = worker.new_call()
    worker.turn_with(call)
    return lambda: worker.record_alone(call, {"v": 1})


def dispatch(worker: Worker) -> Callable[[], Written]:
    call = worker.new_call(send=False)
    worker.turn_with(call)
    return lambda: worker.dispatch(call)


def dispatch_again(worker: Worker) -> Callable[[], Written]:
    call = worker.new_call()
    worker.turn_with(call)
    sql(
        "UPDATE receipts_attempt SET outcome = 'NO_RESPONSE', finished_at = clock_timestamp() WHERE tool_call_id = %s",
        call.id,
    )
    sql("UPDATE receipts_toolcall SET status = 'UNCERTAIN' WHERE id = %s", call.id)
    return lambda: worker.dispatch_again(call)


STEPS: dict[str, Act] = {
    "ASK_FIRST": ask,
    "ASK_RETRY": ask_again,
    "SEAL_AND_SEND": seal_and_send,
    "SEAL_TURN": seal,
    "SEAL_ALONE": seal_alone,
    "RECORD_READ": record_read,
    "RECORD_RESULT": record,
    "RECORD_TASK": record_task,
    "RECORD_ALONE": record_alone,
    "DISPATCH_CALLS": dispatch,
    "DISPATCH_AGAIN": dispatch_again,
}
STARTING = ["ASK_FIRST", "ASK_RETRY", "DISPATCH_CALLS", "DISPATCH_AGAIN"]
FACTS = ["SEAL_AND_SEND", "SEAL_TURN", "SEAL_ALONE", "RECORD_READ", "RECORD_RESULT", "RECORD_TASK", "RECORD_ALONE"]


def contents(run_id: UUID) -> dict[str, Any]:
    """Every row of a run that a step may write."""
    tables = {
        "runs_budget": "run_id",
        "runs_budgetentry": "run_id",
        "checkpoints_checkpoint": "run_id",
        "checkpoints_head": "run_id",
        "checkpoints_obligation": "run_id",
        "checkpoints_taskwrite": "run_id",
        "receipts_modelcall": "run_id",
        "receipts_toolcall": "run_id",
        "receipts_effect": "run_id",
    }
    found: dict[str, Any] = {
        table: sql(f"SELECT t::text FROM {table} t WHERE {column} = %s ORDER BY 1", run_id)
        for table, column in tables.items()
    }
    of_calls = "(SELECT id FROM receipts_toolcall WHERE run_id = %s)"
    of_turns = "(SELECT id FROM receipts_modelcall WHERE run_id = %s)"
    found["attempts"] = sql(
        f"SELECT t::text FROM receipts_attempt t WHERE tool_call_id IN {of_calls} OR model_call_id IN {of_turns} ORDER BY 1",
        run_id,
        run_id,
    )
    found["results"] = sql(f"SELECT t::text FROM receipts_result t WHERE tool_call_id IN {of_calls} ORDER BY 1", run_id)
    return found


def test_every_step_is_tried_here() -> None:
    texts = {name: text for name, text in vars(steps).items() if isinstance(text, str) and text.startswith("WITH")}
    assert set(STEPS) == {name for name, text in texts.items() if "go AS (" in text}


@pytest.mark.parametrize("step", STEPS)
def test_under_its_fence_a_step_writes(worker: Worker, step: str) -> None:
    act = STEPS[step](worker)
    before = contents(worker.run.id)
    written = act()
    assert (written.held, written.stopping, written.go, written.done) == (True, False, True, True)
    assert contents(worker.run.id) != before


@pytest.mark.parametrize("how", STALE)
@pytest.mark.parametrize("step", STEPS)
def test_under_a_stale_fence_a_step_writes_nothing_at_all(worker: Worker, step: str, how: str) -> None:
    act = STEPS[step](worker)
    sql(STALE[how], worker.run.id)
    before = contents(worker.run.id)
    written = act()
    assert (written.held, written.go, written.done, written.started) == (False, False, False, None)
    assert contents(worker.run.id) == before


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_waited_for_a_takeover_writes_nothing_at_all(worker: Worker, step: str) -> None:
    """Its snapshot still shows it as the holder; the row that it locks says otherwise."""
    act = STEPS[step](worker)
    before = contents(worker.run.id)
    with uncommitted():
        sql(TAKE, worker.run.id)
        late = Aside(act)
        late.wait_blocked()
    assert not late.result().held
    assert contents(worker.run.id) == before


@pytest.mark.parametrize("step", ["ASK_FIRST", "SEAL_AND_SEND", "SEAL_TURN", "RECORD_RESULT", "DISPATCH_AGAIN"])
def test_without_the_lock_a_step_would_write_beside_the_taker(
    worker: Worker, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the lock of the fence is for."""
    act = STEPS[step](worker)
    reading = FENCE.replace("FOR NO KEY UPDATE", "")
    monkeypatch.setattr(steps, step, getattr(steps, step).replace(FENCE, reading))
    before = contents(worker.run.id)
    with uncommitted():
        sql(TAKE, worker.run.id)
        late = Aside(act)
        wait_until(lambda: contents(worker.run.id) != before, "it writes while the taker has not committed")
    assert late.result().done


@pytest.mark.parametrize("step", STARTING)
def test_under_a_stop_nothing_is_started(worker: Worker, step: str) -> None:
    act = STEPS[step](worker)
    sql("UPDATE runs_lease SET stop_requested = true WHERE run_id = %s", worker.run.id)
    tries = Attempt.objects.count()
    written = act()
    assert (written.held, written.stopping, written.go, written.started) == (True, True, False, None)
    assert Attempt.objects.count() == tries


@pytest.mark.parametrize("step", STARTING)
def test_a_step_that_waited_for_a_stop_starts_nothing(worker: Worker, step: str) -> None:
    act = STEPS[step](worker)
    tries = Attempt.objects.count()
    with uncommitted():
        sql("UPDATE runs_lease SET stop_requested = true WHERE run_id = %s", worker.run.id)
        late = Aside(act)
        late.wait_blocked()
    assert (late.result().go, Attempt.objects.count()) == (False, tries)


@pytest.mark.parametrize("step", FACTS)
def test_under_a_stop_facts_are_still_written(worker: Worker, step: str) -> None:
    """Ruling 24: what happened is recorded; what would come next is not started."""
    act = STEPS[step](worker)
    sql("UPDATE runs_lease SET stop_requested = true WHERE run_id = %s", worker.run.id)
    tries = Attempt.objects.count()
    written = act()
    assert (written.done, written.go) == (True, False)
    assert Attempt.objects.count() == tries


@pytest.mark.parametrize("step", ["ASK_FIRST", "ASK_RETRY", "DISPATCH_CALLS", "DISPATCH_AGAIN"])
def test_without_room_in_the_budget_nothing_is_started(worker: Worker, step: str) -> None:
    act = STEPS[step](worker)
    sql("UPDATE runs_budget SET cap = 0 WHERE run_id = %s", worker.run.id)
    tries = Attempt.objects.count()
    assert (act().go, Attempt.objects.count()) == (False, tries)


def test_a_turn_is_sealed_without_room_for_its_call(worker: Worker) -> None:
    worker.ask()
    sql("UPDATE runs_budget SET cap = 0 WHERE run_id = %s AND unit = 'tool_calls'", worker.run.id)
    call = worker.new_call()
    written = worker.seal(call)
    assert (written.done, written.started) == (True, None)
    assert (stored(call).status, Head.objects.get(run=worker.run).phase) == ("PROPOSED", "DECISION_RECORDED")
    assert not BudgetEntry.objects.filter(receipt_id=call.id).exists()


def test_with_one_gate_for_facts_and_starts_a_stop_would_lose_a_result(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the two gates are for: a result that hangs on `go` is not there once a stop is requested."""
    call = worker.new_call()
    worker.turn_with(call)
    one_gate = steps.RECORD_READ.replace("FROM stands\n", "FROM stands, go\n")
    assert one_gate != steps.RECORD_READ
    monkeypatch.setattr(steps, "RECORD_READ", one_gate)
    sql("UPDATE runs_lease SET stop_requested = true WHERE run_id = %s", worker.run.id)
    assert not worker.record(call, {"v": 1}).done
    assert not hasattr(stored(call), "result")


def test_what_is_reserved_is_taken_from_the_room(worker: Worker) -> None:
    sql("UPDATE runs_budget SET cap = 3 WHERE run_id = %s AND unit = 'model_calls'", worker.run.id)
    assert [worker.ask(reserve={"model_calls": 2}).go, worker.ask(reserve={"model_calls": 2}).go] == [True, False]
    assert sql("SELECT reserved, spent FROM runs_budget WHERE run_id = %s AND unit = 'model_calls'", worker.run.id) == [
        (2, 0)
    ]


def test_a_step_that_starts_nothing_reserves_nothing(worker: Worker) -> None:
    sql("UPDATE runs_lease SET stop_requested = true WHERE run_id = %s", worker.run.id)
    worker.ask()
    assert not BudgetEntry.objects.filter(run=worker.run).exists()
    assert sql("SELECT sum(reserved) FROM runs_budget WHERE run_id = %s", worker.run.id) == [(0,)]


def test_every_row_names_the_fence_under_which_it_was_written(store: Store) -> None:
    worker = store.worker()
    sql("UPDATE runs_lease SET expires_at = clock_timestamp() WHERE run_id = %s", worker.run.id)
    second = store.worker(worker.run, "w2")
    call = second.new_call(effect="IDEMPOTENT")
    second.turn_with(call)
    second.record(call, {"v": 1})
    revisions = Checkpoint.objects.filter(run=worker.run).order_by("revision")
    assert [row.fence for row in revisions] == [0, 2, 2]
    assert {row.fence for row in Attempt.objects.filter(tool_call_id=call.id)} == {2}
    assert stored(call).result.fence == 2
    assert ModelCall.objects.get(run=worker.run).sealed_fence == 2


def test_a_late_result_of_the_holder_before_changes_nothing_of_the_one_now(store: Store) -> None:
    """The zombie: it woke up after another worker had gone on from its head."""
    zombie = store.worker()
    call = zombie.new_call()
    zombie.turn_with(call)
    sql("UPDATE runs_lease SET expires_at = clock_timestamp() WHERE run_id = %s", zombie.run.id)
    living = store.worker(zombie.run, "w2")
    living.tries = dict(zombie.tries)
    assert not zombie.record(call, {"v": "late"}).held
    assert living.record(call, {"v": "now"}).done
    assert not zombie.record_alone(call, {"v": "late"}).held
    assert stored(call).result.fence == 2
