"""Live hints: which run changed. Sent by NOTIFY after commit, off the write path, coalesced. Losing one costs a poll."""

import atexit
import json
import logging
import os
import threading
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connections, transaction
from django.db.utils import Error as DatabaseError

CHANNEL = "signalbox"
COALESCE_SECONDS = 0.05
CONNECT_SECONDS = 10

logger = logging.getLogger(__name__)


class _Outbox:
    """Collects hints of this process and sends them in one go from a thread of its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: set[tuple[str, str]] = set()
        self.filled = threading.Event()
        threading.Thread(target=self._run, name="live-hints", daemon=True).start()
        atexit.register(self.flush)

    def put(self, tenant_id: UUID, run_id: UUID) -> None:
        with self.lock:
            self.waiting.add((str(tenant_id), str(run_id)))
        self.filled.set()

    def flush(self) -> None:
        with self.lock:
            hints, self.waiting = self.waiting, set()
        if not hints:
            return
        connection = connections["default"]
        try:
            with connection.cursor() as cursor:
                for tenant, run in hints:
                    payload = json.dumps({"tenant": tenant, "run": run})
                    cursor.execute("SELECT pg_notify(%s::text, %s::text)", [CHANNEL, payload])
        except DatabaseError as error:
            logger.warning("live hints lost: %s", error)
            connection.close()

    def _run(self) -> None:
        while True:
            self.filled.wait()
            self.filled.clear()
            threading.Event().wait(COALESCE_SECONDS)
            self.flush()


@cache
def _outbox(pid: int) -> _Outbox:
    """The outbox of one process; a forked process gets one of its own."""
    return _Outbox()


def hint_changed(*, tenant_id: UUID, run_id: UUID) -> None:
    """Tell open pages, after the commit, that something about this run changed."""
    if settings.LIVE_HINTS:
        transaction.on_commit(lambda: _outbox(os.getpid()).put(tenant_id, run_id))


def listen_parameters() -> dict[str, Any]:
    """How to open a connection of one's own that may LISTEN on CHANNEL: those of the pool are handed on and on."""
    known = connections["default"].get_connection_params()
    own = {name: value for name, value in known.items() if name not in {"cursor_factory", "context"}}
    return {"connect_timeout": CONNECT_SECONDS, **own}
