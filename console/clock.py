"""What time it is by the database's clock, for what pages say of ages and deadlines: a web server may have another time, and its word
counts nowhere.
"""

import time
from datetime import datetime, timedelta
from typing import Any

from django.db.backends.signals import connection_created
from django.utils import timezone

LOOK_AGAIN_SECONDS = 30.0
# Counts while the machine sleeps, where the system has such a clock; nobody sets it.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_last: tuple[datetime, float] | None = None  # the database's clock, and when that was


def keep() -> None:
    """Have this process look at the database's clock with a session that it opens or takes, at most twice a minute. For a web process,
    once.
    """
    connection_created.connect(_look, weak=False, dispatch_uid="console.clock")


def now() -> datetime:
    """The time by the database's clock; by this machine's own where nobody has looked at that one yet. Any thread may ask."""
    if _last is None:
        return timezone.now()
    at, steady = _last
    return at + timedelta(seconds=_steady() - steady)


def _look(connection: Any, **_: Any) -> None:
    global _last  # noqa: PLW0603  one clock a process
    began = _steady()
    if _last is not None and began - _last[1] < LOOK_AGAIN_SECONDS:
        return
    (at,) = connection.connection.execute("SELECT clock_timestamp()").fetchone()
    _last = at, (began + _steady()) / 2


def _steady() -> float:
    return time.clock_gettime(_STEADY)
