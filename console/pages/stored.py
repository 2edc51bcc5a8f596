"""Stored bytes as a page shows them: rows of every leaf, the exact bytes, a line of the plain facts on top."""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from accounts.codec import BodyChanged
from console.pages.arguments import ArgumentRow, argument_rows
from console.pages.text import exact
from receipts.models import Result, ToolCall
from receipts.selectors import call_arguments, result_bytes
from runs.canonical import canonical, digest
from runtime.masking import Mask

BRIEF = 60  # a longer text is left to the whole value


@dataclass(frozen=True)
class Stored:
    """Canonical JSON as it is stored. `intact`: the bytes still have the digest that was recorded with them. `masked` are the
    places whose value is not shown; then `shown` is what is shown instead of the bytes, and `size` is still theirs.
    """

    plain: bytes
    digest: str
    masked: tuple[str, ...] = ()
    shown: Any = None

    @cached_property
    def intact(self) -> bool:
        return digest(self.plain) == self.digest

    @cached_property
    def rows(self) -> list[ArgumentRow]:
        return argument_rows(self.value)

    @cached_property
    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.plain) if self.shown is None else self.shown
        return value

    @property
    def text(self) -> str:
        return (self.plain if self.shown is None else canonical(self.shown)).decode()

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


def stored_arguments(call: ToolCall, mask: Mask) -> Stored | None:
    """The arguments of a call as they are shown. None when the store's bytes were changed so that they can't be opened or read
    any more, or changed at all where something of them is masked.
    """
    try:
        found = _readable(Stored(call_arguments(call), call.args_digest))
    except BodyChanged:
        return None
    if found is None or not mask.hidden:
        return found
    return replace(found, masked=mask.paths, shown=mask.arguments.value) if found.intact else None


def stored_result(result: Result, mask: Mask) -> Stored | None:
    """A result, without what is masked of its call. None when the store's bytes were changed so that they can't be opened or
    read any more.
    """
    try:
        found = _readable(Stored(result_bytes(result), result.digest))
    except BodyChanged:
        return None
    return replace(found, shown=mask.value(found.value)) if found and mask.hidden else found


def _readable(stored: Stored) -> Stored | None:
    """What is stored, unless it is not what was recorded and no JSON object either."""
    try:
        return stored if stored.intact or isinstance(json.loads(stored.plain), dict) else None
    except (ValueError, RecursionError):
        return None
