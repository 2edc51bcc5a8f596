"""The hub of a web process: hears which run changed, tells the sockets of that tenant, and ends those it no longer may.

Hearing is one LISTEN connection for the whole process. Losing it loses hints: every socket is told so, and told to ask again
once it is there anew.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Protocol

import psycopg
from channels.db import database_sync_to_async
from django.db import Error as DatabaseError

from accounts.selectors import signed_in
from accounts.states import Actor
from runs.live import CHANNEL, listen_parameters

LISTEN = f"LISTEN {CHANNEL}"
SESSION_ENDED = 4401
ROLES_CHANGED = 4403
CHECK_SECONDS = 1.0  # sessions are looked at so often: a socket outlives its session by less than two seconds
PROBE_SECONDS = 10.0  # the connection proves so often that it is not dead
RETRY_SECONDS = 1.0
MEMORY_SECONDS = 30.0  # a page that was drawn so long ago and subscribes now hears what it has missed

logger = logging.getLogger(__name__)


class Socket(Protocol):
    """A socket as the hub sees it. None of its methods waits for the other side."""

    session_key: str
    actor: Actor

    def changed(self, run_id: str) -> None:
        """Something about this run of the socket's tenant changed."""

    def ask_again(self) -> None:
        """Hints may have been lost, or are being lost from now on: see `Hub.hears`."""

    def end(self, code: int) -> None:
        """Send nothing more, and close."""


class Hub:
    """Everything live in this process. Its methods run in the one event loop that it was made in."""

    def __init__(self) -> None:
        self.sockets: dict[str, set[Socket]] = defaultdict(set)
        self.last_change: dict[str, dict[str, float]] = defaultdict(dict)
        self.hears_since: float | None = None
        # Sessions are looked at in a thread of their own: what sockets ask for may stand still for as long as a page waits.
        self.looks = ThreadPoolExecutor(1, "sessions-of-sockets")
        self.tasks = [self._task(self._hear()), self._task(self._check_sessions())]

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(_report)
        return task

    def join(self, socket: Socket) -> None:
        """From now on the socket hears what changes in its tenant."""
        self.sockets[str(socket.actor.tenant_id)].add(socket)

    def leave(self, socket: Socket) -> None:
        """The socket is gone."""
        self.sockets[str(socket.actor.tenant_id)].discard(socket)

    def recent(self, actor: Actor) -> list[str] | None:
        """The runs of a tenant that changed a moment ago; None when the hub has not listened for that long."""
        now = monotonic()
        if self.hears_since is None or now - self.hears_since < MEMORY_SECONDS:
            return None
        known = self.last_change[str(actor.tenant_id)]
        return [run_id for run_id, at in known.items() if now - at < MEMORY_SECONDS]

    # ── hearing ──

    async def _hear(self) -> None:
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(**listen_parameters(), autocommit=True)
                async with connection:
                    await connection.execute(LISTEN)
                    self._hears()
                    await self._hand_on(connection)
            except (psycopg.Error, OSError) as error:
                logger.warning("live hints are not heard, trying again: %s", error)
            if self.hears:
                self.hears_since = None
                self._all_ask_again()
            await asyncio.sleep(RETRY_SECONDS)

    @property
    def hears(self) -> bool:
        """False while nothing that changes is heard."""
        return self.hears_since is not None

    def _hears(self) -> None:
        self.hears_since = monotonic()
        self.last_change.clear()
        self._all_ask_again()

    def _all_ask_again(self) -> None:
        for socket in self._all():
            socket.ask_again()

    async def _hand_on(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while True:
            async for notice in connection.notifies(timeout=PROBE_SECONDS):
                self._tell(notice.payload)
            async with asyncio.timeout(PROBE_SECONDS):
                await connection.execute(LISTEN)  # again, which changes nothing, to see that somebody answers
            self._forget()

    def _tell(self, payload: str) -> None:
        try:
            hint = json.loads(payload)
            tenant, run_id = str(hint["tenant"]), str(hint["run"])
        except (ValueError, KeyError, TypeError):
            logger.warning("a live hint could not be read: %.200r", payload)
            return
        self.last_change[tenant][run_id] = monotonic()
        for socket in self.sockets.get(tenant, ()):
            socket.changed(run_id)

    def _forget(self) -> None:
        oldest = monotonic() - MEMORY_SECONDS
        for tenant, runs in list(self.last_change.items()):
            self.last_change[tenant] = {run_id: at for run_id, at in runs.items() if at > oldest}

    # ── sessions ──

    async def _check_sessions(self) -> None:
        look = database_sync_to_async(signed_in, thread_sensitive=False, executor=self.looks)
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            keys = {socket.session_key for socket in self._all()}
            if not keys:
                continue
            try:
                people = await look(keys)
            except DatabaseError as error:
                logger.warning("the sessions of live sockets could not be checked: %s", error)
                continue
            for socket in self._all():
                if socket.session_key in keys:
                    self._check(socket, people.get(socket.session_key))

    def _check(self, socket: Socket, person: Actor | None) -> None:
        if person is None:
            socket.end(SESSION_ENDED)
        elif person != socket.actor:
            socket.end(ROLES_CHANGED)

    def _all(self) -> list[Socket]:
        return [socket for sockets in self.sockets.values() for socket in sockets]


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        logger.critical("a task of the live hub ended", exc_info=error)


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def heard_for() -> float | None:
    """Seconds for which this process has heard what changes; None while it does not. Any thread may ask."""
    since = [one.hears_since for one in list(_hubs.values()) if one.hears_since is not None]
    return monotonic() - max(since) if since else None


def was_asked_to_hear() -> bool:
    """True once a page has opened a live line to this process; it listens from then on. Any thread may ask."""
    return bool(_hubs)


def hub() -> Hub:
    """The hub of the running event loop, made when first asked for. A web process has one loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
