"""Lines that sum up others. They are no positions, wherever in the line the word stands and in whichever language."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from runtime.tools.disclosure import decimals
from runtime.tools.disclosure.characters import folded
from runtime.tools.disclosure.columns import Columns, Unit
from runtime.tools.disclosure.refusal import DisclosureRefused
from runtime.tools.disclosure.rows import Row
from runtime.tools.disclosure.tickers import NONE

TOTAL = frozenset(
    [
        "total",
        "totals",
        "totale",
        "totaux",
        "totali",
        "totales",
        "totaal",
        "totalt",
        "subtotal",
        "subtotals",
        "subtotale",
        "subtotaal",
        "sum",
        "sums",
        "summe",
        "summa",
        "somme",
        "suma",
        "soma",
        "gesamt",
        "gesamtsumme",
        "zwischensumme",
        "endsumme",
        "insgesamt",
        "合計",
        "合计",
        "总计",
        "總計",
        "итого",
        "всего",
    ]
)
BESIDE = frozenset(
    [
        "grand",
        "sub",
        "sous",
        "fund",
        "funds",
        "etf",
        "portfolio",
        "net",
        "gross",
        "of",
        "the",
        "all",
        "assets",
        "asset",
        "holdings",
        "holding",
        "positions",
        "position",
        "investments",
        "investment",
        "securities",
        "weight",
        "weights",
        "weighting",
        "value",
        "equity",
        "equities",
        "fixed",
        "income",
        "liabilities",
        "and",
        "in",
        "for",
        "overall",
        "lines",
        "items",
        "count",
        "general",
        "generale",
        "geral",
        "de",
        "du",
        "des",
        "der",
        "la",
        "le",
        "del",
        "di",
        "portefeuille",
        "portafoglio",
        "cartera",
        "actif",
        "actifs",
        "fonds",
        "wertpapiere",
        "positionen",
        "vermogen",
        "percent",
        "usd",
        "eur",
        "gbp",
        "chf",
    ]
)
PHRASES = frozenset(
    (
        "net assets", "net asset value", "total market value", "assets under management", "fondsvermogen",
        "nettofondsvermogen", "nettovermogen", "gesamtvermogen", "gesamtfondsvermogen", "gesamtportfolio",
        "nettoinventarwert", "actif net", "actif total", "patrimonio netto", "patrimonio neto",
    )
)  # fmt: skip
PLAIN = frozenset(
    ["grand", "sub", "subtotal", "gesamtsumme", "zwischensumme", "holdings", "positions", "investments", "assets"]
)
SECURITIES = frozenset(
    ["return", "swap", "market", "bond", "stock", "index", "se", "sa", "plc", "energies", "etf", "fund"]
)
SHORT_TICKER = 4
NEAR = Decimal("0.01")
HUNDRED = Decimal(100)


@dataclass(frozen=True)
class Suspect:
    """A line that may be a total. A `sure` one has to add up; another one that doesn't is a position like others.

    `beside_own` says that the word stands beside a ticker or a name of its own: SUM of Summit, TTE of Total.
    """

    text: str
    sure: bool
    beside_own: bool = False


def suspect(columns: Columns, row: Row) -> Suspect | None:
    """What makes a line look like a total, or None."""
    ticker = row.cell(columns.ticker)
    name = row.cell(columns.name) or next((cell for cell in row.filled if cell != ticker), "")
    has_ticker = ticker not in NONE and bool(ticker.strip("-"))
    if _says_total(ticker):
        own_name = bool(row.cell(columns.name)) and not _says_total(name)
        return Suspect(ticker, not (own_name and len(ticker) <= SHORT_TICKER), own_name)
    if _says_total(name):
        return Suspect(name, not has_ticker or bool(PLAIN & set(_words(name))), has_ticker)
    if not has_ticker and _is_total_of_something(name):
        return Suspect(name, sure=False)
    return None


def find(columns: Columns, rows: Sequence[Row], values: Sequence[Decimal]) -> dict[int, str]:
    """The positions (from 0) of the lines that are totals, each with its note.

    `values` are the numbers as the file has them. Raises DisclosureRefused for a line that is called a total but
    doesn't add up: nobody could say whether it, or a line above it, is wrong.
    """
    suspects = [suspect(columns, row) for row in rows]
    everything = decimals.total(value for value, found in zip(values, suspects, strict=True) if found is None)
    notes: dict[int, str] = {}
    before, section = _Sum(), _Sum()
    for index, (row, value, found) in enumerate(zip(rows, values, suspects, strict=True)):
        sums = [each.value for each in (before, section) if each.count] + [everything]
        if found and _is_total(found, value, sums, before.count, index == len(rows) - 1, _whole(columns)):
            notes[index] = _note(row, value, sums)
            section = _Sum()
            continue
        if found and found.sure:
            raise _does_not_add_up(row, found, value, before.value if before.count else everything)
        before, section = before.plus(value), section.plus(value)
    return notes


def refuse_unnamed(rows: Sequence[Row], values: Sequence[Decimal], tickers: Sequence[bool], *, money: bool) -> None:
    """Refuse a first or last line that is worth all the others together, though it isn't called a total.

    `values` are percent, or amounts if `money`. Amounts are judged only where the line has no ticker (`tickers` says
    which lines have one): a line can well be half of a fund, but none is 100 % beside another 100 %.
    """
    if len(rows) < 3:
        return
    for index in (0, len(rows) - 1):
        rest = decimals.total(value for other, value in enumerate(values) if other != index)
        double = _about(values[index], rest) and (_about(rest, HUNDRED) if not money else not tickers[index])
        if double and rest > 0:
            shown = f"{decimals.plain(values[index])} against {decimals.plain(rest)}"
            reason = f"Weighs as much as all the other lines together ({shown}), so it looks like a total."
            raise DisclosureRefused(f"{reason} Remove it; otherwise every line would count twice.", rows[index].line)


@dataclass(frozen=True)
class _Sum:
    value: Decimal = Decimal(0)
    count: int = 0

    def plus(self, value: Decimal) -> "_Sum":
        return _Sum(decimals.EXACT.add(self.value, value), self.count + 1)


def _is_total(
    found: Suspect, value: Decimal, sums: Sequence[Decimal], count: int, last: bool, whole: Decimal | None
) -> bool:
    adds_up = any(_about(value, each) for each in sums)
    if found.beside_own and not found.sure:
        return last and count > 1 and (adds_up or _is_whole(value, whole))
    return adds_up or (found.sure and _is_whole(value, whole))


def _is_whole(value: Decimal, whole: Decimal | None) -> bool:
    return whole is not None and _about(value, whole)


def _whole(columns: Columns) -> Decimal | None:
    """What all weights of a fund come to; None for amounts."""
    if columns.weight is None:
        return None
    return Decimal(1) if columns.unit == Unit.FRACTION else HUNDRED


def _about(value: Decimal, other: Decimal) -> bool:
    return abs(decimals.EXACT.subtract(value, other)) <= abs(decimals.EXACT.multiply(other, NEAR))


def _note(row: Row, value: Decimal, sums: Sequence[Decimal]) -> str:
    note = f"Line {row.line} is a total and was not read as a position."
    if any(_about(value, each) for each in sums):
        return note
    return f"{note} It says {decimals.plain(value)}, but the lines add up to {decimals.plain(sums[0])}."


def _does_not_add_up(row: Row, found: Suspect, value: Decimal, before: Decimal) -> DisclosureRefused:
    reason = f'"{found.text[:40]}" looks like a total of {decimals.plain(value)}, but the other lines add up to'
    return DisclosureRefused(f"{reason} {decimals.plain(before)}. Correct the file or remove the line.", row.line)


def _says_total(cell: str) -> bool:
    words = _words(cell)
    if " ".join(words) in PHRASES:
        return True
    return any(word in TOTAL for word in words) and all(word in TOTAL or word in BESIDE for word in words)


def _is_total_of_something(name: str) -> bool:
    """`Total Technology`, or `Technology Total` as spreadsheets write it."""
    words = _words(name)
    return len(words) > 1 and (words[0] in TOTAL or words[-1] in TOTAL) and not SECURITIES & set(words)


def _words(cell: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", folded(re.sub(r"\([^)]*\)", " ", cell)))
