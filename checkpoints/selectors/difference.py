"""Where two revisions differ."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """One place where two revisions differ. `before` or `after` is None where the place does not exist."""

    path: str
    before: Any
    after: Any


def snapshot_diff(before: Any, after: Any, path: str = "$") -> list[Difference]:
    """Every leaf at which two JSON values differ, in document order."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        return [d for key in keys for d in snapshot_diff(before.get(key), after.get(key), f"{path}.{key}")]
    if isinstance(before, list) and isinstance(after, list):
        size = max(len(before), len(after))
        pairs = [(_at(before, i), _at(after, i)) for i in range(size)]
        return [d for i, (old, new) in enumerate(pairs) for d in snapshot_diff(old, new, f"{path}[{i}]")]
    return [] if before == after else [Difference(path, before, after)]


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else None
