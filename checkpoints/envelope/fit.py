"""Whether a drafted snapshot may be stored: known fields within their limits, JSON that has a canonical form, no secrets.

Pure Python. What is refused is named by its place and its digest; the refused text goes nowhere (rule 9 of model.md).
"""

from collections.abc import Collection, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from checkpoints.envelope.parts import Parts, parts_of
from checkpoints.envelope.secrets import secret_in
from checkpoints.envelope.snapshot import RESULT_LIMIT, Snapshot
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


def fit(draft: Snapshot, *, after: Snapshot | None = None, base: Parts | None = None) -> tuple[Snapshot, Parts]:
    """The checked snapshot, and the canonical bytes of its fields. Raises Unfit.

    What the revision before has is not scanned or serialised again, nor are its results checked again.
    """
    known = _known(draft, after)
    snapshot, changed = _checked(draft, after, known)
    try:
        parts = parts_of(snapshot, changed=changed, after=after, base=base)
    except NotCanonical as error:
        path, _, why = str(error).partition(": ")
        raise Unfit("SCHEMA", path, why) from None
    for path, text in _written(snapshot, changed, known):
        found = secret_in(text)
        if found:
            raise Unfit("FORBIDDEN_CONTENT", path, f"it looks like a {found}", digest(text.encode()))
    return snapshot, parts


def _known(draft: Snapshot, after: Snapshot | None) -> int:
    """How many results, from the first one, are those of the revision before."""
    results: Any = draft.results
    if after is None or not isinstance(results, tuple) or results[: len(after.results)] != after.results:
        return 0
    return len(after.results)


def _checked(draft: Snapshot, after: Snapshot | None, known: int) -> tuple[Snapshot, Collection[str]]:
    """The validated snapshot, and which of its fields are others than before. What is the same is the same object again."""
    results: Any = draft.results
    if isinstance(results, tuple) and len(results) > RESULT_LIMIT:
        raise Unfit("FIELD_LIMIT", "$.results", f"more than {RESULT_LIMIT}")
    try:
        snapshot = Snapshot.model_validate(vars(draft) | {"results": results[known:] if known else results})
    except ValidationError as error:
        raise _unfit(error, known) from None
    fields = vars(snapshot)
    if known:
        fields = fields | {"results": (*results[:known], *snapshot.results)}
    if after is None:
        return snapshot, fields.keys()
    given = vars(draft)
    same = {name: value for name, value in vars(after).items() if given[name] is value or fields[name] == value}
    return snapshot.model_copy(update=fields | same), fields.keys() - same.keys()


def _written(snapshot: Snapshot, changed: Collection[str], known: int) -> Iterator[tuple[str, str]]:
    """Every text that is new in this revision, with its place."""
    for name in Snapshot.model_fields:
        if name not in changed:
            continue
        if name == "results":
            for index, ref in enumerate(snapshot.results[known:], known):
                yield from _texts(ref, f"$.results[{index}]")
        else:
            yield from _texts(getattr(snapshot, name), f"$.{name}")


def _unfit(error: ValidationError, known: int) -> Unfit:
    first = error.errors(include_url=False)[0]
    kind: Kind = "FIELD_LIMIT" if first["type"] in _LIMITS else "SCHEMA"
    place, evidence = first["loc"], _evidence(first["input"])
    if first["type"] == "extra_forbidden":  # the name itself came from outside
        evidence = digest(str(place[-1]).encode("utf-8", "surrogatepass"))
        place = (*place[:-1], "?")
    if known and len(place) > 1 and place[0] == "results" and isinstance(place[1], int):
        place = ("results", place[1] + known, *place[2:])
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
