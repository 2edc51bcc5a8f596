"""A holdings disclosure from an uploaded file: its lines, exact weights, and what was concluded on the way."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from runtime.tools.disclosure import dates, decimals
from runtime.tools.disclosure.columns import Unit
from runtime.tools.disclosure.refusal import DisclosureRefused
from runtime.tools.disclosure.table import DELIMITERS, Row, Table, locate
from runtime.tools.disclosure.text import decode
from runtime.tools.disclosure.tickers import NONE, is_cash_class, ticker_of

HUNDRED = Decimal(100)
VALUE_PLACES = Decimal("1E-8")
WHOLE_PERCENT = (Decimal(90), Decimal(110))
WHOLE_FRACTION = (Decimal("0.9"), Decimal("1.1"))
LARGEST_TOTAL = Decimal(1000)
MAX_NAME = 200
TOTAL_ROW = re.compile(
    r"(grand |sub-?|fund |portfolio )?totals?( net)?( assets| holdings| portfolio| investments| fund| weight)?:?|"
    r"net assets:?|summe|gesamt",
    re.IGNORECASE,
)
FUND_LABEL = re.compile(r"(fund|etf|account)( name| ticker| symbol| code)?|ticker symbol|portfolio name", re.IGNORECASE)


@dataclass(frozen=True)
class Line:
    """One position as the file gives it. `ticker` is "" where it has none; `weight` is in percent."""

    line: int
    name: str
    ticker: str
    weight: Decimal
    cash: bool


@dataclass(frozen=True)
class Holding:
    """All lines of one ticker together."""

    ticker: str
    name: str
    weight: Decimal
    lines: tuple[int, ...]


@dataclass(frozen=True)
class Disclosure:
    """A disclosure that was read. `fund` and `as_of` are "" where the file does not say; `notes` are for people."""

    fund: str
    as_of: str
    encoding: str
    delimiter: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    synthetic: bool

    @property
    def total_weight(self) -> Decimal:
        return decimals.total(line.weight for line in self.lines)

    @property
    def holdings(self) -> tuple[Holding, ...]:
        """The lines with a ticker, by ticker, in the order of the file; several lines of one ticker add up."""
        by_ticker: dict[str, list[Line]] = {}
        for line in self.lines:
            if line.ticker:
                by_ticker.setdefault(line.ticker, []).append(line)
        return tuple(
            Holding(ticker, lines[0].name, decimals.total(x.weight for x in lines), tuple(x.line for x in lines))
            for ticker, lines in by_ticker.items()
        )

    @property
    def without_ticker(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if not line.ticker)


def read(data: bytes) -> Disclosure:
    """Read an uploaded holdings disclosure.

    Weights come out in percent, exact as written; where the file has only market values they are computed from these
    and rounded half-even to 8 places, which a note says. Raises DisclosureRefused with line and reason.
    """
    text = decode(data)
    table = locate(text.content)
    rows, notes = _without_totals(table)
    if not rows:
        raise DisclosureRefused("There is no position below the header.", table.header_line)
    weights, weight_notes = _weights(table, rows)
    lines = tuple(_line(table, row, weight) for row, weight in zip(rows, weights, strict=True))
    if not any(line.ticker for line in lines):
        raise DisclosureRefused("No line has a ticker, so there is nothing to compare.", table.header_line)
    fund = _fund(table, rows)
    as_of, date_notes = _as_of(table, rows)
    return Disclosure(
        fund=fund,
        as_of=as_of,
        encoding=text.encoding,
        delimiter=DELIMITERS[table.delimiter],
        lines=lines,
        notes=(*text.notes, *date_notes, *weight_notes, *notes, *_line_notes(lines), *_text_notes(table)),
        synthetic=any("synthetic" in cell.casefold() for row in (*table.above, *table.below) for cell in row.cells),
    )


# ── rows ─────────────────────────────────────────────────────────────────────


def _without_totals(table: Table) -> tuple[list[Row], list[str]]:
    """Sum rows are no positions."""
    rows, notes = [], []
    for row in table.positions:
        ticker, name = row.cell(table.columns.ticker), row.cell(table.columns.name) or row.filled[0]
        if not ticker.strip("-") and TOTAL_ROW.fullmatch(name):
            notes.append(f"Line {row.line} is a total and was not read as a position.")
        else:
            rows.append(row)
    return rows, notes


def _line(table: Table, row: Row, weight: Decimal) -> Line:
    columns = table.columns
    name = " ".join(row.cell(columns.name).split())
    if len(name) > MAX_NAME:
        raise DisclosureRefused(f"The name has more than {MAX_NAME} characters.", row.line)
    code = row.cell(columns.ticker)
    ticker = ticker_of(code, name, row.line)
    if not ticker and code not in NONE:
        name = name or code  # a code for cash is the only name that a file without names gives it
    if not (ticker or name):
        raise DisclosureRefused("Has a weight but neither ticker nor name. If it is a total, remove it.", row.line)
    return Line(row.line, name, ticker, weight, is_cash_class(row.cell(columns.asset_class)))


def _line_notes(lines: tuple[Line, ...]) -> Iterator[str]:
    numbers: dict[str, list[int]] = {}
    for line in lines:
        if line.ticker:
            numbers.setdefault(line.ticker, []).append(line.line)
    for ticker, where in numbers.items():
        if len(where) > 1:
            yield f"{ticker} is on lines {', '.join(map(str, where))}. Its weights were added up."
    for line in lines:
        if line.cash and line.ticker:
            yield f"Line {line.line} ({line.ticker}) is cash by its asset class. It has a ticker, so it counts."
        if line.ticker and line.weight < 0:
            yield f"Line {line.line} ({line.ticker}) has a negative weight."


def _text_notes(table: Table) -> Iterator[str]:
    for row in table.unweighed:
        name = row.cell(table.columns.name)[:MAX_NAME]
        yield f"Line {row.line} ({name}) has neither ticker nor weight. It was left out."
    if table.below:
        where = ", ".join(str(row.line) for row in table.below[:5])
        more = f" and {len(table.below) - 5} more" if len(table.below) > 5 else ""
        yield f"Text that is no position was not read: line {where}{more}."


# ── weights ──────────────────────────────────────────────────────────────────


def _weights(table: Table, rows: list[Row]) -> tuple[list[Decimal], list[str]]:
    columns = table.columns
    used = [index for index in (columns.weight, columns.market_value, columns.shares) if index is not None]
    mark = decimals.decimal_mark((row.line, row.cell(index)) for row in rows for index in used)
    column = columns.header[columns.measure]
    values = [decimals.parse(row.cell(columns.measure), mark, row.line, column) for row in rows]
    if columns.weight is None:
        weights, notes = _from_market_values(values, column, table.header_line)
    else:
        weights, notes = _in_percent(table, rows, values)
    whole = decimals.total(weights)
    if abs(whole) > LARGEST_TOTAL:
        reason = f'Column "{column}" adds up to {decimals.plain(whole)} %. These are not weights in percent.'
        raise DisclosureRefused(reason, table.header_line)
    if whole != HUNDRED:
        notes.append(f"The weights add up to {decimals.plain(whole)} %, not 100 %. They were not scaled.")
    if mark == decimals.Mark.COMMA:
        notes.append("Numbers were read with a decimal comma.")
    return weights, notes


def _from_market_values(values: list[Decimal], column: str, line: int) -> tuple[list[Decimal], list[str]]:
    whole = decimals.total(values)
    if whole <= 0:
        raise DisclosureRefused(f'Column "{column}" adds up to {decimals.plain(whole)}, so no weights follow.', line)
    context = decimals.EXACT.copy()
    context.clear_traps()
    weights = [
        context.divide(context.multiply(value, HUNDRED), whole).quantize(VALUE_PLACES, ROUND_HALF_EVEN, context)
        for value in values
    ]
    return weights, [f'The file has no weights. They were computed from "{column}" and rounded to 8 places.']


def _in_percent(table: Table, rows: list[Row], values: list[Decimal]) -> tuple[list[Decimal], list[str]]:
    unit, notes = _unit(table, rows, decimals.total(values))
    if unit == Unit.FRACTION:
        return [decimals.EXACT.multiply(value, HUNDRED) for value in values], notes
    return values, notes


def _unit(table: Table, rows: list[Row], whole: Decimal) -> tuple[Unit, list[str]]:
    """Percent signs and the header decide; else only a total near 100 or near 1 does."""
    columns = table.columns
    column = columns.header[columns.measure]
    if _all_signed(rows, columns.measure, column):
        return Unit.PERCENT, []
    if columns.unit == Unit.PERCENT:
        low, high = WHOLE_FRACTION
        doubt = f'Column "{column}" says percent, yet it adds up to {decimals.plain(whole)}.'
        return Unit.PERCENT, [f"{doubt} Check that it holds no fractions."] if low <= whole <= high else []
    if columns.unit == Unit.FRACTION:
        return Unit.FRACTION, [f'Column "{column}" holds fractions; they were multiplied by 100.']
    said = f'Column "{column}" does not say its unit, and its total is {decimals.plain(whole)}.'
    if WHOLE_PERCENT[0] <= whole <= WHOLE_PERCENT[1]:
        return Unit.PERCENT, [f"{said} It was read as percent."]
    if WHOLE_FRACTION[0] <= whole <= WHOLE_FRACTION[1]:
        return Unit.FRACTION, [f"{said} It was read as fractions and multiplied by 100."]
    raise DisclosureRefused(f'{said} Name it "weight (%)" or "weight (fraction)".', table.header_line)


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


# ── whose, and of which day ──────────────────────────────────────────────────


def _fund(table: Table, rows: list[Row]) -> str:
    fund = _only_value(table, rows, table.columns.fund, "funds")
    return " ".join((fund or _fund_above(table)).split())[:80]


def _fund_above(table: Table) -> str:
    """From the lines above the table: `Ticker Symbol:,SPY`, else a first line that holds a name and nothing else."""
    labelled = [
        (row.cells[0].rstrip(":"), row.filled[1])
        for row in table.above
        if len(row.filled) > 1 and FUND_LABEL.fullmatch(row.cells[0].rstrip(": "))
    ]
    for label, value in sorted(labelled, key=lambda pair: not re.search("ticker|symbol|code", pair[0], re.IGNORECASE)):
        del label
        return value
    first = next((row for row in table.above if row.filled), None)
    if first is None or len(first.filled) != 1 or first.filled[0].startswith("sep="):
        return ""
    return "" if dates.after_as_of(first.filled[0]) else first.filled[0]


def _as_of(table: Table, rows: list[Row]) -> tuple[str, list[str]]:
    written = _only_value(table, rows, table.columns.date, "days") or _day_above(table)
    if not written:
        return "", ["The file does not say of which day it is."]
    day = dates.parse(written)
    if day:
        return day.isoformat(), []
    return written[:40], [f'The day "{written[:40]}" can be read in more than one way. It is shown as written.']


def _day_above(table: Table) -> str:
    for row in table.above:
        text = " ".join(row.filled)
        if (found := dates.after_as_of(text)) and len(found) <= 40:
            return found
    return ""


def _only_value(table: Table, rows: list[Row], index: int | None, what: str) -> str:
    """The one value of a column; blank cells don't count. Two values mean two disclosures in one file."""
    first = ""
    for row in rows:
        value = row.cell(index)
        first = first or value
        if value and value != first:
            reason = f'The file holds several {what}: "{value[:40]}" here, "{first[:40]}" above. Upload one at a time.'
            raise DisclosureRefused(reason, row.line)
    return first
