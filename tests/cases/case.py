"""A prepared case: what the operator is told, how it is brought about, and what they were to do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from tests.cases.house import House


class Outcome(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    UNDONE = "undone"


@dataclass(frozen=True)
class Found:
    """What the database says of a case. `at`: when the act was stored that settles it."""

    outcome: Outcome
    why: str
    at: datetime | None = None


Judge = Callable[[Sequence[UUID]], Found]


@dataclass(frozen=True)
class Case:
    """One case. `brief` says what the operator is to achieve and nothing of the console; `{link}` in it is an address that
    `link` gives. `past` makes what happened before, `build` the runs that it is about; `trap` says what the trap is, for the judge's
    table and never for the operator.
    """

    title: str
    brief: str
    build: Callable[[House], list[UUID]]
    judge: Judge
    trap: str = ""
    past: Callable[[House], None] | None = None
    link: Callable[[Sequence[UUID]], str] | None = None
    while_looked_at: Callable[[House, Sequence[UUID]], None] | None = None
