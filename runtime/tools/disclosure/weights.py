"""What each position weighs, in percent: which unit the numbers have, which lines are totals, and what is doubtful."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from runtime.tools.disclosure import decimals, totals
from runtime.tools.disclosure.columns import Columns, Unit
from runtime.tools.disclosure.refusal import DisclosureRefused
from runtime.tools.disclosure.rows import Row
from runtime.tools.disclosure.table import Table
from runtime.tools.disclosure.tickers import NONE

HUNDRED = Decimal(100)
VALUE_PLACES = Decimal("1E-8")
WHOLE_PERCENT = (Decimal(90), Decimal(110))
WHOLE_FRACTION = (Decimal("0.9"), Decimal("1.1"))
LARGEST_TOTAL = Decimal(1000)


@dataclass(frozen=True)
class Weighed:
    """The positions without totals, the weight of each in percent, and what was concluded. Doubts stand first."""

    rows: tuple[Row, ...]
    weights: tuple[Decimal, ...]
    notes: tuple[str, ...]


def weigh(table: Table) -> Weighed:
    """Weigh the positions of a table.

    Weights are exact as written; where the file has only market values they are computed from these and rounded
    half-even to 8 places, which a note says. Raises DisclosureRefused with line and reason.
    """
    mark, notes = _decimal_mark(table)
    column = table.columns.header[table.columns.measure]
    cells = [(row, row.cell(table.columns.measure)) for row in table.positions]
    values = [decimals.parse(cell, mark, row.line, column) for row, cell in cells]
    sums = totals.find(table.columns, table.positions, values)
    rows = [row for index, row in enumerate(table.positions) if index not in sums]
    if not rows:
        raise DisclosureRefused("There is no position below the header.", table.header_line)
    kept = [value for index, value in enumerate(values) if index not in sums]
    weigh_rows = _from_market_values if table.columns.weight is None else _in_percent
    weights, weight_notes = weigh_rows(table, rows, kept)
    doubts = _doubts(table, decimals.total(weights))
    return Weighed(tuple(rows), tuple(weights), (*doubts, *weight_notes, *notes, *sums.values()))


def _decimal_mark(table: Table) -> tuple[decimals.Mark | None, list[str]]:
    columns = table.columns
    used = [index for index in (columns.weight, columns.market_value, columns.shares) if index is not None]
    mark = decimals.decimal_mark((row.line, row.cell(index)) for row in table.positions for index in used)
    if mark == decimals.Mark.COMMA:
        return mark, ["Numbers were read with a decimal comma."]
    if mark is None and columns.weight is None:
        return _mark_of_money(table)
    return mark, []


def _mark_of_money(table: Table) -> tuple[decimals.Mark | None, list[str]]:
    """Amounts of money don't have three decimals: `$1,000` is a thousand. `1.000` may be one all the same, so it isn't
    guessed.
    """
    numbers = [(row, decimals.written(row.cell(table.columns.measure))) for row in table.positions]
    pointed = next((row for row, number in numbers if number and "." in number.digits), None)
    if pointed:
        cell, column = pointed.cell(table.columns.measure), table.columns.header[table.columns.measure]
        reason = f'"{cell[:40]}" in column "{column}" can be read in two ways (decimal point or thousands).'
        raise DisclosureRefused(f"{reason} Write it without thousands separators.", pointed.line)
    if any(number and "," in number.digits for _, number in numbers):
        return decimals.Mark.POINT, ["Commas in the market values were read as marks between thousands."]
    return None, []


def _doubts(table: Table, whole: Decimal) -> list[str]:
    shown = decimals.plain(whole)
    if abs(whole) > LARGEST_TOTAL:
        column = table.columns.header[table.columns.measure]
        reason = f'Column "{column}" adds up to {shown} %. These are not weights in percent.'
        raise DisclosureRefused(reason, table.header_line)
    if whole > WHOLE_PERCENT[1]:
        why = "A leveraged fund can do that, but so does a file that counts lines twice. Check the file."
        return [f"The weights add up to {shown} %, far above 100 %. They were not scaled. {why}"]
    return [f"The weights add up to {shown} %, not 100 %. They were not scaled."] if whole != HUNDRED else []


# ── from market values ───────────────────────────────────────────────────────


def _from_market_values(table: Table, rows: list[Row], values: list[Decimal]) -> tuple[list[Decimal], list[str]]:
    column = table.columns.header[table.columns.measure]
    _refuse_mixed_currencies(rows, table.columns.measure, column)
    totals.refuse_unnamed(rows, values, _have_tickers(table.columns, rows), money=True)
    whole = decimals.total(values)
    if whole <= 0:
        reason = f'Column "{column}" adds up to {decimals.plain(whole)}, so no weights follow.'
        raise DisclosureRefused(reason, table.header_line)
    context = decimals.EXACT.copy()
    context.clear_traps()
    weights = [
        context.divide(context.multiply(value, HUNDRED), whole).quantize(VALUE_PLACES, ROUND_HALF_EVEN, context)
        for value in values
    ]
    return weights, [f'The file has no weights. They were computed from "{column}" and rounded to 8 places.']


def _refuse_mixed_currencies(rows: Sequence[Row], index: int, column: str) -> None:
    """Amounts in several currencies can't be added up. An amount without a currency is in that of the others."""
    first: tuple[int, str] | None = None
    for row in rows:
        number = decimals.written(row.cell(index))
        if not (number and number.currency):
            continue
        first = first or (row.line, number.currency)
        if number.currency != first[1]:
            reason = f'Column "{column}" is in {number.currency} here, but in {first[1]} in line {first[0]}.'
            raise DisclosureRefused(f"{reason} Write all amounts in one currency.", row.line)


