"""Values made legible without a character more: long numbers and accounts in groups, the single characters that differ marked.

The gaps are drawn, not written, so that what is copied is what is stored.
"""

import difflib
import re
from collections.abc import Collection, Iterator
from html import escape
from itertools import pairwise

from django.utils.safestring import SafeString, mark_safe

from console.pages.text import exact, shown_characters

LONG = 200  # characters: longer texts are not compared character by character
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}[A-Z0-9]{8,30}(?![A-Za-z0-9])")
_NUMBER = re.compile(r"(?<![\w.])(\d{4,40})\.\d+(?![\w.])|(?<![\w.])(\d{5,40})(?![\w.-])")


def legible(text: str, *, marks: Collection[int] = (), quoted: tuple[bool, bool] = (False, False)) -> SafeString:
    """`text` as safe HTML as `exact` shows it, on its own lines. `marks`: the positions that are marked. `quoted`: whether its
    first and its last character are the quotes around a value, which are none of it.
    """
    groups = dict(_groups(text))
    if not groups and not marks and not any(quoted):
        return exact(text)
    odd = shown_characters(text)
    quotes = {at for at, is_quote in ((0, quoted[0]), (len(text) - 1, quoted[1])) if is_quote}
    ends = set(groups.values())
    cuts = sorted({0, len(text), *groups, *ends, *_edges(marks), *_edges(odd), *_edges(quotes)})
    parts: list[str] = []
    for start, end in pairwise(cuts):
        part = "".join(odd.get(at, "") for at in range(start, end)) if start in odd else escape(text[start:end])
        part = f'<b class="ch">{part}</b>' if start in marks else part
        part = f'<span class="qm">{part}</span>' if start in quotes else part
        parts += ['<span class="g">' if start in groups else "", part, "</span>" if end in ends else ""]
    return mark_safe(f'<bdi dir="ltr">{"".join(parts)}</bdi>')  # noqa: S308 - every part is escaped


def _edges(positions: Collection[int]) -> Iterator[int]:
    """Where stretches of neighbouring positions begin and end."""
    for at in positions:
        if at - 1 not in positions:
            yield at
        if at + 1 not in positions:
            yield at + 1


def _groups(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each group: fours of an account, threes of a long number from its point or its end."""
    taken = []
    for found in _ACCOUNT.finditer(text):
        taken.append(found.span())
        for start in range(found.start(), found.end(), 4):
            yield start, min(start + 4, found.end())
    for found in _NUMBER.finditer(text):
        if not any(start <= found.start() < end for start, end in taken):
            yield from _threes(found)


def _threes(found: re.Match[str]) -> Iterator[tuple[int, int]]:
    whole = found.end(1) if found[1] else found.end(2)
    starts = [found.start(), *range(whole - 3 * ((whole - found.start() - 1) // 3), whole, 3)]
    return zip(starts, [*starts[1:], found.end()], strict=True)


def differing(one: str, other: str) -> tuple[frozenset[int], frozenset[int]]:
    """The positions in each of two texts that the other has not, where they are mostly alike; nothing where they are not."""
    if not one or not other or max(len(one), len(other)) > LONG or one == other:
        return frozenset(), frozenset()
    if len(one) == len(other):
        at = frozenset(place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        if 2 * len(at) <= len(one):
            return at, at
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    if matcher.ratio() < 0.5:
        return frozenset(), frozenset()
    changed = [found for found in matcher.get_opcodes() if found[0] != "equal"]
    here = frozenset(at for _, start, end, _, _ in changed for at in range(start, end))
    there = frozenset(at for _, _, _, start, end in changed for at in range(start, end))
    return here, there
