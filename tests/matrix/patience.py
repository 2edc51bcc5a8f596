"""How one cell of the crash matrix went, and when it is given up."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from tests.matrix.cells import Cell

QUIET_SECONDS, QUIET_ROUNDS = 120.0, 1500  # in which nothing moves, before a cell is given up
CHANGES = 600  # of a run's records, before it is said to move for ever


class Stuck(AssertionError):
    """A cell waited in vain."""


@dataclass
class Played:
    """How one cell went. `hit` is False where the point was not reached, `wrong` says what is not right."""

    cell: Cell
    run_id: UUID | None = None
    hit: bool = False
    ended: str = ""
    takeovers: int = 0
    seconds: float = 0.0
    wrong: str = ""


@dataclass
class Patience:
    """Gives up by what has happened, and not by the clock alone: a machine that is slow, or shared, has more time.

    Nothing has moved when no record of the run has changed for so many seconds in which this process has also gone so
    many rounds: one that gets little of the machine goes few.
    """

    since: float = field(default_factory=time.monotonic)
    asked: float = 0.0
    rounds: int = 0
    changes: int = 0
    mark: object = None

    def moved(self) -> None:
        """Something has happened: count from here."""
        self.since, self.rounds = time.monotonic(), 0

    def over(self, mark: Callable[[], object]) -> str:
        """Why it is time to give up, or an empty text. The mark is asked for once a second."""
        self.rounds += 1
        now = time.monotonic()
        if now - self.asked > 1.0:
            self.asked, found = now, mark()
            if found is not None and found != self.mark:
                self.mark, self.changes = found, self.changes + 1
                self.moved()
        if self.changes > CHANGES:
            return f"it has changed {CHANGES} times and does not end"
        still = now - self.since
        return f"nothing has moved for {still:.0f} s" if still > QUIET_SECONDS and self.rounds > QUIET_ROUNDS else ""
