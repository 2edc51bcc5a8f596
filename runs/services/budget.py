"""Budgets: reserved before a dispatch, settled by what was used, held where nobody knows, raised by a person.

The hot path does the first two in its own statement (runs.statements); what is here serves everything beside it. Every
function runs in the caller's transaction, with the run locked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import BigIntegerField, Exists, F, OuterRef, Value

from runs.models import Budget, BudgetEntry, Run
from runs.states import ENDED_RUN, BudgetEntryKind

_CLOSING = (BudgetEntryKind.SETTLE, BudgetEntryKind.RELEASE)


@dataclass(frozen=True)
class Shortage:
    """A unit without room: what was wanted, and how much of the cap is left (less than nothing after an overrun)."""

    unit: str
    wanted: int
    room: int
    cap: int


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
    _enter(run_id, receipt_id, attempt_no, {BudgetEntryKind.RESERVE: amounts})
    _move(run_id, reserved=amounts)
    return []


def _shortage(budget: Budget | None, unit: str, wanted: int) -> Shortage | None:
    if budget is None:
        return Shortage(unit, wanted, 0, 0)
    if budget.cap is None or budget.room >= wanted:
        return None
    return Shortage(unit, wanted, budget.room, budget.cap)


def budget_settle(*, run_id: UUID, receipt_id: UUID, attempt_no: int, used: Mapping[str, int]) -> None:
    """Turn a reservation into what was used, by unit; units that are not named are given back.

    Usage beyond the reservation counts in full, with an OVERRUN entry for the part that nobody had reserved.
    """
    reserved = _reserved(receipt_id, attempt_no)
    spent = {unit: amount for unit, amount in used.items() if unit in reserved}
    beyond = {unit: amount - reserved[unit] for unit, amount in spent.items() if amount > reserved[unit]}
    back = {unit: amount for unit, amount in reserved.items() if unit not in spent}
    moved = {BudgetEntryKind.SETTLE: spent, BudgetEntryKind.OVERRUN: beyond, BudgetEntryKind.RELEASE: back}
    _enter(run_id, receipt_id, attempt_no, moved)
    _move(run_id, reserved=_less(reserved), spent=spent)


def children_settle(run_id: UUID) -> bool:
    """Settle what a run has reserved for its children that have ended, by what each has used; what is held for their unknown
    outcomes is held here too, until a verdict says there what became of it (A-163). The run is locked; of a child that has
    ended nothing else changes. Returns whether anything was moved.
    """
    reserved = BudgetEntry.objects.filter(
        run_id=OuterRef("parent_run_id"), receipt_id=OuterRef("id"), kind=BudgetEntryKind.RESERVE
    )
    children = Run.objects.filter(Exists(reserved), parent_run_id=run_id, status__in=sorted(ENDED_RUN))
    moved = [_child_settle(run_id, child) for child in children.prefetch_related("budgets")]
    return any(moved)


def _child_settle(run_id: UUID, child: Run) -> bool:
    """The reservation is attempt 1 of the child as a receipt; each later attempt holds what is unknown from then on."""
    entries = list(BudgetEntry.objects.filter(run_id=run_id, receipt_id=child.id).order_by("attempt_no"))
    units = next(entry.amounts for entry in entries if entry.kind == BudgetEntryKind.RESERVE)
    budgets = [budget for budget in child.budgets.all() if budget.unit in units]
    used = {budget.unit: budget.spent for budget in budgets}
    held = {budget.unit: budget.held_unknown for budget in budgets if budget.held_unknown}
    last = entries[-1].attempt_no
    if _reserved(child.id, 1):
        budget_settle(run_id=run_id, receipt_id=child.id, attempt_no=1, used=used)
    else:
        before = _still_held(entries)
        if before == held or last == 1:
            return False
        _less_is_held(run_id, child.id, last, before=before, held=held, spent=_grown(used, entries))
    if held:
        _enter(run_id, child.id, last + 1, {BudgetEntryKind.HOLD_UNKNOWN: held})
        _move(run_id, held_unknown=held)
    return True


def _still_held(entries: list[BudgetEntry]) -> dict[str, int]:
    """What the newest of these attempts holds for unknown outcomes."""
    newest = {entry.kind: entry.amounts for entry in entries if entry.attempt_no == entries[-1].attempt_no}
    return {} if newest.keys() & {*_CLOSING} else newest.get(BudgetEntryKind.HOLD_UNKNOWN, {})


def _grown(used: Mapping[str, int], entries: list[BudgetEntry]) -> dict[str, int]:
    """By how much a child has used more than was settled for it, by unit."""
    settled = [entry.amounts for entry in entries if entry.kind == BudgetEntryKind.SETTLE]
    more = {unit: amount - sum(one.get(unit, 0) for one in settled) for unit, amount in used.items()}
    return {unit: amount for unit, amount in more.items() if amount}


def _less_is_held(
    run_id: UUID,
    child_id: UUID,
    last: int,
    *,
    before: Mapping[str, int],
    held: Mapping[str, int],
    spent: dict[str, int],
) -> None:
    """Close an attempt that holds more than is unknown by now: a part was spent, the rest is given back."""
    back = {unit: amount - held.get(unit, 0) - spent.get(unit, 0) for unit, amount in before.items()}
    back = {unit: amount for unit, amount in back.items() if amount}
    _enter(run_id, child_id, last, {BudgetEntryKind.SETTLE: spent, BudgetEntryKind.RELEASE: back})
    _move(run_id, held_unknown=_less(before), spent=spent)


def budget_release(*, run_id: UUID, receipt_id: UUID, attempt_no: int) -> None:
    """Give back what an attempt had reserved that is known not to have happened."""
    budget_settle(run_id=run_id, receipt_id=receipt_id, attempt_no=attempt_no, used={})


def budget_hold_unknown(*, run_id: UUID, receipt_id: UUID, attempt_no: int) -> None:
    """Hold what an attempt without an answer had reserved: it may have been used."""
    reserved = _reserved(receipt_id, attempt_no)
    _enter(run_id, receipt_id, attempt_no, {BudgetEntryKind.HOLD_UNKNOWN: reserved})
    _move(run_id, reserved=_less(reserved), held_unknown=reserved)


def budget_settle_held(*, run_id: UUID, receipt_id: UUID, last_attempt: int, spent: bool) -> None:
    """Turn what is held for the unanswered attempts of a receipt, up to the last one that a verdict is about, into spent
    or free. A verdict says of all of them whether the call happened, not which of them did it.
    """
    kind = BudgetEntryKind.SETTLE if spent else BudgetEntryKind.RELEASE
    of_receipt = BudgetEntry.objects.filter(receipt_id=receipt_id, attempt_no__lte=last_attempt)
    closed = of_receipt.filter(kind__in=_CLOSING).values("attempt_no")
    for entry in of_receipt.filter(kind=BudgetEntryKind.HOLD_UNKNOWN).exclude(attempt_no__in=closed):
        _enter(run_id, receipt_id, entry.attempt_no, {kind: entry.amounts})
        _move(run_id, held_unknown=_less(entry.amounts), spent=entry.amounts if spent else {})


def _reserved(receipt_id: UUID, attempt_no: int) -> dict[str, int]:
    """What an attempt has reserved and neither used, given back nor left unknown, by unit."""
    of_attempt = BudgetEntry.objects.filter(receipt_id=receipt_id, attempt_no=attempt_no)
    entries = {entry.kind: entry.amounts for entry in of_attempt}
    if entries.keys() & {*_CLOSING, BudgetEntryKind.HOLD_UNKNOWN}:
        return {}
    return entries.get(BudgetEntryKind.RESERVE, {})


def _enter(run_id: UUID, receipt_id: UUID, attempt_no: int, moved: Mapping[BudgetEntryKind, Mapping[str, int]]) -> None:
    """Enter the movements of an attempt, one entry each; a movement of nothing has none."""
    key: dict[str, Any] = {"run_id": run_id, "receipt_id": receipt_id, "attempt_no": attempt_no}
    BudgetEntry.objects.bulk_create(
        BudgetEntry(**key, kind=kind, **amounts) for kind, amounts in moved.items() if amounts
    )


def _move(run_id: UUID, **moves: Mapping[str, int]) -> None:
    """Add amounts by unit to columns of a run's budgets, in the order of the units."""
    for unit in sorted({unit for amounts in moves.values() for unit in amounts}):
        added = {column: F(column) + _bigint(amounts.get(unit, 0)) for column, amounts in moves.items()}
        Budget.objects.filter(run_id=run_id, unit=unit).update(**added)


def _bigint(amount: int) -> Value:
    """An amount as the columns hold it: Django would send a bare number as one of four bytes."""
    return Value(amount, output_field=BigIntegerField())


def _less(amounts: Mapping[str, int]) -> dict[str, int]:
    return {unit: -amount for unit, amount in amounts.items()}


def budget_lock(*, run_id: UUID, unit: str) -> Budget | None:
    """Lock a run's budget of one unit, after run and calls (ruling 37); None where the run has none."""
    return Budget.objects.select_for_update(no_key=True).filter(run_id=run_id, unit=unit).first()


def budget_cap_raise(budget: Budget, *, cap: int) -> None:
    """Set the higher cap of a locked budget."""
    budget.cap = cap
    budget.save(update_fields=["cap"])
