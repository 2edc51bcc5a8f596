"""The arguments of a call as fields to be changed one by one, and what was typed put back into them. Pure Python."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from approvals.policies import place_of
from console.pages.text import loud_characters
from runs.canonical import NotCanonical, parse

MOST = 60  # fields: arguments with more leaves are changed as JSON
LINE = 80  # characters: a longer text gets several lines
_PREFIX = "leaf-"

Tokens = tuple[str | int, ...]


class FieldFault(ValueError):
    """What was typed in one field is no value of its kind. `path` names the argument."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = path, why


@dataclass(frozen=True)
class ArgumentField:
    """One leaf as a form shows it. `control` names how it is typed: line, lines, number or yes."""

    name: str
    path: str
    control: str
    typed: str

    @property
    def odd(self) -> bool:
        """Whether it holds characters that a field does not show."""
        return bool(loud_characters(self.typed))


def fields_of(arguments: Mapping[str, Any], sent: Mapping[str, str]) -> list[ArgumentField]:
    """The fields of arguments, with what was typed where something was sent. None where they are too many to be read so."""
    leaves = list(_leaves(arguments))
    if len(leaves) > MOST:
        return []
    return [
        ArgumentField(_name(at), _path(tokens), _control(value), sent.get(_name(at), _text(value)))
        for at, (tokens, value) in enumerate(leaves)
    ]


def changed_by_fields(arguments: Mapping[str, Any], sent: Mapping[str, str]) -> dict[str, Any]:
    """The arguments with what was typed in their fields; a field that was not sent, and one that says the same, leaves its value
    to the byte. Raises FieldFault.
    """
    changed = deepcopy(dict(arguments))
    for at, (tokens, value) in enumerate(list(_leaves(arguments))):
        typed = sent.get(_name(at))
        if typed is None or typed.replace("\r\n", "\n") == _text(value).replace("\r\n", "\n").replace("\r", "\n"):
            continue
        _put(changed, tokens, _value(typed.replace("\r\n", "\n"), value, _path(tokens)))
    return changed


def _leaves(value: Any, tokens: Tokens = ()) -> Iterator[tuple[Tokens, Any]]:
    """The leaves that can be typed in a field, in order: texts, numbers, yes and no."""
    if isinstance(value, Mapping):
        for key in value:
            yield from _leaves(value[key], (*tokens, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, (*tokens, index))
    elif value is not None:
        yield tokens, value


def _put(into: Any, tokens: Sequence[str | int], value: Any) -> None:
    for token in tokens[:-1]:
        into = into[token]
    into[tokens[-1]] = value


def _name(at: int) -> str:
    return f"{_PREFIX}{at}"


def _path(tokens: Tokens) -> str:
    path = ""
    for token in tokens:
        path = place_of(path, token)
    return path


def _control(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, int | float):
        return "number"
    return "lines" if len(value) > LINE or "\n" in value or "\r" in value else "line"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _value(typed: str, before: Any, path: str) -> Any:
    """What was typed, of the same kind as before."""
    if isinstance(before, str):
        return typed
    try:
        value = parse(typed.strip())
    except NotCanonical as error:
        raise FieldFault(path, f"{_KINDS[isinstance(before, bool)]} is wanted") from error
    if isinstance(value, bool) != isinstance(before, bool) or not isinstance(value, int | float):
        raise FieldFault(path, f"{_KINDS[isinstance(before, bool)]} is wanted")
    return value


_KINDS = {True: "true or false", False: "a number"}
