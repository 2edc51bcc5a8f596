"""Budgets: reserved before a dispatch, settled by what was used, held where nobody knows, raised by a person.

The hot path does the first two in its own statement (runs.statements); what is here serves everything beside it. Every
function runs in the caller's transaction, with the run locked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet

from runs.models import Budget, BudgetEntry, Run
from runs.states import ALWAYS_COUNTED, ENDED_RUN, BudgetEntryKind


@dataclass(frozen=True)
class Shortage:
    """A unit without room: what was wanted, and how much of the cap is left (less than nothing after an overrun)."""

    unit: str
    wanted: int
    room: int
    cap: int


def budgets_open(run: Run, caps: Mapping[str, int]) -> None:
    """Open the budgets of a new run: a cap where the agent has one; what is counted anyway has none, and is never refused."""
    units = sorted({*ALWAYS_COUNTED, *caps})
    Budget.objects.bulk_create(Budget(run=run, unit=unit, cap=caps.get(unit)) for unit in units)


def budget_reserve(
    *, run_id: UUID, receipt_id: UUID, amounts: Mapping[str, int], attempt_no: int = 1
) -> list[Shortage]:
    """Reserve amounts by unit for a receipt: all of them, or none. Returns the units without room; none means reserved.

    For what is no attempt of a call, such as the cap of a child. The rows are locked in the order of their units.
    """
    rows = {
        row.unit: row for row in Budget.objects.select_for_update(no_key=True).filter(run_id=run_id).order_by("unit")
    }
    short = [found for unit, wanted in sorted(amounts.items()) if (found := _shortage(rows.get(unit), unit, wanted))]
    if short:
        return short
    for unit, wanted in sorted(amounts.items()):
        BudgetEntry.objects.create(
            run_id=run_id,
            unit=unit,
            receipt_id=receipt_id,
            attempt_no=attempt_no,
            kind=BudgetEntryKind.RESERVE,
            amount=wanted,
        )
        rows[unit].reserved += wanted
        rows[unit].save(update_fields=["reserved"])
    return []


def _shortage(budget: Budget | None, unit: str, wanted: int) -> Shortage | None:
    if budget is None:
        return Shortage(unit, wanted, 0, 0)
    if budget.cap is None or budget.room >= wanted:
        return None
    return Shortage(unit, wanted, budget.room, budget.cap)


_SETTLE = """
WITH reserved AS (
    SELECT e.unit, e.amount FROM runs_budgetentry e
    WHERE e.receipt_id = %(receipt)s AND e.attempt_no = %(attempt)s AND e.kind = 'RESERVE' AND NOT EXISTS (
        SELECT FROM runs_budgetentry done WHERE done.receipt_id = e.receipt_id AND done.attempt_no = e.attempt_no
        AND done.unit = e.unit AND done.kind IN ('SETTLE', 'RELEASE', 'HOLD_UNKNOWN'))),
closed AS (
    SELECT r.unit, r.amount AS reserved, u.amount AS used
    FROM reserved r LEFT JOIN jsonb_to_recordset(%(used)s::jsonb) AS u(unit text, amount bigint) USING (unit)),
entered AS (
    INSERT INTO runs_budgetentry (run_id, unit, receipt_id, attempt_no, kind, amount)
    SELECT %(run)s, c.unit, %(receipt)s, %(attempt)s, k.kind, k.amount FROM closed c CROSS JOIN LATERAL (VALUES
        ('SETTLE', c.used), ('OVERRUN', nullif(greatest(c.used - c.reserved, 0), 0)),
        ('RELEASE', CASE WHEN c.used IS NULL THEN c.reserved END)) AS k(kind, amount)
    WHERE k.amount IS NOT NULL RETURNING id)
