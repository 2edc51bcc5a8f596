"""Live hints: which run changed. Sent by NOTIFY after commit, off the write path, coalesced. Losing one costs a poll."""

import atexit
import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from time import monotonic
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.utils import Error as DatabaseError

from accounts.statements import fetch

CHANNEL = "signalbox"
COALESCE_SECONDS = 0.05
FIRST_SECONDS = 0.01
CONNECT_SECONDS = 10

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Outbox(Generic[T]):
    """Collects what a process has to say, off its write path, and sends it together from a thread of its own.

    It sends once in `seconds` at most; after a silence it gathers for `first` only, which is as long where it is not given. What
    can't be sent is lost, with a warning: nothing durable may depend on it.
    """

    def __init__(
        self, name: str, send: Callable[[Sequence[T]], None], *, seconds: float, first: float | None = None
    ) -> None:
        self._name = name
        self._send = send
        self._seconds = seconds
        self._first = seconds if first is None else first
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: dict[T, None] = {}
        self._filled = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()
        atexit.register(self.flush)

    def put(self, item: T) -> None:
        """Have an item sent soon; the same one is sent once."""
        with self._lock:
            self._waiting[item] = None
        self._filled.set()

    def flush(self) -> None:
        """Send now what waits, after what is being sent already."""
        with self._sending:
            with self._lock:
                items, self._waiting = list(self._waiting), {}
            if items:
                self._try_to_send(items)

    def _try_to_send(self, items: Sequence[T]) -> None:
        try:
            self._send(items)
        except DatabaseError as error:
            logger.warning("%s lost: %s", self._name, error)
            connections["default"].close()

    def _run(self) -> None:
        free_at = 0.0
        while True:
            self._filled.wait()
            self._filled.clear()
            threading.Event().wait(max(self._first, free_at - monotonic()))
            self.flush()
            free_at = monotonic() + self._seconds


def after_commit(act: Callable[[], None]) -> None:
    """Do something once the transaction around it has committed; at once where there is none."""
    wrapper = connections[DEFAULT_DB_ALIAS]
    if wrapper.in_atomic_block:
        wrapper.on_commit(act)
    else:
        act()


@cache
def _outbox(pid: int) -> Outbox[tuple[UUID, UUID]]:
    """The outbox of one process; a forked process gets one of its own."""
    return Outbox("live hints", _notify, seconds=COALESCE_SECONDS, first=FIRST_SECONDS)


def _notify(hints: Sequence[tuple[UUID, UUID]]) -> None:
    said = [json.dumps({"tenant": str(tenant), "run": str(run)}) for tenant, run in hints]
    fetch(
        "SELECT pg_notify(%(channel)s, hint) FROM unnest(%(said)s::text[]) AS hint", {"channel": CHANNEL, "said": said}
    )


def hint_changed(*, tenant_id: UUID, run_id: UUID) -> None:
    """Tell open pages, after the commit, that something about this run changed."""
    if settings.LIVE_HINTS:
        after_commit(lambda: _outbox(os.getpid()).put((tenant_id, run_id)))


def listen_parameters() -> dict[str, Any]:
    """How to open a connection of one's own that may LISTEN on CHANNEL: those of the pool are handed on and on."""
    known = connections["default"].get_connection_params()
    own = {name: value for name, value in known.items() if name not in {"cursor_factory", "context"}}
    return {**own, "connect_timeout": CONNECT_SECONDS}
