"""Canonical JSON arguments as rows: path, type, length and the exact value, in the order of the digested bytes."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import rfc8785
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from approvals.policies import Masked, place_of
from console.pages.legible import legible
from console.pages.text import Odd, exact, loud_characters

MAX_EXACT_INTEGER = 2**53 - 1
WIDE = 200  # a longer text, or one of several lines, gets the whole width
LINE_FEED = '<span class="inv inv--line" title="U+000A line feed">↵</span>'


@dataclass(frozen=True)
class ArgumentRow:
    """One leaf of the arguments. `odd` lists what a person has to mark as seen, in the path or in the value. `masked`: its
    value is not shown, and what stands in its place says type, length and digest.
    """

    path: str
    kind: str
    value: SafeString
    odd: tuple[Odd, ...]
    wide: bool = False
    masked: bool = False

    @property
    def shown_path(self) -> SafeString:
        return exact(self.path, one_line=True)


def argument_rows(arguments: bytes | str | Any) -> list[ArgumentRow]:
    """The rows of canonical JSON `arguments` (its bytes, its text, or the parsed value), nothing shortened.

    Raises ValueError for bytes that are not JSON.
    """
    value = json.loads(arguments) if isinstance(arguments, bytes | str) else arguments
    return [_row(path, leaf) for path, leaf in leaves(value)]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of a JSON value with its path, in order. An empty object or list is a leaf."""
    if isinstance(value, dict) and value:
        for key in value:
            yield from leaves(value[key], place_of(path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, place_of(path, index))
    else:
        yield path, value


def leaf_text(value: Any) -> str:
    r"""A leaf as JSON-like text: strings in quotes with `\` and `"` marked, everything else canonical."""
    if not isinstance(value, str):
        return rfc8785.dumps(value).decode()
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _row(path: str, value: Any) -> ArgumentRow:
    if isinstance(value, Masked):
        return ArgumentRow(
            path, "masked", exact(value.removeprefix("masked ")), tuple(loud_characters(path)), masked=True
        )
    odd = loud_characters(path) + (loud_characters(value) if isinstance(value, str) else [])
    wide = isinstance(value, str) and (len(value) > WIDE or "\n" in value)
    return ArgumentRow(path or "(all)", _kind(value), _shown(value), tuple(odd), wide)


def _kind(value: Any) -> str:
    if isinstance(value, str):
        of = "digit" if value.isascii() and value.isdigit() else "character"
        return f"text of {len(value)} {of}{'' if len(value) == 1 else 's'}" if value else "text, empty"
    names: dict[type, str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        dict: "object, empty",
        list: "list, empty",
    }
    return names.get(type(value), "null")


def _shown(value: Any) -> SafeString:
    if not isinstance(value, str):
        return legible(rfc8785.dumps(value).decode())
    shown = mark_safe("".join(_line_parts(leaf_text(value))))  # noqa: S308 - legible() escapes each part
    note = '{} <span class="inv inv--plain">too big for a number, so a string</span>'
    return format_html(note, shown) if _is_big_number(value) else shown


def _line_parts(text: str) -> Iterator[str]:
    """Each line feed is named and also breaks the line, so that it can't be taken for a wrapped line."""
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        yield f"{legible(line, quoted=(number == 0, False))}{LINE_FEED}\n"
    yield legible(lines[-1], quoted=(len(lines) == 1, True))


def _is_big_number(text: str) -> bool:
    return len(text) < 400 and bool(re.fullmatch(r"-?[0-9]+", text)) and abs(int(text)) > MAX_EXACT_INTEGER
