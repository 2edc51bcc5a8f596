"""Claims as a person gives them: one a line. A claim is named by what it says, so its id is the same everywhere."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runs.canonical import digest
from runtime.contracts import ArgumentsRefused, PriorResult
from runtime.tools import stored

MAX_CLAIMS = 20
SHORTEST, LONGEST = 8, 300
ID_PATTERN = r"^c-[0-9a-f]{12}$"


class ClaimsRefused(ValueError):
    """The claims can't be used. The message names the line and the reason."""


@dataclass(frozen=True)
class Claim:
    """One claim: its id, the line it stands on (from 1) and its words."""

    id: str
    line: int
    text: str


def read(data: bytes) -> tuple[Claim, ...]:
    """The claims of a text in UTF-8, one a line; empty lines and lines that start with # are passed over.

    From 1 to 20, each of 8 to 300 characters, none twice. Raises ClaimsRefused.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ClaimsRefused(f"Line {line} is not UTF-8 text.") from error
    claims = tuple(_claims(text))
    if not claims:
        raise ClaimsRefused("There is no claim. Write one a line.")
    if len(claims) > MAX_CLAIMS:
        raise ClaimsRefused(f"Line {claims[MAX_CLAIMS].line}: at most {MAX_CLAIMS} claims are taken.")
    return claims


def _claims(text: str) -> Iterator[Claim]:
    seen: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        words = " ".join(line.split())
        if not words or words.startswith("#"):
            continue
        _check(words, number)
        claim = Claim(f"c-{digest(words.encode())[:12]}", number, words)
        if claim.id in seen:
            raise ClaimsRefused(f"Line {number} repeats the claim of line {seen[claim.id]}.")
        seen[claim.id] = number
        yield claim


def _check(words: str, number: int) -> None:
    control = next((char for char in words if unicodedata.category(char) == "Cc"), None)
    if control is not None:
        raise ClaimsRefused(f"Line {number} holds the control character U+{ord(control):04X}.")
    if not SHORTEST <= len(words) <= LONGEST:
        raise ClaimsRefused(f"Line {number} has {len(words)} characters; a claim has {SHORTEST} to {LONGEST}.")


def stored_claims(results: Sequence[PriorResult]) -> dict[str, str]:
    """Id to words of the claims as they were read. Raises ArgumentsRefused if they were not read."""
    found = stored.newest(results, "read_claims")
    if found is None:
        raise ArgumentsRefused("The claims have not been read. Call read_claims first.")
    return {claim["id"]: claim["text"] for claim in found.value["claims"]}


def claims_value(claims: Sequence[Claim]) -> dict[str, Any]:
    """Claims as the JSON that is stored and that the model may read."""
    return {"claims": [{"id": claim.id, "line": claim.line, "text": claim.text} for claim in claims]}
