"""Finding the table in a file: delimiter, header row, positions, and the text above and below it."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from runtime.tools.disclosure import decimals
from runtime.tools.disclosure.characters import named
from runtime.tools.disclosure.columns import Columns, heads_another_table, missing, recognise
from runtime.tools.disclosure.refusal import DisclosureRefused
from runtime.tools.disclosure.rows import Row
from runtime.tools.disclosure.tickers import NONE, looks_like_ticker
from runtime.tools.disclosure.totals import suspect

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
HEADER_WITHIN = 100
PROSE_WORDS = 6
AS_TEXT = re.compile(r'="([^"]*)"')


@dataclass(frozen=True)
class Table:
    """The holdings table: its columns, its rows that are positions, those with neither ticker nor weight, and the text
    rows around it.
    """

    delimiter: str
    header_line: int
    columns: Columns
    positions: tuple[Row, ...]
    unweighed: tuple[Row, ...]
    above: tuple[Row, ...]
    below: tuple[Row, ...]


def locate(content: str) -> Table:
    """Find the holdings table. Raises DisclosureRefused where there is none, or where a row does not fit it."""
    delimiter = _delimiter(content)
    rows = _rows(content, delimiter)
    above: list[Row] = []
    first: Row | None = None
    for row in rows:
        columns = recognise(row.cells, row.line)
        if columns:
            if first:
                raise _two_tables(first, row)
            return _split(delimiter, columns, row, above, list(rows))
        if heads_another_table(row.cells, row.line):
            first = first or row
        above.append(row)
    raise DisclosureRefused("No header row was found.")


def _delimiter(content: str) -> str:
    """The one delimiter under which a header row appears."""
    found: list[str] = []
    hints: list[DisclosureRefused] = []
    for delimiter in DELIMITERS:
        try:
            for row in islice(_rows(content, delimiter), HEADER_WITHIN):
                if recognise(row.cells, row.line):
                    found.append(delimiter)
                    break
                if len(row.filled) > 1 and (hint := missing(row.cells)):
                    hints.append(
                        DisclosureRefused(f"This row {hint}. The header was: {', '.join(row.filled)[:200]}", row.line)
                    )
        except DisclosureRefused as refusal:
            hints.append(refusal)
    if len(found) == 1:
        return found[0]
    if found:
        raise DisclosureRefused("The header row can be split in more than one way. Use one delimiter only.")
    raise (
        hints[0]
        if hints
        else DisclosureRefused(
            "No header row was found. A holdings table needs a row that names a ticker column (ticker, symbol) and a "
            "weight column (weight (%), % of net assets) or a market value column."
        )
    )


def _rows(content: str, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    line = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DisclosureRefused(f"The quoting is damaged here ({error}).", line) from error
        yield Row(line, tuple(_clean(cell) for cell in cells))
        line = reader.line_num + 1


def _clean(cell: str) -> str:
    """Without surrounding space, a stray byte-order mark, and the ="..." by which Excel is made to keep text as text."""
    bare = cell.strip().strip("\ufeff")
    as_text = AS_TEXT.fullmatch(bare)
    return as_text[1].strip() if as_text else bare


def _split(delimiter: str, columns: Columns, header: Row, above: list[Row], rows: list[Row]) -> Table:
    """Positions and the text below them. Text lines and blank lines may stand between positions; below other text none
    may follow, since then nobody could say where the table ends.
    """
    columns = _by_value_if_unweighed(columns, rows)
    positions: list[Row] = []
    unweighed: list[Row] = []
    below: list[Row] = []
    gap, ended = False, 0
    for row in rows:
        if not _is_position(columns, row) and heads_another_table(row.cells, row.line):
            raise _two_tables(header, row)
        if _is_position(columns, row):
            if ended:
                raise DisclosureRefused(f"Looks like a position, but the table ended at line {ended}.", row.line)
            positions.append(_checked(columns, row, delimiter))
        elif not row.filled:
            gap = True
        elif _is_text(row):
            gap = True
            below.append(row)
        elif _is_unweighed(columns, row):
            unweighed.append(row)
        elif ended or _is_prose(row) or (gap and not _claims_ticker(columns, row)):
            ended = ended or row.line
            below.append(row)
        else:
            raise _incomplete(columns, row)
    return Table(delimiter, header.line, columns, tuple(positions), tuple(unweighed), tuple(above), tuple(below))


def _by_value_if_unweighed(columns: Columns, rows: list[Row]) -> Columns:
    """A weight column that is empty throughout gives way to the market values."""
    if columns.weight is None or columns.market_value is None:
        return columns
    empty = all(decimals.is_empty(row.cell(columns.weight)) for row in rows)
    return replace(columns, weight=None) if empty else columns


def _is_position(columns: Columns, row: Row) -> bool:
    return decimals.written(row.cell(columns.measure)) is not None


def _two_tables(first: Row, second: Row) -> DisclosureRefused:
    reason = f"This is a second header row; the first is in line {first.line}. This file holds two tables; keep one."
    return DisclosureRefused(reason, second.line)


def _checked(columns: Columns, row: Row, delimiter: str) -> Row:
    extra = [cell for cell in row.cells[len(columns.header) :] if cell]
    if extra:
        reason = f"Has {len(row.cells)} values, but the header names {len(columns.header)} columns."
        raise DisclosureRefused(f"{reason} Numbers with thousands separators must be quoted.", row.line)
    if any(_swallows_lines(cell, delimiter, len(columns.header)) for cell in row.cells):
        raise DisclosureRefused("A quoted value runs over the end of the line.", row.line)
    return row


def _swallows_lines(cell: str, delimiter: str, width: int) -> bool:
    """Whether a quote that nobody closed took in parts of other rows. A name may well run over two lines."""
    if "\n" not in cell and "\r" not in cell:
        return False
    pieces = [piece.strip() for line in cell.splitlines() if delimiter in line for piece in line.split(delimiter)]
    return cell.count(delimiter) >= width - 1 or any(decimals.written(piece) for piece in pieces)


def _is_unweighed(columns: Columns, row: Row) -> bool:
    if len(row.cells) != len(columns.header) or not decimals.is_empty(row.cell(columns.measure)):
        return False
    return (row.cell(columns.ticker) in NONE and bool(row.cell(columns.name))) or suspect(columns, row) is not None


def _is_text(row: Row) -> bool:
    """One cell with something in it: a heading or a disclaimer. A lone word without any delimiter is a cut-off row."""
    return len(row.filled) == 1 and (len(row.cells) > 1 or " " in row.filled[0])


def _is_prose(row: Row) -> bool:
    return len(re.findall(r"[^\W\d]{2,}", row.filled[0])) >= PROSE_WORDS


def _claims_ticker(columns: Columns, row: Row) -> bool:
    return len(row.cells) == len(columns.header) and looks_like_ticker(row.cell(columns.ticker))


def _incomplete(columns: Columns, row: Row) -> DisclosureRefused:
    cell, column = row.cell(columns.measure), columns.header[columns.measure]
    if cell and not decimals.is_empty(cell):
        odd = next((char for char in cell if char.isalnum() and not char.isascii()), None)
        why = f": it holds the character {named(odd)}" if odd else ""
        return DisclosureRefused(f'"{cell[:40]}" in column "{column}" is not a number{why}.', row.line)
    if len(row.cells) < len(columns.header):
        return DisclosureRefused(
            f"Has {len(row.cells)} values, but the header names {len(columns.header)} columns.", row.line
        )
    return DisclosureRefused(f'Has no number in column "{column}".', row.line)
