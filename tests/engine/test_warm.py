"""What a pool process does before its first hint, so that nobody waits for it."""

import pytest
from django.db import connection

from accounts.statements import fetch, plan_ahead
from runs.statements import plan_once
from runtime import statements
from runtime.warm import plan_steps

pytestmark = pytest.mark.usefixtures("engine")

NAMED = {name: sql for name, sql in vars(statements).items() if isinstance(sql, str) and sql.startswith("WITH")}


def test_every_statement_of_a_run_is_planned_ahead() -> None:
    assert set(NAMED.values()) == set(statements.AHEAD)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_statement_can_be_planned_without_its_values_and_leaves_nothing_behind(name: str) -> None:
    plan_once()
    plan_ahead(NAMED[name])
    assert fetch("SELECT name FROM pg_prepared_statements WHERE name = 'ahead'", {}) == []


def test_planning_ahead_writes_nothing() -> None:
    before = fetch("SELECT pg_current_xact_id_if_assigned()::text, count(*) FROM runs_run", {})
    plan_steps()
    assert fetch("SELECT pg_current_xact_id_if_assigned()::text, count(*) FROM runs_run", {}) == before
    assert not connection.in_atomic_block
