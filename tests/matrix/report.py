"""What the matrix says at the end: a row for each cell, and for each cell that failed the command that repeats it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.matrix.cells import Fault
from tests.matrix.patience import Played

played_cells: list[Played] = []  # everything that this run of the tests has played, for the summary

struck: list[dict[str, Any]] = []  # every store fault that was drawn at a rate: which, and whose work


def repeat_with(played: Played) -> str:
    """The one command that plays a cell again."""
    return f'make test-matrix SEEDS="{played.cell.seed}" CELLS="{played.cell.name}"'


def failures(played: Sequence[Played]) -> str:
    """Which cells failed, why, and how to repeat each."""
    return "\n".join(
        f"{one.cell.name} ({one.cell.told}) run {one.run_id}: {one.wrong}\n  repeat with: {repeat_with(one)}"
        for one in played
        if one.wrong
    )


def table(played: Sequence[Played]) -> list[str]:
    """One line a point, one column a fault; then the sums."""
    seeds = sorted({one.cell.seed for one in played})
    lines = [
        f"crash matrix, seeds {' '.join(map(str, seeds))}",
        f"{'':4}" + "".join(f"{fault.name:>12}" for fault in Fault),
    ]
    for point in sorted({one.cell.point.id for one in played}):
        cells = {
            fault: [one for one in played if (one.cell.point.id, one.cell.fault) == (point, fault)] for fault in Fault
        }
        lines.append(f"{point:4}" + "".join(f"{_summed(cells[fault]):>12}" for fault in Fault))
    return [*lines, *_sums(played)]


def store_lines() -> list[str]:
    """How often each store fault struck, and whose work was struck most."""
    faults, methods = (Counter(strike[part] for strike in struck) for part in ("fault", "method"))
    kinds = ", ".join(f"{count} {fault}" for fault, count in faults.most_common())
    often = ", ".join(f"{method} {count}" for method, count in methods.most_common(5))
    return [f"{len(struck)} store faults: {kinds}", f"in {len(methods)} methods, most often {often}"]


def _summed(cells: Sequence[Played]) -> str:
    if not cells:
        return ""
    wrong, missed = sum(bool(one.wrong) for one in cells), sum(not one.hit for one in cells)
    said = f"{len(cells)} ok" if not wrong else f"{wrong} WRONG"
    return said + (f" {missed} missed" if missed else "")


def _sums(played: Sequence[Played]) -> list[str]:
    ends = ", ".join(f"{count} {end or 'stuck'}" for end, count in sorted(Counter(one.ended for one in played).items()))
    seconds = sum(one.seconds for one in played)
    return [
        f"{len(played)} cells, {sum(one.hit for one in played)} struck, {sum(one.takeovers for one in played)} takeovers; {ends}",
        f"{seconds / max(1, len(played)):.1f} s a cell, played side by side",
    ]
