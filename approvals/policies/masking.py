"""Masking: which fields of a call's arguments are marked as sensitive, and what stands in their place. Pure Python.

The bytes that are digested, decided on and sent are never touched: only what is shown of them is.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import rfc8785

SHORTEST = 4  # a shorter value is masked in its field, and not looked for in other texts
WITHHELD = "masked"
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")


@dataclass(frozen=True)
class Mark:
    """A field that not everybody may see. `path`: its names from the top; `*` stands for any name, and a path goes through lists.

    `audited`: who sees it is recorded. `shown_to`: `group:NAME` or `role:NAME` that may see it, beside what it takes anyway.
    """

    path: tuple[str, ...]
    audited: bool = False
    shown_to: str = ""


def mark_at(path: str, *, audited: bool = False, shown_to: str = "") -> Mark:
    """A mark by its path with dots."""
    return Mark(tuple(path.split(".")), audited, shown_to)


class Masked(str):
    """What stands in the place of a masked value: its type, its length, and a digest that only this tenant can compute."""

    __slots__ = ()


@dataclass(frozen=True)
class Veiled:
    """Arguments as they are shown: `value` with what is masked replaced, the `paths` of that, and the `texts` that were masked."""

    value: Any
    paths: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def place_of(path: str, key: str | int) -> str:
    """The path of a part below a path, as people read it: `to.name`, `to[0]`, `to["first name"]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _PLAIN_KEY.match(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def veil(value: Any, marks: Iterable[Mark], *, digest: Callable[[bytes], str]) -> Veiled:
    """A JSON value with every marked field masked. `digest` names canonical bytes, and is keyed: a digest that anybody can
    compute would tell a short value to who tries them all.
    """
    paths: list[str] = []
    texts: set[str] = set()

    def masked(part: Any, place: str) -> Any:
        if part is None:
            return None
        paths.append(place)
        texts.update(_texts_in(part))
        return Masked(f"masked {_kind(part)}, digest {digest(rfc8785.dumps(part))[:12]}")

    shown = _veiled(value, [mark.path for mark in marks], "", masked)
    return Veiled(shown, tuple(paths), tuple(sorted(texts, key=len, reverse=True)))


def _veiled(value: Any, paths: Sequence[tuple[str, ...]], place: str, masked: Callable[[Any, str], Any]) -> Any:
    if not paths:
        return value
    if () in paths:
        return masked(value, place)
    if isinstance(value, list):
        return [_veiled(item, paths, place_of(place, index), masked) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    return {
        key: _veiled(part, [path[1:] for path in paths if path[0] in (key, "*")], place_of(place, key), masked)
        for key, part in value.items()
    }


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return f"text of {len(value)} character{'' if len(value) == 1 else 's'}"
    if isinstance(value, dict | list):
        what = "field" if isinstance(value, dict) else "item"
        return f"{'object' if what == 'field' else 'list'} of {len(value)} {what}{'' if len(value) == 1 else 's'}"
    if isinstance(value, bool):
        return "boolean"
    return f"number of {len(rfc8785.dumps(value))} characters"


def _texts_in(value: Any) -> Iterator[str]:
    """The texts and numbers below a value that are long enough to be told from other words."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _texts_in(key)
            yield from _texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts_in(part)
    elif isinstance(value, str) and len(value.strip()) >= SHORTEST:
        yield value.strip()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        written = rfc8785.dumps(value).decode()
        if len(written) >= SHORTEST:
            yield written


def texts_at(value: Any, marks: Iterable[Mark]) -> tuple[str, ...]:
    """The texts and numbers in the marked fields of a JSON value."""
    return veil(value, marks, digest=lambda _: "").texts


def without(text: str, texts: Iterable[str]) -> str:
    """A text in which each of these texts, as it is or as JSON writes it, is replaced; of a number only where it stands by
    itself. `texts`: the longest first.
    """
    for hidden in texts:
        if _NUMBER.match(hidden):
            text = re.sub(rf"(?<![\d.]){re.escape(hidden)}(?![\d]|\.\d)", WITHHELD, text)
        else:
            for form in (hidden, json.dumps(hidden)[1:-1]):
                text = text.replace(form, WITHHELD)
    return text


def value_without(value: Any, texts: Sequence[str]) -> Any:
    """A JSON value in which each of these texts is replaced, in names too, and each number that is written like one."""
    if not texts:
        return value
    if isinstance(value, str):
        return without(value, texts)
    if isinstance(value, dict):
        return {without(key, texts): value_without(part, texts) for key, part in value.items()}
    if isinstance(value, list):
        return [value_without(part, texts) for part in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and rfc8785.dumps(value).decode() in texts:
        return WITHHELD
    return value
