"""Waiting for something that another process does."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_TICK_SECONDS = 0.02
_never = threading.Event()


def wait_until(probe: Callable[[], T], what: str, seconds: float = 30.0) -> T:
    """Ask until the answer is truthy, and return it; fails the test, naming `what`, when time runs out."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"Waited {seconds:.0f} s in vain: {what}.")
        _never.wait(_TICK_SECONDS)
    return answer
