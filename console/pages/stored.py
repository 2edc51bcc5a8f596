"""Stored bytes as a page shows them: rows of every leaf, the exact bytes, a line of the plain facts on top."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from accounts.codec import BodyChanged
from console.pages.arguments import ArgumentRow, argument_rows
from console.pages.text import exact
from receipts.models import Result, ToolCall
from receipts.selectors import call_arguments, result_bytes
from runs.canonical import digest

BRIEF = 60  # a longer text is left to the whole value


@dataclass(frozen=True)
class Stored:
    """Canonical JSON as it is stored. `intact`: the bytes still have the digest that was recorded with them."""

    plain: bytes
    digest: str

    @cached_property
    def intact(self) -> bool:
        return digest(self.plain) == self.digest

    @cached_property
    def rows(self) -> list[ArgumentRow]:
        return argument_rows(self.plain)

    @cached_property
    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.plain)
        return value

    @property
    def text(self) -> str:
        return self.plain.decode()

    @property
    def size(self) -> int:
        return len(self.plain)

    @property
    def count(self) -> int:
        return len(self.value)

    @property
    def brief(self) -> SafeString:
        """The short facts on the first level, and how long its lists are."""
        return brief_of(self.value)


def brief_of(value: dict[str, Any]) -> SafeString:
    """The short facts on the first level of a value, and how long its lists are."""
    return format_html_join(" · ", "{} {}", _brief(value))


def _brief(value: dict[str, Any]) -> list[tuple[SafeString, SafeString]]:
    facts = []
    for key, part in value.items():
        if isinstance(part, list):
            text = f"{len(part)} item{'' if len(part) == 1 else 's'}"
        elif isinstance(part, dict):
            continue
        else:
            text = part if isinstance(part, str) else json.dumps(part)
        if len(text) <= BRIEF:
            facts.append((exact(key, one_line=True), exact(text, one_line=True)))
    return facts


def stored_arguments(call: ToolCall) -> Stored | None:
    """The arguments of a call. None when the store's bytes were changed so that they can't be opened or read any more."""
    try:
        return _readable(Stored(call_arguments(call), call.args_digest))
    except BodyChanged:
        return None


def stored_result(result: Result) -> Stored | None:
    """A result. None when the store's bytes were changed so that they can't be opened or read any more."""
    try:
        return _readable(Stored(result_bytes(result), result.digest))
    except BodyChanged:
        return None


def _readable(stored: Stored) -> Stored | None:
    """What is stored, unless it is not what was recorded and no JSON object either."""
    try:
        return stored if stored.intact or isinstance(json.loads(stored.plain), dict) else None
    except (ValueError, RecursionError):
        return None
