"""What an act by keyboard consists of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.pages.keyboard.driver import Step
from tests.pages.keyboard.house import House

WHY = "Typed by hand: gi s / ? jk."


@dataclass(frozen=True)
class Journey:
    """From a page to a row in the store. `done` is asked until it holds; `after` lets go of what was kept for it."""

    path: str
    steps: Sequence[Step]
    done: Callable[[], bool]
    after: Callable[[], None] = lambda: None


Make = Callable[[House], Journey]


def rows(model: Any, **named: Any) -> Callable[[], bool]:
    """Whether such a row is there by now."""
    return lambda: bool(model.objects.filter(**named).exists())
