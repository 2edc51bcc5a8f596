"""A result whose call is not open any more, though the fence is good, writes nothing: no head, no budget. It is evidence."""

from uuid import UUID

import pytest

from checkpoints.models import TaskWrite
from receipts.models import Effect, Result
from receipts.services import attempt_find, attempt_lost
from runs.models import BudgetEntry, Refusal
from runs.services import budget_hold_unknown
from runtime.contracts import ToolContext, ToolOutcome
from runtime.loop import drive
from tests.engine.engine import Engine, attempts_of, call_named, head_of, run_now
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, went_well


def given_up(context: ToolContext) -> ToolOutcome:
    """Somebody says, while this attempt is out, that it gave no answer; then it answers."""
    attempt_lost(attempt_find(receipt_id=context.call_id, attempt_no=context.attempt_no), why="somebody gave it up")
    budget_hold_unknown(run_id=context.run_id, receipt_id=context.call_id, attempt_no=context.attempt_no)
    return went_well("too late")


def late_answers(run_id: UUID) -> list[tuple[UUID | None, str | None]]:
    rows = Refusal.objects.filter(run_id=run_id, kind="LATE_RESULT").order_by("id")
    return [(row.subject_id, row.detail["external_ref"]) for row in rows]


def test_the_result_of_a_call_that_is_not_open_moves_no_head(engine: Engine) -> None:
    SCRIPT.do("a", given_up)
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call, run = call_named(run_id, "a"), run_now(run_id)
    assert (call.status, head_of(run_id).phase) == ("UNCERTAIN", "AWAITING_TOOL_RESULT")
    assert (run.status, run.hold_reason) == ("HELD", "UNCERTAIN_CALL")
    assert not Result.objects.filter(tool_call=call).exists() and not Effect.objects.filter(tool_call=call).exists()
    assert late_answers(run_id) == [(call.id, "ref-too late")]
    kinds = BudgetEntry.objects.filter(receipt_id=call.id).values_list("kind", flat=True)
    assert sorted(kinds) == ["HOLD_UNKNOWN", "RESERVE"]
    assert broken_invariants() == {}


def test_a_read_that_was_given_up_is_read_again(engine: Engine) -> None:
    SCRIPT.do("a", given_up, went_well("a"))
    run_id = engine.run(calls(("look", "a")))
    call = call_named(run_id, "a")
    assert run_now(run_id).status == "COMPLETED"
    assert [outcome for _, outcome, _ in attempts_of(call)] == ["NO_RESPONSE", "OK"]
    assert (Result.objects.get(tool_call=call).attempt_no, len(late_answers(run_id))) == (2, 1)
    assert broken_invariants() == {}


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_others_of_its_wave_are_recorded(engine: Engine, lost: int) -> None:
    """Whichever place it has: a task beside the head, or the one that would have closed the step."""
    labels = ["a", "b", "c"]
    SCRIPT.do(labels[lost], given_up, went_well("again"))
    run_id = engine.run(calls(*[("note", label) for label in labels]))
    assert run_now(run_id).status == "COMPLETED"
    assert {label: call_named(run_id, label).attempts for label in labels} == {
        label: 2 if label == labels[lost] else 1 for label in labels
    }
    assert len(late_answers(run_id)) == 1
    assert Result.objects.filter(tool_call__run_id=run_id).count() == Effect.objects.filter(run_id=run_id).count() == 3
    assert not TaskWrite.objects.filter(tool_call=call_named(run_id, labels[lost]), fence=1).exists()
    assert broken_invariants() == {}
