"""Drain: a worker that was asked to stop starts nothing new and gives its runs back at the next seam (X06, D-043).

SIGTERM reaches the parent of the pool, which waits for its pool processes and tells them nothing. So the parent writes one
byte that it shares with what it has forked, and they look at it before every step and in every commit.
"""

import mmap

_byte = mmap.mmap(-1, 1)  # anonymous and shared: made before the fork, seen after it


def drain_begin() -> None:
    """From here on this worker starts nothing new. Called in the parent, once; there is no way back."""
    _byte[0] = 1


def draining() -> bool:
    """True once this worker was asked to stop."""
    return _byte[0] == 1