UPDATE runs_budget b SET reserved = b.reserved - c.reserved, spent = b.spent + coalesce(c.used, 0)
FROM closed c WHERE b.run_id = %(run)s AND b.unit = c.unit"""


def budget_settle(*, run_id: UUID, receipt_id: UUID, attempt_no: int, used: Mapping[str, int]) -> None:
    """Turn a reservation into what was used, by unit; units that are not named are given back.

    Usage beyond the reservation counts in full, with an OVERRUN entry for the part that nobody had reserved.
    """
    rows = json.dumps([{"unit": unit, "amount": amount} for unit, amount in used.items()])
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE, {"run": run_id, "receipt": receipt_id, "attempt": attempt_no, "used": rows})


def children_settle(run_id: UUID) -> None:
    """Settle what a run has reserved for its children that have ended, by what each has used or may have used. The run is
    locked; a child that has ended does not change what it used, but for what is held for unknown outcomes (A-163).
    """
    owed = Run.objects.filter(parent_run_id=run_id, status__in=sorted(ENDED_RUN)).filter(
        Exists(_movements(BudgetEntryKind.RESERVE)),
        ~Exists(_movements(BudgetEntryKind.SETTLE, BudgetEntryKind.RELEASE)),
    )
    for child in owed.prefetch_related("budgets"):
        used = {budget.unit: budget.spent + budget.held_unknown for budget in child.budgets.all()}
        budget_settle(run_id=run_id, receipt_id=child.id, attempt_no=1, used=used)


def _movements(*kinds: BudgetEntryKind) -> QuerySet[BudgetEntry]:
    return BudgetEntry.objects.filter(run_id=OuterRef("parent_run_id"), receipt_id=OuterRef("id"), kind__in=kinds)


def budget_release(*, run_id: UUID, receipt_id: UUID, attempt_no: int) -> None:
    """Give back what an attempt had reserved that is known not to have happened."""
    budget_settle(run_id=run_id, receipt_id=receipt_id, attempt_no=attempt_no, used={})


def budget_hold_unknown(*, run_id: UUID, receipt_id: UUID, attempt_no: int) -> None:
    """Hold what an attempt without an answer had reserved: it may have been used."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH entry AS (INSERT INTO runs_budgetentry (run_id, unit, receipt_id, attempt_no, kind, amount) "
            "SELECT run_id, unit, receipt_id, attempt_no, 'HOLD_UNKNOWN', amount FROM runs_budgetentry "
            "WHERE receipt_id = %s AND attempt_no = %s AND kind = 'RESERVE' ON CONFLICT DO NOTHING "
            "RETURNING unit, amount) "
            "UPDATE runs_budget b SET reserved = b.reserved - entry.amount, "
            "held_unknown = b.held_unknown + entry.amount FROM entry WHERE b.run_id = %s AND b.unit = entry.unit",
            [receipt_id, attempt_no, run_id],
        )


def budget_settle_held(*, run_id: UUID, receipt_id: UUID, last_attempt: int, spent: bool) -> None:
    """Turn what is held for the unanswered attempts of a receipt, up to the last one that a verdict is about, into spent
    or free. A verdict says of all of them whether the call happened, not which of them did it.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH entry AS (INSERT INTO runs_budgetentry (run_id, unit, receipt_id, attempt_no, kind, amount) "
            "SELECT run_id, unit, receipt_id, attempt_no, %(kind)s::text, amount FROM runs_budgetentry held "
            "WHERE receipt_id = %(receipt)s AND attempt_no <= %(last)s AND kind = 'HOLD_UNKNOWN' AND NOT EXISTS ("
            "SELECT FROM runs_budgetentry done WHERE done.receipt_id = held.receipt_id AND done.unit = held.unit "
            "AND done.attempt_no = held.attempt_no AND done.kind IN ('SETTLE', 'RELEASE')) RETURNING unit, amount), "
            "sums AS (SELECT unit, sum(amount) AS amount FROM entry GROUP BY unit) "
            "UPDATE runs_budget b SET held_unknown = b.held_unknown - sums.amount, "
            "spent = b.spent + CASE WHEN %(kind)s::text = 'SETTLE' THEN sums.amount ELSE 0 END "
            "FROM sums WHERE b.run_id = %(run)s AND b.unit = sums.unit",
            {"kind": "SETTLE" if spent else "RELEASE", "receipt": receipt_id, "last": last_attempt, "run": run_id},
        )


def budget_lock(*, run_id: UUID, unit: str) -> Budget | None:
    """Lock a run's budget of one unit, after run and calls (ruling 37); None where the run has none."""
    return Budget.objects.select_for_update(no_key=True).filter(run_id=run_id, unit=unit).first()


def budget_cap_raise(budget: Budget, *, cap: int) -> None:
    """Set the higher cap of a locked budget."""
    budget.cap = cap
    budget.save(update_fields=["cap"])
