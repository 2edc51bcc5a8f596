"""Stored results of the run, as the tools that build on them read them."""

from collections.abc import Sequence

from runtime.contracts import ArgumentsRefused, PriorResult


def disclosure(results: Sequence[PriorResult], name: str) -> PriorResult:
    """The newest reading of input `name`. Raises ArgumentsRefused if it was not read."""
    for result in reversed(results):
        if result.tool == "read_disclosure" and result.ok and result.value["input"] == name:
            return result
    raise ArgumentsRefused(f"Disclosure {name.upper()} has not been read. Call read_disclosure for it first.")


def overlap(results: Sequence[PriorResult]) -> PriorResult:
    """The newest overlap. Raises ArgumentsRefused if none was computed."""
    found = newest(results, "compute_overlap")
    if found is None:
        raise ArgumentsRefused("The overlap has not been computed. Call compute_overlap first.")
    return found


def newest(results: Sequence[PriorResult], tool: str) -> PriorResult | None:
    """The newest successful result of a tool, or None."""
    return next((result for result in reversed(results) if result.tool == tool and result.ok), None)
