"""The units of a budget in words, and how an amount of one reads. Pure: no Django, no rows."""

from datetime import timedelta

from console.pages.times import span
from runs.states import BudgetUnit

NAMES = {
    BudgetUnit.MODEL_CALLS: "model calls",
    BudgetUnit.TOOL_CALLS: "tool calls",
    BudgetUnit.TOKENS: "tokens",
    BudgetUnit.USD_MICROS: "money",
    BudgetUnit.WALL_MS: "time on the wire",
}


def amount(unit: str, value: int | None) -> str:
    """One amount of a unit; without a value, that there is no cap."""
    if value is None:
        return "no cap"
    if unit == BudgetUnit.USD_MICROS:
        return f"${value / 1_000_000:,.4f}"
    if unit == BudgetUnit.WALL_MS:
        return span(timedelta(milliseconds=value))
    return f"{value:,}"