def _have_tickers(columns: Columns, rows: Sequence[Row]) -> list[bool]:
    return [row.cell(columns.ticker) not in NONE for row in rows]


# ── from weights ─────────────────────────────────────────────────────────────


def _in_percent(table: Table, rows: list[Row], values: list[Decimal]) -> tuple[list[Decimal], list[str]]:
    unit, notes = _unit(table, rows, values)
    if unit == Unit.FRACTION:
        values = [decimals.EXACT.multiply(value, HUNDRED) for value in values]
    totals.refuse_unnamed(rows, values, _have_tickers(table.columns, rows), money=False)
    return values, notes


def _unit(table: Table, rows: list[Row], values: list[Decimal]) -> tuple[Unit, list[str]]:
    """Percent signs and the header decide; else only a total near 100 or near 1 does."""
    column = table.columns.header[table.columns.measure]
    whole = decimals.total(values)
    like_fractions = WHOLE_FRACTION[0] <= whole <= WHOLE_FRACTION[1]
    if _all_signed(rows, table.columns.measure, column):
        return Unit.PERCENT, []
    if table.columns.unit == Unit.PERCENT:
        if like_fractions and len(values) > 1:
            raise _fractions_called_percent(table, column, len(values), whole)
        return Unit.PERCENT, []
    if table.columns.unit == Unit.FRACTION:
        return Unit.FRACTION, [f'Column "{column}" holds fractions; they were multiplied by 100.']
    said = f'Column "{column}" does not say its unit, and its total is {decimals.plain(whole)}.'
    if WHOLE_PERCENT[0] <= whole <= WHOLE_PERCENT[1]:
        return Unit.PERCENT, [f"{said} It was read as percent."]
    if like_fractions:
        return Unit.FRACTION, [f"{said} It was read as fractions and multiplied by 100."]
    raise DisclosureRefused(f'{said} Name it "weight (%)" or "weight (fraction)".', table.header_line)


def _fractions_called_percent(table: Table, column: str, count: int, whole: Decimal) -> DisclosureRefused:
    reason = f'Column "{column}" says percent, yet its {count} lines add up to {decimals.plain(whole)}.'
    advice = 'They look like fractions: name the column "weight (fraction)", or write the weights in percent.'
    return DisclosureRefused(f"{reason} {advice}", table.header_line)


def _all_signed(rows: list[Row], index: int, column: str) -> bool:
    """Whether the weights carry percent signs. Some with and some without (zero apart) leaves the unit open."""
    signed = [(row, number.percent) for row in rows if (number := decimals.written(row.cell(index)))]
    bare = [row for row, percent in signed if not percent and row.cell(index).strip("0.,-")]
    if len(bare) == len(signed) or not any(percent for _, percent in signed):
        return False
    if bare:
        reason = f'"{bare[0].cell(index)}" in column "{column}" has no percent sign, while others have one.'
        raise DisclosureRefused(reason, bare[0].line)
    return True
