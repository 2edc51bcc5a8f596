"""How an amount of a budget reads: counts as they are, money in dollars, time as a length."""

from collections.abc import Sequence
from dataclasses import dataclass

from console.pages.units import NAMES, amount
from runs.models import Budget
from runs.states import BudgetUnit

# What a person types for a cap, where the name does not say it.
TYPED = {
    BudgetUnit.USD_MICROS: "in millionths of a dollar: 1000000 is $1",
    BudgetUnit.WALL_MS: "in milliseconds: 60000 is 1 min",
}


def size(count: int) -> str:
    """The size of something stored, to the byte: what is digested is compared by it."""
    return f"{count:,} byte{'' if count == 1 else 's'}"


def room(count: float) -> str:
    """The size of a disk or a database, in three figures."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


@dataclass(frozen=True)
class BudgetLine:
    """One unit of a run's budget as the table shows it."""

    name: str
    cap: str
    reserved: str
    held: str
    spent: str
    room: str


def budget_lines(budgets: Sequence[Budget]) -> list[BudgetLine]:
    """The table of a run's budget."""
    return [
        BudgetLine(
            name=NAMES[BudgetUnit(budget.unit)],
            cap="none" if budget.cap is None else amount(budget.unit, budget.cap),
            reserved=amount(budget.unit, budget.reserved),
            held=amount(budget.unit, budget.held_unknown),
            spent=amount(budget.unit, budget.spent),
            room="" if budget.cap is None else amount(budget.unit, max(budget.room, 0)),
        )
        for budget in budgets
    ]


@dataclass(frozen=True)
class CappedUnit:
    """A unit whose cap can be raised; `typed` says what the number means, where the name does not; `seen` is the
    cap in that number.
    """

    unit: str
    name: str
    cap: str
    typed: str
    chosen: bool
    seen: int


def capped_units(budgets: Sequence[Budget], chosen: str) -> list[CappedUnit]:
    """The choices of the form. The unit that is nearest to its cap is chosen, unless the person has chosen another."""
    tight = max(budgets, key=nearness, default=None)
    wanted = chosen or (tight.unit if tight else "")
    return [
        CappedUnit(
            budget.unit,
            NAMES[BudgetUnit(budget.unit)],
            amount(budget.unit, budget.cap),
            TYPED.get(BudgetUnit(budget.unit), ""),
            budget.unit == wanted,
            budget.cap or 0,
        )
        for budget in budgets
    ]


def nearness(budget: Budget) -> float:
    """How near a budget is to its cap: 1 is at the cap; 0 where there is none."""
    return budget.taken / (budget.cap or 1) if budget.cap is not None else 0.0
