"""The bytes of a snapshot field by field: what did not change is not serialised again, and a delta holds only what did.

A delta is canonical JSON: {"append": {field: what a list gained at its end}, "set": {field: its new value}}. Applied to the
revision before, it gives exactly the body that the digest covers; whether it does is checked wherever it is read.
Pure Python.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from checkpoints.envelope.snapshot import Snapshot
from runs.canonical import NotCanonical, canonical

Parts = Mapping[str, bytes]

_GROWING = "results"


def parts_of(
    snapshot: Snapshot, *, changed: Collection[str], after: Snapshot | None = None, base: Parts | None = None
) -> Parts:
    """The canonical bytes of every field. `base` are the bytes of the snapshot `after`, as they are stored; `changed` names
    the fields that are others than there.

    Raises NotCanonical.
    """
    if after is None or base is None:
        return _parts(snapshot, set(Snapshot.model_fields))
    grown = _grown(snapshot, after) if _GROWING in changed else None
    parts = {**base, **_parts(snapshot, {name for name in changed if name != _GROWING or grown is None})}
    if grown is not None:
        parts[_GROWING] = _longer(base[_GROWING], grown)
    return parts


def _parts(snapshot: Snapshot, fields: set[str]) -> Parts:
    values = snapshot.model_dump(mode="json", include=fields)
    return {name: _part(name, values[name]) for name in fields}


def stored_parts(snapshot: Snapshot, plain: bytes) -> Parts | None:
    """The bytes of the fields of a stored body, or None where its snapshot does not give exactly these bytes today."""
    values = snapshot.model_dump(mode="json")
    parts = {name: rebuilt(value) for name, value in values.items()}
    return parts if joined(parts) == plain else None


def joined(parts: Parts) -> bytes:
    """The canonical body made of its fields. Their names are ASCII, so that any order of characters is the same."""
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), parts[name]) for name in sorted(parts)) + b"}"


def delta(parts: Parts, *, base: Parts) -> bytes:
    """What takes the stored body of `base` to the body of `parts`."""
    changed = {name: part for name, part in parts.items() if base.get(name) != part}
    append = {}
    old, new = base.get(_GROWING, b""), changed.get(_GROWING, b"")
    if len(old) > 2 and new.startswith(old[:-1] + b","):
        del changed[_GROWING]
        append[_GROWING] = b"[" + new[len(old) :]
    return b'{"append":%s,"set":%s}' % (joined(append), joined(changed))


def apply_delta(body: dict[str, Any], plain: bytes) -> None:
    """Take a parsed body to the next revision. Raises ValueError or KeyError where the delta does not fit it."""
    step = json.loads(plain)
    for name, gained in step["append"].items():
        body[name] = [*body[name], *gained]
    body.update(step["set"])


def rebuilt(body: Any) -> bytes:
    """A JSON value as bytes, quickly. Whoever uses them checks that they are the canonical ones, which `canonical` gives for sure."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _part(name: str, value: Any) -> bytes:
    try:
        return canonical(value)
    except NotCanonical as error:
        raise NotCanonical(str(error).replace("$", f"$.{name}", 1)) from error


def _grown(snapshot: Snapshot, after: Snapshot) -> bytes | None:
    """The canonical items by which the results are longer than before, or None where they are others."""
    before, now = after.results, snapshot.results
    if len(now) <= len(before) or now[: len(before)] != before:
        return None
    return b",".join(canonical(ref.model_dump(mode="json")) for ref in now[len(before) :])


def _longer(part: bytes, items: bytes) -> bytes:
    return b"[" + items + b"]" if part == b"[]" else part[:-1] + b"," + items + b"]"
