"""The crash matrix: every crash point, every fault, on real processes, with a checker over everything that was written.

MATRIX_SEEDS chooses paths, tools, scripts and timing; MATRIX_CELLS picks cells (`make test-matrix SEEDS= CELLS=`). Under odd
seeds a watcher ends the leases of dead workers, under even ones they expire.
"""

import threading
from collections.abc import Sequence

import pytest

from tests.matrix import report
from tests.matrix.cells import ONLY, SEEDS, Cell, Fault, cell, cells
from tests.matrix.history import Memory
from tests.matrix.invariants import INVARIANTS, check
from tests.matrix.operator import TICK
from tests.matrix.patience import Played
from tests.matrix.points import POINTS
from tests.matrix.stage import Stage
from tests.matrix.turns import play_all
from tests.scenarios.invariants import broken_invariants, one_snapshot

SLICE_SEED = 1
_never = threading.Event()


@pytest.fixture(scope="package")
def memory() -> Memory:
    return Memory()


def play_each(stage: Stage, chosen: Sequence[Cell]) -> list[Played]:
    """Play the cells side by side. The fault of one can take another one off its way to its point (a worker that dies takes
    every run of its processes along); such a cell plays once more, by itself.
    """
    played = play_all(stage, chosen, lambda: _never.wait(TICK))
    kept = [one for one in played if one.hit or one.wrong]
    for one in played:
        if one not in kept:
            kept += play_all(stage, [one.cell], lambda: _never.wait(TICK))
    return kept


def play_and_check(stage: Stage, memory: Memory, chosen: Sequence[Cell]) -> None:
    """Play the cells; then nothing may be wrong in what they left."""
    stage.watch(chosen[0].seed % 2 == 1)
    played = play_each(stage, chosen)
    report.played_cells += played
    failed = report.failures(played)
    try:
        stage.wait_idle()
    except AssertionError as error:
        failed += f"\n{error} {stage.where_it_hangs()}"
    with one_snapshot():
        broken = check(stage.history(memory)) | broken_invariants()
    for name, rows in broken.items():
        said = INVARIANTS[name].__doc__ if name in INVARIANTS else ""
        failed += f"\nnot true: {name} {said}\n  " + "\n  ".join(map(str, rows))
    missed = [report.repeat_with(one) for one in played if not one.hit and not one.wrong]
    assert not failed, failed
    assert not missed, "these points were not reached:\n" + "\n".join(missed)


@pytest.mark.process
def test_every_point_with_a_kill(stage: Stage, memory: Memory) -> None:
    chosen = [cell(point, Fault.F1, SLICE_SEED, trees=False) for point in POINTS]
    play_and_check(stage, memory, chosen)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", SEEDS)
def test_every_point_with_every_fault(stage: Stage, memory: Memory, seed: int) -> None:
    play_and_check(stage, memory, cells(seed, only=ONLY))
