"""Migrations that rewrite rows, on a database that has some: nothing is lost on the way, forth or back."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command

from tests.engine.engine import Engine, sql
from tests.engine.lost import lose_answer
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls

pytestmark = pytest.mark.matrix  # the whole schema, there and back

BY_UNIT = "SELECT receipt_id, attempt_no, kind, unit, amount FROM runs_budgetentry ORDER BY 1, 2, 3, 4"
MOVEMENTS = "SELECT * FROM runs_budgetentry ORDER BY receipt_id, attempt_no, kind"


@pytest.fixture
def migrated() -> Iterator[None]:
    """The schema as it should be, whatever a test left."""
    yield
    call_command("migrate", verbosity=0)


def test_budget_entries_by_unit_become_movements_and_go_back(engine: Engine, migrated: None) -> None:
    lose_answer(engine)
    SCRIPT.tell(calls(("look", "a")))
    engine.run()
    before = sql(MOVEMENTS)
    call_command("migrate", "runs", "0020", verbosity=0)
    by_unit = sql(BY_UNIT)
    assert {(kind, unit) for _, _, kind, unit, _ in by_unit} >= {
        ("HOLD_UNKNOWN", "tool_calls"),
        ("RESERVE", "tokens"),
        ("SETTLE", "model_calls"),
    }
    assert len(by_unit) > len(before)
    call_command("migrate", verbosity=0)
    assert sql(MOVEMENTS) == before
    assert not broken_invariants()


def test_budgets_of_a_run_come_into_one_row_and_go_back(engine: Engine, migrated: None) -> None:
    lose_answer(engine)
    SCRIPT.tell(calls(("look", "a")))
    engine.run()
    by_unit = "SELECT run_id, unit, cap, reserved, held_unknown, spent FROM runs_budget ORDER BY 1, 2"
    before = sql(by_unit)
    assert any(held for *_, held, _ in before)
    call_command("migrate", "runs", "0027", verbosity=0)
    assert sql("SELECT relkind FROM pg_class WHERE relname = 'runs_budget'") == [("r",)]
    assert sql(by_unit) == before
    call_command("migrate", verbosity=0)
    assert sql(by_unit) == before
    assert not broken_invariants()
