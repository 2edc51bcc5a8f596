"""The way from an older format to the one that is written now (T03). Pure Python.

A step takes the JSON of a body of one format and returns that of the next one. It may change what describes the envelope
and the execution, never the contract: what was agreed comes out byte for byte as it went in, or nothing does.
"""

from collections.abc import Callable
from typing import Any

from checkpoints.envelope.snapshot import FORMAT_VERSION, Snapshot, UnknownFormat
from runs.canonical import canonical, parse

Step = Callable[[dict[str, Any]], dict[str, Any]]

# The step that leads from each older format to the next one. Format 1 is the first that was released.
STEPS: dict[int, Step] = {}


class IntentChanged(ValueError):
    """The steps would not keep the contract byte for byte."""


def migrated(plain: bytes, *, format_version: int) -> Snapshot:
    """The snapshot of a stored body of an older format. Raises UnknownFormat where no step leads on, IntentChanged, and
    pydantic's ValidationError where the steps do not lead to the format that is written now.
    """
    body: dict[str, Any] = parse(plain)
    agreed = canonical(body.get("contract"))
    for version in range(format_version, FORMAT_VERSION):
        if version not in STEPS:
            raise UnknownFormat(f"no step leads from format {version} to {version + 1}")
        body = STEPS[version](body)
    if format_version >= FORMAT_VERSION:
        raise UnknownFormat(f"format {format_version} is not older than {FORMAT_VERSION}")
    snapshot = Snapshot.model_validate_json(canonical(body | {"format_version": FORMAT_VERSION}))
    if canonical(snapshot.model_dump(mode="json")["contract"]) != agreed:
        raise IntentChanged
    return snapshot
