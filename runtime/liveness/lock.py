"""The worker's side: one session advisory lock on a connection that does nothing else."""

import logging
import secrets
from typing import Any

import psycopg
from django.conf import settings

# The first of the two numbers of an advisory lock: "these are pool processes of Signalbox".
CLASS = 0x5167
CHANNEL = "signalbox_liveness"  # where a lock that was taken is announced
_CONNECT_SECONDS = 2

logger = logging.getLogger(__name__)


class LivenessLock:
    """The lock of this process. A process that is killed loses its connection, and with it the lock, at once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None
        self._key = 0

    def key(self) -> int | None:
        """The number of the lock, proved to be held in this very session; None where it can't be had.

        A transaction pooler hands out another session for each statement: there the proof fails, and no lease names a
        lock that would be freed while its worker lives.
        """
        try:
            if self._connection is None or self._connection.closed:
                self._open()
            if self._held():
                return self._key
            logger.warning("the liveness lock is not held in its own session; is there a pooler in between?")
        except psycopg.Error as error:
            logger.warning("no liveness lock, the lease's time does the work: %s", error)
        self._close()
        return None

    def _open(self) -> None:
        """Take a free lock of our class. Where the number is taken, `_held` finds it not to be ours."""
        self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=_CONNECT_SECONDS)
        self._key = secrets.randbelow(2**31)
        self._connection.execute("SELECT pg_try_advisory_lock(%s, %s), pg_notify(%s, '')", [CLASS, self._key, CHANNEL])

    def _held(self) -> bool:
        if self._connection is None:
            return False
        found = self._connection.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted "
            "AND pid = pg_backend_pid()",
            [CLASS, self._key],
        )
        return found.fetchone() is not None

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


_locks: list[LivenessLock] = []


def liveness_begin() -> None:
    """Give this process its lock. Called in a pool process after the fork: a connection is not inherited."""
    _locks.clear()
    if settings.LIVENESS_DATABASE_URL:
        _locks.append(LivenessLock(settings.LIVENESS_DATABASE_URL))
        _locks[0].key()


def liveness_key() -> int | None:
    """The number of this process's lock for a lease that it takes, or None: then only the lease's time counts."""
    return _locks[0].key() if _locks else None
