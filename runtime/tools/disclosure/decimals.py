"""Numbers as fund houses write them, read exactly. Where a mark could mean two things the number is refused."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from enum import StrEnum

from runtime.tools.disclosure.currencies import beside
from runtime.tools.disclosure.refusal import DisclosureRefused

# Sums and differences are exact or they raise: 30 digits on each side and 20,000 lines fit many times over.
EXACT = Context(prec=120, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow])
MAX_DIGITS = 30

SPACES = "\u00a0\u202f\u2009 "
SCIENTIFIC = re.compile(r"(\d+(?:\.\d+)?)[eE]([+-]?\d{1,2})")
BARE = re.compile(r"[0-9.,]*[0-9][0-9.,]*")
GROUPED_BY_SPACE = re.compile(r"\d{1,3}(?:[\u00a0\u202f\u2009 ]\d{3})+(?:[.,]\d+)?")
GROUPED_BY_APOSTROPHE = re.compile(r"\d{1,3}(?:['’]\d{3})+(?:[.,]\d+)?")
EMPTY = frozenset({"", "-", "--", "---", "–", "—", "n/a", "#n/a"})


class Mark(StrEnum):
    """The decimal mark of a file."""

    POINT = "."
    COMMA = ","


@dataclass(frozen=True)
class Written:
    """A number as it stands in a cell: sign, digits with their marks, whether a percent sign follows, and the code of
    the currency that stands beside it ("" for none).
    """

    negative: bool
    digits: str
    percent: bool
    currency: str


def is_empty(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().casefold() in EMPTY


def written(cell: str) -> Written | None:
    """Take a cell apart, or None if it is no number. Knows currency and percent signs, (1.2) for -1.2, and spaces or
    apostrophes between thousands.
    """
    text = cell.strip().replace("\u2212", "-")
    signs: list[str] = []
    currency = ""
    while len(signs) < 4:
        text = text.strip(SPACES)
        found, rest = beside(text)
        if found and not currency:
            currency, text = found, rest
        elif text.startswith("(") and text.endswith(")"):
            signs, text = [*signs, "()"], text[1:-1]
        elif text.endswith("%"):
            signs, text = [*signs, "%"], text[:-1]
        elif text.startswith(("-", "+")):
            signs, text = [*signs, text[0]], text[1:]
        else:
            break
    if GROUPED_BY_SPACE.fullmatch(text) or GROUPED_BY_APOSTROPHE.fullmatch(text):
        text = re.sub(r"[^0-9.,]", "", text)
    directions = [sign for sign in signs if sign != "%"]
    if len(directions) > 1 or signs.count("%") > 1 or not (BARE.fullmatch(text) or SCIENTIFIC.fullmatch(text)):
        return None
    return Written(directions in (["-"], ["()"]), text, "%" in signs, currency)


def evidence(digits: str) -> Mark | None:
    """Which decimal mark a number proves, or None if it would be a number either way."""
    if SCIENTIFIC.fullmatch(digits):
        return Mark.POINT if "." in digits else None
    points, commas = digits.count("."), digits.count(",")
    if points and commas:
        return Mark.POINT if digits.rindex(".") > digits.rindex(",") else Mark.COMMA
    if points + commas == 0:
        return None
    if points + commas > 1:
        return Mark.COMMA if points else Mark.POINT
    whole, _, rest = digits.partition("." if points else ",")
    could_be_group = len(rest) == 3 and 1 <= len(whole) <= 3 and not whole.startswith("0")
    if could_be_group:
        return None
    return Mark.POINT if points else Mark.COMMA


def decimal_mark(cells: Iterable[tuple[int, str]]) -> Mark | None:
    """The decimal mark that the numbers of a file prove together; None if none of them proves one.

    `cells` are (line, cell). Raises DisclosureRefused where two of them contradict each other.
    """
    first: tuple[int, str, Mark] | None = None
    for line, cell in cells:
        number = written(cell)
        mark = evidence(number.digits) if number else None
        if mark is None:
            continue
        if first is None:
            first = (line, cell, mark)
        elif first[2] != mark:
            names = {Mark.POINT: "point", Mark.COMMA: "comma"}
            reason = f'"{cell}" has a decimal {names[mark]}, but "{first[1]}" in line {first[0]} a decimal'
            raise DisclosureRefused(f"{reason} {names[first[2]]}. Write all numbers the same way.", line)
    return first[2] if first else None


def parse(cell: str, mark: Mark | None, line: int, column: str) -> Decimal:
    """The exact value of a cell; a percent sign is not applied.

    `mark` is the decimal mark of the file, None if nothing in it proves one: a point is then the decimal mark, and a
    single comma before three digits is refused. Raises DisclosureRefused with line and column.
    """
    number = written(cell)
    if number is None:
        raise DisclosureRefused(f'"{_shown(cell)}" in column "{column}" is not a number.', line)
    if mark is None and "," in number.digits:
        reason = f'"{cell}" in column "{column}" can be read in two ways (decimal comma or thousands).'
        raise DisclosureRefused(f"{reason} Write it without thousands separators.", line)
    plain = _plain(number.digits, mark or Mark.POINT)
    if plain is None:
        raise DisclosureRefused(f'"{_shown(cell)}" in column "{column}" is not a number: its marks do not fit.', line)
    value = Decimal(plain)
    _, digits, exponent = value.as_tuple()
    if len(digits) > MAX_DIGITS or not -MAX_DIGITS <= int(exponent) <= MAX_DIGITS:
        raise DisclosureRefused(f'The number in column "{column}" has more than {MAX_DIGITS} digits.', line)
    return value.copy_negate() if number.negative else value


def _plain(digits: str, mark: Mark) -> str | None:
    """The number with a decimal point and no groups, or None if it isn't well formed."""
    if SCIENTIFIC.fullmatch(digits):
        return digits
    group = "," if mark == Mark.POINT else "."
    shape = rf"(\d{{1,3}}(?:\{group}\d{{3}})+|\d*)(?:\{mark}(\d*))?"
    match = re.fullmatch(shape, digits)
    if match is None or not (match[1] or match[2]):
        return None
    return f"{match[1].replace(group, '') or '0'}.{match[2] or '0'}" if match[2] else match[1].replace(group, "")


def total(values: Iterable[Decimal]) -> Decimal:
    """The exact sum."""
    result = Decimal(0)
    for value in values:
        result = EXACT.add(result, value)
    return result


def plain(value: Decimal) -> str:
    """A decimal as text without exponent and without a negative zero: the form that receipts and reports carry."""
    text = format(value, "f")
    return text.removeprefix("-") if not value else text


def _shown(cell: str) -> str:
    return cell if len(cell) <= 40 else f"{cell[:40]}…"
