"""A holdings disclosure from an uploaded file: its lines, exact weights, and what was concluded on the way."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from runtime.tools.disclosure import dates, decimals
from runtime.tools.disclosure.refusal import DisclosureRefused
from runtime.tools.disclosure.rows import Row
from runtime.tools.disclosure.table import DELIMITERS, Table, locate
from runtime.tools.disclosure.text import decode
from runtime.tools.disclosure.tickers import NONE, is_cash_class, is_currency, ticker_of
from runtime.tools.disclosure.weights import weigh

MAX_NAME = 200
FUND_LABEL = re.compile(r"(fund|etf|account)( name| ticker| symbol| code)?|ticker symbol|portfolio name", re.IGNORECASE)


@dataclass(frozen=True)
class Line:
    """One position as the file gives it. `ticker` is "" where it has none, be it that its `code` (the cell as written)
    is one for cash; `weight` is in percent; `cash` is what the asset class says.
    """

    line: int
    name: str
    ticker: str
    code: str
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

    Weights come out in percent, exact as written, or computed from the market values, which a note says. Raises
    DisclosureRefused with line and reason.
    """
    text = decode(data)
    table = locate(text.content)
    weighed = weigh(table)
    lines = tuple(_line(table, row, weight) for row, weight in zip(weighed.rows, weighed.weights, strict=True))
    if not any(line.ticker for line in lines):
        raise DisclosureRefused("No line has a ticker, so there is nothing to compare.", table.header_line)
    fund = _fund(table, weighed.rows)
    as_of, date_notes = _as_of(table, weighed.rows)
    return Disclosure(
        fund=fund,
        as_of=as_of,
        encoding=text.encoding,
        delimiter=DELIMITERS[table.delimiter],
        lines=lines,
        notes=(*weighed.notes, *text.notes, *date_notes, *_line_notes(lines), *_text_notes(table)),
        synthetic=any("synthetic" in cell.casefold() for row in (*table.above, *table.below) for cell in row.cells),
    )


# ── rows ─────────────────────────────────────────────────────────────────────


def _line(table: Table, row: Row, weight: Decimal) -> Line:
    columns = table.columns
    name = " ".join(row.cell(columns.name).split())
    if len(name) > MAX_NAME:
        raise DisclosureRefused(f"The name has more than {MAX_NAME} characters.", row.line)
    code = row.cell(columns.ticker)
    asset_class = row.cell(columns.asset_class)
    ticker = ticker_of(code, name, asset_class, row.line)
    if not ticker and code not in NONE:
        name = name or code  # a code for cash is the only name that a file without names gives it
    if not (ticker or name):
        raise DisclosureRefused("Has a weight but neither ticker nor name. If it is a total, remove it.", row.line)
    return Line(row.line, name, ticker, code, weight, is_cash_class(asset_class))


def _line_notes(lines: tuple[Line, ...]) -> Iterator[str]:
    numbers: dict[str, list[int]] = {}
    for line in lines:
        if line.ticker:
            numbers.setdefault(line.ticker, []).append(line.line)
    for ticker, where in numbers.items():
        if len(where) > 1:
            yield f"{ticker} is on lines {', '.join(map(str, where))}. Its weights were added up."
    for line in lines:
        if not line.ticker and line.code not in NONE:
            yield f"Line {line.line} ({line.code}) is cash. Its code is no ticker, so it counts as a line without one."
        if is_currency(line.ticker) and not (line.cash or line.name):
            yield f"Line {line.line} ({line.ticker}) may be a currency. Nothing says that it is cash, so it counts."
        if line.cash and line.ticker:
            yield f"Line {line.line} ({line.ticker}) is cash by its asset class. It has a ticker, so it counts."
        if line.ticker and line.weight < 0:
            yield f"Line {line.line} ({line.ticker}) has a negative weight."


def _text_notes(table: Table) -> Iterator[str]:
    for row in table.unweighed:
        name = (row.cell(table.columns.name) or row.filled[0])[:MAX_NAME]
        yield f"Line {row.line} ({name}) has neither ticker nor weight. It was left out."
    if table.below:
        where = ", ".join(str(row.line) for row in table.below[:5])
        more = f" and {len(table.below) - 5} more" if len(table.below) > 5 else ""
        yield f"Text that is no position was not read: line {where}{more}."


# ── whose, and of which day ──────────────────────────────────────────────────


def _fund(table: Table, rows: Sequence[Row]) -> str:
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


def _as_of(table: Table, rows: Sequence[Row]) -> tuple[str, list[str]]:
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


def _only_value(table: Table, rows: Sequence[Row], index: int | None, what: str) -> str:
    """The one value of a column; blank cells don't count. Two values mean two disclosures in one file."""
    first = ""
    for row in rows:
        value = row.cell(index)
        first = first or value
        if value and value != first:
            reason = f'The file holds several {what}: "{value[:40]}" here, "{first[:40]}" above. Upload one at a time.'
            raise DisclosureRefused(reason, row.line)
    return first
