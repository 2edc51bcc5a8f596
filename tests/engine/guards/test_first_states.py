"""A row starts in a first state of its machine, and no table is emptied, whoever writes."""

from typing import Any

import pgtrigger
import pytest
from django.db import DatabaseError, transaction
from django.db.models import Model

from accounts.models import AuditEvent
from receipts.models import Attempt
from runs.models import Lease
from tests.engine.engine import sql
from tests.engine.guards.rows import Told, refused, refused_in
from tests.engine.guards.test_moves import MACHINES, Machine

FIRST = {
    "run": {"QUEUED"},
    "stop": {"ACCEPTED"},
    "wakeup": {"PENDING"},
    "model call": {"DISPATCHED"},
    "call": {"PROPOSED", "DISPATCHED"},
    "publication": {"REQUESTED"},
    "wait": {"OPEN"},
    "commitment": {"LIVE"},
    "obligation": {"OPEN"},
    "save attempt": {"UNKNOWN"},
    "scope control": {"STANDING"},
    "run of many": {"PENDING"},
    "notice": {"PENDING"},
}


def again(row: Model) -> None:
    """Insert a copy of a row as it is; only the guard of first states is asked before any other rule."""
    table, key = row._meta.db_table, row._meta.pk
    assert key is not None
    columns = ", ".join(f'"{field.column}"' for field in row._meta.concrete_fields if not field.generated)
    sql(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table} WHERE {key.column} = %s", row.pk)


@pytest.mark.parametrize(
    ("machine", "state"),
    [pytest.param(machine, state, id=f"{machine.name}: {state}") for machine in MACHINES for state in machine.states],
)
def test_a_new_row_is_refused_exactly_if_it_is_not_in_a_first_state(told: Told, machine: Machine, state: str) -> None:
    row = machine.row(told, state)
    with pytest.raises(DatabaseError) as refusal, transaction.atomic():
        again(row)
    said = "is not in a first state" in str(refusal.value)
    assert said == (state not in FIRST[machine.name])
    assert said or "duplicate key" in str(refusal.value)


def test_a_version_is_published_at_once_on_the_console_only(told: Told) -> None:
    elsewhere = told.another_publication("PUBLISHED")
    refused_in("not in a first state", lambda: again(elsewhere))
    console = type(elsewhere).objects.get(report_version__run=told.run, channel="console")
    refused_in("duplicate key", lambda: again(console))


@pytest.mark.parametrize(
    "differently", [{"fence": 1}, {"owner": "w1", "expires_at": "2026-01-01T00:00:00Z"}, {"stop_requested": True}]
)
def test_a_lease_starts_free_at_fence_0(told: Told, differently: dict[str, Any]) -> None:
    run = told.another_run()
    refused_in("not in a first state", lambda: Lease.objects.create(run=run, **differently))
    Lease.objects.create(run=run)


def test_an_attempt_starts_without_an_outcome(told: Told) -> None:
    call = told.another_call()
    rest: dict[str, Any] = {"tool_call": call, "attempt_no": 1, "fence": 1, "authorised_by": "policy"}
    dated = {"outcome": "OK", "finished_at": "2026-01-01T00:00:00Z"}
    refused_in("not in a first state", lambda: Attempt.objects.create(**rest, **dated))
    Attempt.objects.create(**rest)


def test_every_machine_has_a_first_state() -> None:
    guarded = {model for model, trigger in pgtrigger.registered() if trigger.name == "first_state"}
    moving = {model for model, trigger in pgtrigger.registered() if trigger.name == "legal_moves"}
    assert moving <= guarded
    assert len(FIRST) == len(MACHINES)


# ── TRUNCATE ─────────────────────────────────────────────────────────────────


def kept() -> list[str]:
    """Every table of which rows are never deleted."""
    names = ("append_only", "no_delete")
    return sorted({model._meta.db_table for model, trigger in pgtrigger.registered() if trigger.name in names})


def test_a_table_whose_rows_are_kept_is_not_emptied_either(told: Told) -> None:
    tables = kept()
    assert len(tables) > 30
    for table in tables:
        refused("never emptied|cannot truncate", f"TRUNCATE {table}")
        refused("never emptied", f"TRUNCATE {table} CASCADE")
    assert AuditEvent.objects.exists()
