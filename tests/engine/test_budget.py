"""Budgets: no room, no dispatch; and a run without room is held once, not spun."""

from uuid import UUID

import pytest

from approvals.models import Wait
from receipts.models import Attempt, ToolCall
from runs.models import Budget, BudgetEntry, RunTransition, Wakeup
from runtime.contracts import ModelTurn
from runtime.loop import drive
from runtime.loop.budget import TURN_TOKENS
from runtime.services import Resumed
from runtime.tasks import sweep
from tests.engine.engine import Engine, call_named, head_of, phases, run_now, sql
from tests.scripted import SCRIPT, calls


def cap(run_id: UUID, unit: str, value: int) -> None:
    sql("UPDATE runs_budget SET cap = %s WHERE run_id = %s AND unit = %s", value, run_id, unit)


def used(run_id: UUID, unit: str) -> tuple[int, int, int]:
    budget = Budget.objects.get(run_id=run_id, unit=unit)
    return budget.reserved, budget.held_unknown, budget.spent


def assert_held_for_budget(engine: Engine, run_id: UUID) -> None:
    """Held once, and neither the sweep nor a hint moves it."""
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "BUDGET")
    moves = RunTransition.objects.filter(run_id=run_id).count()
    engine.hints.clear()
    for _ in range(3):
        sweep()
        drive(run_id)
    assert (engine.hints, RunTransition.objects.filter(run_id=run_id).count()) == ([], moves)
    assert not Attempt.objects.filter(outcome=None).exists()
    assert all(used(run_id, unit)[0] == 0 for unit in ("model_calls", "tool_calls", "tokens"))


@pytest.mark.parametrize("unit", ["model_calls", "tokens"])
def test_without_room_for_a_turn_the_model_is_not_asked(engine: Engine, unit: str) -> None:
    run_id = engine.start()
    cap(run_id, unit, 0 if unit == "model_calls" else TURN_TOKENS - 1)
    drive(run_id)
    assert_held_for_budget(engine, run_id)
    assert (SCRIPT.requests, BudgetEntry.objects.count()) == ([], 0)
    cap(run_id, unit, TURN_TOKENS)
    assert isinstance(engine.resume(run_id), Resumed)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_without_room_for_the_next_turn_the_result_is_stored_and_the_run_held(engine: Engine) -> None:
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    cap(run_id, "model_calls", 1)
    drive(run_id)
    assert_held_for_budget(engine, run_id)
    assert (call_named(run_id, "a").status, head_of(run_id).phase) == ("SUCCEEDED", "TOOL_RESULT_RECORDED")
    assert len(SCRIPT.requests) == 1


def test_without_room_for_a_call_the_turn_is_sealed_and_the_call_only_recorded(engine: Engine) -> None:
    """Ruling 24: the facts commit in the last phase that was reached without the new work."""
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    cap(run_id, "tool_calls", 0)
    drive(run_id)
    assert_held_for_budget(engine, run_id)
    call = call_named(run_id, "a")
    assert (call.status, call.attempts, phases(run_id)) == ("PROPOSED", 0, ["READY_TO_DECIDE", "DECISION_RECORDED"])
    assert (used(run_id, "model_calls"), SCRIPT.sent) == ((0, 0, 1), [])
    cap(run_id, "tool_calls", 1)
    engine.resume(run_id)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("look"), len(SCRIPT.requests)) == ("COMPLETED", ["a"], 2)


def test_an_approved_call_without_room_waits_for_room_and_not_for_another_approval(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    cap(run_id, "tool_calls", 0)
    engine.approve(run_id)
    drive(run_id)
    assert_held_for_budget(engine, run_id)
    wait = Wait.objects.get(run_id=run_id)
    assert (wait.status, call_named(run_id, "a").status) == ("APPROVED", "AWAITING_APPROVAL")
    cap(run_id, "tool_calls", 1)
    engine.resume(run_id)
    drive(run_id)
    wait.refresh_from_db()
    assert (run_now(run_id).status, wait.status, SCRIPT.labels("once")) == ("COMPLETED", "CONSUMED", ["a"])
    assert not Wakeup.objects.filter(status="PENDING").exists()


def test_resuming_without_room_holds_the_run_again(engine: Engine) -> None:
    run_id = engine.start()
    cap(run_id, "model_calls", 0)
    drive(run_id)
    engine.resume(run_id)
    drive(run_id)
    assert_held_for_budget(engine, run_id)


def test_usage_beyond_the_reservation_counts_and_stops_the_next_dispatch(engine: Engine) -> None:
    greedy = ModelTurn("", calls(("look", "a")).proposals, input_tokens=TURN_TOKENS, output_tokens=TURN_TOKENS)
    SCRIPT.tell(greedy)
    run_id = engine.start()
    cap(run_id, "tokens", 2 * TURN_TOKENS)
    drive(run_id)
    assert_held_for_budget(engine, run_id)
    assert used(run_id, "tokens") == (0, 0, 2 * TURN_TOKENS)
    assert (call_named(run_id, "a").status, ToolCall.objects.count()) == ("SUCCEEDED", 1)
