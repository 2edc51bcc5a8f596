"""A cell of the matrix: one crash point, one fault, one seed. The seed chooses path, way, tool, script and timing."""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.matrix.agents import UNKNOWN, Script
from tests.matrix.points import ASKING, LOCAL, POINTS, READS, Path, Point, Scene, Way

# What `make test-matrix SEEDS= CELLS=` asks for.
SEEDS = [int(seed) for seed in (os.environ.get("MATRIX_SEEDS") or "1").split()]
ONLY = (os.environ.get("MATRIX_CELLS") or "").split()


class Fault(StrEnum):
    """What strikes the process that reached the point."""

    F1 = "SIGKILL"
    F2 = "SIGSTOP for two leases, then SIGCONT"
    F3 = "its database sessions are ended"
    F4 = "its next commit succeeds, and it is told that it failed"
    F5 = "SIGKILL of the postmaster, and a restart"


# What the oracle does with a call that no fault is about, and how often.
TREATMENTS = (("ok", 60), ("slow", 15), ("busy", 10), ("twice", 7), ("cut", 5), ("die", 3))
QUIET = ("ok", "slow", "twice")


@dataclass(frozen=True)
class Cell:
    """One cell, with everything that its seed chose."""

    point: Point
    fault: Fault
    seed: int
    path: Path
    way: Way
    subject: str
    script: Script
    rejects: float
    delay: float
    tree: bool

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return f"{self.point.id}-{self.fault.name}"

    @property
    def told(self) -> str:
        """What the seed chose, for the table."""
        return f"{self.path}{f' {self.subject}' if self.subject else ''}, {self.way}"


def cell(point: Point, fault: Fault, seed: int, *, trees: bool = True) -> Cell:
    """The cell of a seed; the same arguments always give the same one. `trees`: SIGKILL always takes the whole tree."""
    chance = random.Random(f"{seed}-{point.id}-{fault.name}")
    path = chance.choice(sorted(point.subjects))
    way = _way(point, fault, seed)
    subject = chance.choice(point.subjects[path])
    return Cell(
        point,
        fault,
        seed,
        path,
        way,
        subject,
        script(
            chance,
            path,
            subject,
            first=point.hook in ("after_send", "after_verdict_committed"),
            late=point.scene == Scene.HELD_BACK,
        ),
        rejects=chance.choice((0.0, 0.0, 0.3)),
        delay=chance.uniform(0.0, 1.0),
        tree=trees or chance.random() < 0.25,
    )


def _way(point: Point, fault: Fault, seed: int) -> Way:
    """Seeds that follow each other take the ways in turn, so that as many seeds as there are ways play all of them."""
    place = POINTS.index(point) + 2 * list(Fault).index(fault)
    return point.ways[(seed + place) % len(point.ways)]


def cells(seed: int, *, faults: Sequence[Fault] = tuple(Fault), only: Sequence[str] = ()) -> list[Cell]:
    """Every cell that exists, or those of these names."""
    every = [cell(point, fault, seed) for fault in faults for point in POINTS]
    return [one for one in every if not only or one.name in only]


NOWHERE = Point("--", "No point", "")


def undisturbed(script: Script, seed: int = 0) -> Cell:
    """A run that nothing is ordered for; others may disturb it."""
    return Cell(NOWHERE, Fault.F1, seed, Path.APPROVAL, Way.NEW, "", script, rejects=0.0, delay=0.0, tree=False)


def script(chance: random.Random, path: Path, subject: str, *, first: bool = False, late: bool = False) -> Script:
    """Turns in which the subject is called, among others that are treated by chance; `first`: before all of them."""
    if path == Path.MODEL:
        return [[(f"{UNKNOWN}_{turn}", "x", "ok")] for turn in range(chance.randint(1, 3))]
    tools = READS + LOCAL if path == Path.FUSED else ASKING
    subject = subject or chance.choice(tools)
    turns = [[_call(chance, chance.choice(READS + LOCAL), f"{turn}-{place}") for place in range(chance.randint(0, 2))]
             for turn in range(chance.randint(1, 2))]  # fmt: skip
    behaviour = "late" if late else chance.choice(QUIET)
    told = (subject, "subject", behaviour)
    if first:
        turns.insert(0, [told])
    else:
        turns[-1].insert(chance.randint(0, len(turns[-1])), told)
    if path == Path.APPROVAL and not first and chance.random() < 0.35:
        # Asked for after the subject, so that a point that names the first of a barrier names the subject.
        next(turn for turn in turns if told in turn).append(_call(chance, chance.choice(ASKING), "beside"))
    if chance.random() < 0.4:
        turns.append([_call(chance, chance.choice(tools), "after")])
    return [turn for turn in turns if turn]


def _call(chance: random.Random, tool: str, label: str) -> tuple[str, str, str]:
    names, weights = zip(*TREATMENTS, strict=True)
    return tool, label, chance.choices(names, weights)[0]
