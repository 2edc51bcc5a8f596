"""What a passage says of a claim, by words and numbers alone. It knows no meaning, and the report says so."""

import re
from collections.abc import Iterable
from enum import StrEnum

WORD = re.compile(r"[^\W_]+(?:[.,'’][^\W_]+)*")
GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")
NEGATIONS = frozenset({"no", "not", "never", "none", "neither", "nor", "without", "cannot"})
COMMON_WORDS = (
    "a about all an and any are as at be been but by did do does for from had has have in into is it its of on or "
    "over than that the their there they this to under was were which who whom will with"
)
COMMON = frozenset(COMMON_WORDS.split())


class Verdict(StrEnum):
    """What all passages together say of a claim."""

    SUPPORTED = "SUPPORTED"  # a passage has all its words and numbers
    AT_ODDS = "AT_ODDS"  # a passage has all its words, with other numbers or another negation
    DISPUTED = "DISPUTED"  # one passage supports it, another is at odds with it
    NOT_FOUND = "NOT_FOUND"  # searched, and no passage has all its words
    NOT_SEARCHED = "NOT_SEARCHED"  # the search gave no usable answer


def says(claim: str, passage: str) -> Verdict:
    """SUPPORTED, AT_ODDS or NOT_FOUND, for one passage."""
    wanted, found = _Read(claim), _Read(passage)
    if not wanted.words <= found.words:
        return Verdict.NOT_FOUND
    if wanted.negated != found.negated:
        return Verdict.AT_ODDS
    if wanted.numbers <= found.numbers:
        return Verdict.SUPPORTED
    return Verdict.AT_ODDS if found.numbers - wanted.numbers else Verdict.NOT_FOUND


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim from those of its passages."""
    found = set(verdicts) - {Verdict.NOT_FOUND}
    if not found:
        return Verdict.NOT_FOUND
    return found.pop() if len(found) == 1 else Verdict.DISPUTED


class _Read:
    """The words of a text without common ones, its numbers, and whether it negates."""

    def __init__(self, text: str) -> None:
        found = WORD.findall(GROUPED.sub("", text.casefold()))
        self.numbers = {word for word in found if any(char.isdigit() for char in word)}
        self.negated = any(word in NEGATIONS or word.endswith(("n't", "n’t")) for word in found)
        self.words = set(found) - self.numbers - NEGATIONS - COMMON
