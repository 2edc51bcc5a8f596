"""A state of a hundred messages of 500 bytes that gains one at each of a thousand steps (P6). Standard library only."""

import statistics
from dataclasses import dataclass

from bench.payload import prose

START_MESSAGES = 100
STEPS = 1000
WINDOW = 100
LOADS = 10


@dataclass(frozen=True)
class Grown:
    """How one contender went through the growth. `marks` are the seconds at which its steps began, the last STEPS of them
    in order; `loads` are milliseconds of reading the last state with all its messages; `heads`, of its position alone.
    """

    checkpoints: int
    marks: list[float]
    loads: list[float]
    heads: list[float]

    @property
    def first_ms(self) -> float:
        """Milliseconds a step of the first WINDOW steps."""
        return _pace(self.marks[: WINDOW + 1])

    @property
    def last_ms(self) -> float:
        """Milliseconds a step of the last WINDOW steps."""
        return _pace(self.marks[-WINDOW - 1 :])

    @property
    def load_ms(self) -> float:
        return statistics.median(self.loads)

    @property
    def head_ms(self) -> float:
        return statistics.median(self.heads)


def _pace(marks: list[float]) -> float:
    return 1e3 * (marks[-1] - marks[0]) / (len(marks) - 1)


def texts(count: int) -> list[str]:
    """So many messages of 500 bytes, each another one."""
    return [prose(500, number) for number in range(count)]


def weight(before: dict[str, int], after: dict[str, int], names: tuple[str, ...] = ("",)) -> int:
    """By how many bytes the tables grew whose names begin with one of these."""
    return sum(size - before.get(name, 0) for name, size in after.items() if name.startswith(names))
