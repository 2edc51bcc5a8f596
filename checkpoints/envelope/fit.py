"""Whether a drafted snapshot may be stored: known fields within their limits, JSON that has a canonical form, no secrets.

Pure Python. What is refused is named by its place and its digest; the refused text goes nowhere (rule 9 of model.md).
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from checkpoints.envelope.secrets import secret_in
from checkpoints.envelope.snapshot import Snapshot
from runs.canonical import NotCanonical, canonical, digest

# What pydantic calls the breach of a size; everything else is a breach of the schema.
_LIMITS = frozenset(
    {
        "string_too_long",
        "string_too_short",
        "too_long",
        "too_short",
        "greater_than",
        "greater_than_equal",
        "less_than",
        "less_than_equal",
    }
)


Kind = Literal["SCHEMA", "FIELD_LIMIT", "FORBIDDEN_CONTENT"]


class Unfit(Exception):
    """A snapshot that may not be stored. `why` says what is wrong in general words, never what stood there."""

    def __init__(self, kind: Kind, path: str, why: str, evidence: str | None = None) -> None:
        super().__init__(f"{kind} at {path}: {why}")
        self.kind = kind
        self.path = path
        self.why = why
        self.evidence = evidence


def fit(draft: Snapshot) -> tuple[Snapshot, bytes]:
    """The checked snapshot and its canonical bytes. Raises Unfit."""
    try:
        snapshot = Snapshot.model_validate(draft)
        plain = snapshot.body()
    except ValidationError as error:
        raise _unfit(error) from None
    except NotCanonical as error:
        path, _, why = str(error).partition(": ")
        raise Unfit("SCHEMA", path, why) from None
    for path, text in _texts(snapshot, "$"):
        found = secret_in(text)
        if found:
            raise Unfit("FORBIDDEN_CONTENT", path, f"it looks like a {found}", digest(text.encode()))
    return snapshot, plain


def _unfit(error: ValidationError) -> Unfit:
    first = error.errors(include_url=False)[0]
    kind: Kind = "FIELD_LIMIT" if first["type"] in _LIMITS else "SCHEMA"
    place, evidence = first["loc"], _evidence(first["input"])
    if first["type"] == "extra_forbidden":  # the name itself came from outside
        evidence = digest(str(place[-1]).encode("utf-8", "surrogatepass"))
        place = (*place[:-1], "?")
    return Unfit(kind, _path(place), str(first["type"]).replace("_", " "), evidence)


def _path(place: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)


def _evidence(value: Any) -> str | None:
    """A digest of what was refused, where it has canonical bytes."""
    try:
        return digest(canonical(value))
    except (NotCanonical, RecursionError):
        return None


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text that somebody may have written, with its place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _texts(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
