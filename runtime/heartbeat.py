"""The heartbeat of a held lease: a thread that renews it, notices a loss, and adopts a stop while a call is in flight."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Self

from django.conf import settings
from django.db import connection
from django.db.utils import Error as DatabaseError

from runs.errors import LeaseLost
from runs.leases import lease_renew
from runs.states import Holding

STEP_MARGIN_SECONDS = 30.0
# The clock that goes on while a machine is suspended: on Linux that is not the one of time.monotonic().
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

logger = logging.getLogger(__name__)


def _seconds() -> float:
    """Seconds since some moment, time that this machine slept through included."""
    return time.clock_gettime(_CLOCK)


class Heartbeat:
    """Renews a lease until it is closed, lost, or the step's deadline has passed (T31)."""

    def __init__(self, holding: Holding, adopt_stop: Callable[[], None]) -> None:
        self.holding = holding
        self.lost = False
        self._adopt_stop = adopt_stop
        self._adopted = False
        self._renewed_at = _seconds()
        self._deadline = self._renewed_at + STEP_MARGIN_SECONDS
        self._closed = threading.Event()
        self._stop_seen = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{holding.run_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._stop_seen.set()
        self._thread.join()

    @property
    def stop_seen(self) -> bool:
        return self._stop_seen.is_set()

    def allow(self, seconds: float) -> None:
        """Let the next step last this long; a worker that hangs longer is not renewed any more."""
        self._deadline = _seconds() + seconds + STEP_MARGIN_SECONDS

    def prove_held(self) -> None:
        """Raise LeaseLost if the lease may have expired: a worker that was frozen sends nothing when it wakes up.

        Called right before something is sent. By this machine's clock, so it can only spare a request; the fence decides.
        """
        if self.lost or _seconds() - self._renewed_at >= settings.LEASE_TTL_SECONDS:
            raise LeaseLost

    def seconds_left(self) -> float:
        """How long the lease lasts at least since it was renewed last, by this machine's clock."""
        left: float = self._renewed_at + settings.LEASE_TTL_SECONDS - _seconds()
        return left

    def pause(self, seconds: float) -> None:
        """Wait before a retry. A stop ends the wait."""
        self._stop_seen.wait(seconds)

    def _run(self) -> None:
        while not self._closed.wait(settings.HEARTBEAT_SECONDS):
            if _seconds() > self._deadline:
                self.lost = True
                break
            try:
                self._beat()
            except DatabaseError as error:
                logger.warning("heartbeat of run %s failed: %s", self.holding.run_id, error)
                connection.close()
            if self.lost:
                break
        connection.close()

    def _beat(self) -> None:
        asked_at = _seconds()
        held, stopping = lease_renew(self.holding)
        if held:
            self._renewed_at = asked_at
        if not held:
            logger.info("run %s: no lease under fence %s to renew", self.holding.run_id, self.holding.fence)
            self.lost = True
            self._stop_seen.set()
        elif stopping and not self._adopted:
            self._adopt()

    def _adopt(self) -> None:
        try:
            self._adopt_stop()
        except LeaseLost:
            self.lost = True
        self._adopted = True
        self._stop_seen.set()
