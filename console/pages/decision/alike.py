"""How a value stands to the values that people have approved before: never seen, nearly one of them, or another size. Pure Python."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from approvals.policies import Masked
from console.pages.arguments import leaves

SHORT = 120  # characters: a longer text is compared line by line instead
LOOKS_ALIKE = 6  # characters: of two shorter texts one or two that differ are no likeness
NAME_DIGITS = 8
DIGITS = 25  # a number of more is no amount, and could not be reckoned with exactly
OFTEN = 2  # how often a value was approved before another one is held against it

Values = Mapping[str, str]


def short_values(arguments: Any) -> dict[str, str]:
    """The leaves of arguments that can be compared as they are, by their path. What is masked, and long texts, are left out."""
    found = {}
    for path, leaf in leaves(arguments):
        if isinstance(leaf, Masked) or leaf is None or isinstance(leaf, bool | dict | list):
            continue
        text = leaf if isinstance(leaf, str) else json.dumps(leaf)
        if text and len(text) <= SHORT and "\n" not in text:
            found[path] = text
    return found


# ── texts that look alike ────────────────────────────────────────────────────


@dataclass(frozen=True)
class Near:
    """A value that was approved so many times and looks like another one, and how the two differ, in words."""

    value: str
    times: int
    how: str


def nearest(value: str, seen: Mapping[str, int]) -> Near | None:
    """The value among those seen that this one could be taken for: one or two characters differ, or have changed places."""
    if len(value) < LOOKS_ALIKE or value in seen:
        return None
    found = [
        (distance, -times, other)
        for other, times in seen.items()
        if times >= OFTEN and len(other) >= LOOKS_ALIKE and (distance := apart(value, other)) is not None
    ]
    if not found:
        return None
    _, times, other = min(found)
    return Near(other, -times, _how(value, other))


def apart(one: str, other: str, most: int = 2) -> int | None:
    """How many characters have to be put in, taken out or changed to make one text the other; None for more than `most`."""
    if abs(len(one) - len(other)) > most:
        return None
    before = list(range(len(other) + 1))
    for row, char in enumerate(one, start=1):
        now = [row]
        for column, against in enumerate(other, start=1):
            now.append(min(before[column] + 1, now[-1] + 1, before[column - 1] + (char != against)))
        if min(now) > most:
            return None
        before = now
    return before[-1] if before[-1] <= most else None


def _how(one: str, other: str) -> str:
    differing = [at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    if len(one) == len(other) and len(differing) == 2:
        first, second = differing
        if (one[first], one[second]) == (other[second], other[first]):
            return "2 characters have changed places"
    count = apart(one, other) or 0
    return f"{count} character{' differs' if count == 1 else 's differ'}"


# ── values that were never there ─────────────────────────────────────────────


def is_steady(seen: Mapping[str, int]) -> bool:
    """Whether the values at a place come back, so that one that was never there says something. A running number does not."""
    total = sum(seen.values())
    return total >= OFTEN and 2 * len(seen) <= total


def counted(values: Sequence[Values]) -> dict[str, Counter[str]]:
    """By path, how often each value was there."""
    found: dict[str, Counter[str]] = {}
    for one in values:
        for path, value in one.items():
            found.setdefault(path, Counter())[value] += 1
    return found


# ── numbers ──────────────────────────────────────────────────────────────────


def number(text: str) -> Decimal | None:
    """A text as the number that it is, if it is nothing else."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    plain = found.is_finite() and text.strip() == text and "_" not in text
    return found if plain and abs(found.adjusted()) < DIGITS and len(found.as_tuple().digits) < DIGITS else None


def are_numbers(seen: Mapping[str, int]) -> bool:
    """Whether every value so far was a number, so that one that is none, or too long to be reckoned with, says something."""
    return bool(seen) and all(number(value) is not None for value in seen)


def is_amount(text: str) -> bool:
    """Whether a text is a number that is held against others by its size. A long one without a point may be a name, as an account is."""
    return number(text) is not None and ("." in text or len(text) < NAME_DIGITS)


def moved_point(now: Decimal, then: Decimal) -> str:
    """“10 times” where two numbers are the same digits with the point elsewhere, or an empty text."""
    for power in range(1, 7):
        factor = Decimal(10) ** power
        if then and now == then * factor:
            return f"{factor:,} times"
        if now and then == now * factor:
            return f"a {factor:,}th part of"
    return ""


def larger(now: Decimal, before: Sequence[Decimal]) -> str:
    """Where a number is larger than every one before, the newest of them last: by how much, and how they went; else nothing."""
    if not before or now <= max(before):
        return ""
    said = f"{now - before[-1]:f} more than the last one, which was {before[-1]:f}"
    steps = [later - earlier for earlier, later in pairwise(before)][-3:]
    if steps and all(step == steps[0] for step in steps) and steps[0]:
        return f"{said}; before, it went by {steps[0]:+f} each time"
    return f"{said}; the most so far was {max(before):f}"


def far_off(now: Decimal, before: Sequence[Decimal]) -> str:
    """Where a number is larger than every one before, or ten times off the middle of them, that in words; else nothing."""
    middle = sorted(before)[len(before) // 2]
    if now > max(before):
        return (
            f"larger than any that was approved, {_ratio(now / middle)} the middle one"
            if middle > 0
            else "larger than any that was approved"
        )
    if middle > 0 and now >= 10 * middle:
        return f"{_ratio(now / middle)} the middle one"
    if now > 0 and middle >= 10 * now:
        return f"the middle one is {_ratio(middle / now)} as much"
    return ""


def _ratio(of: Decimal) -> str:
    return f"{of:,.0f} times" if of >= 10 else f"{of:.1f} times"
