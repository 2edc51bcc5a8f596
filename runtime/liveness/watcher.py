"""The watcher's side: wait for the lock of every living pool process, and end the leases of one that is gone.

It only ends leases of a lock that it has seen held and then got itself, from the same server: a worker that is frozen keeps
its lock, and after a restart of the database, which frees every lock, nobody is taken for dead.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import psycopg
from django.db import connections
from django.db.utils import Error as DatabaseError
from psycopg import AsyncConnection

from runs.leases import leases_end
from runs.wakeups import hint_run, hints_begin
from runtime.liveness.lock import CHANNEL, CLASS
from runtime.warm import leave_dead_session

# A new lock announces itself; what was not heard is found after this time.
SEARCH_SECONDS = 1.0
RECONNECT_SECONDS = 1.0
NO_LOCK = -1

_LIVING = """
SELECT l.objid::bigint, pg_postmaster_start_time()::text FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.classid = %s AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""

logger = logging.getLogger(__name__)


async def watch(url: str) -> None:
    """Watch until cancelled. Whatever goes wrong with the database costs speed only, and is tried again."""
    while True:
        try:
            async with _Watch(url) as watching:
                await watching.go_on()
        except psycopg.Error as error:
            logger.warning("the watcher lost the database, leases run out by themselves meanwhile: %s", error)
        await asyncio.sleep(RECONNECT_SECONDS)


@dataclass
class _Watch:
    """What waits at one start of the server. One thread, which stays warm, ends the leases."""

    url: str
    waiting: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    endings: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "endings"))

    async def __aenter__(self) -> Self:
        await self._in_thread(_warm_up)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.waiting.values():
            task.cancel()
        await asyncio.gather(*self.waiting.values(), return_exceptions=True)
        self.endings.submit(connections.close_all)
        self.endings.shutdown(wait=False)

    async def go_on(self) -> None:
        """Wait for each lock that is held, from when it announces itself. Raises psycopg.Error."""
        async with await AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            while True:
                rows = await (await connection.execute(_LIVING, [CLASS])).fetchall()
                self.waiting = {key: task for key, task in self.waiting.items() if not task.done()}
                for key, server in rows:
                    if key not in self.waiting:
                        self.waiting[key] = asyncio.create_task(self._wait_for_end(key, server))
                async for _ in connection.notifies(timeout=SEARCH_SECONDS, stop_after=1):
                    pass

    async def _wait_for_end(self, key: int, server: str) -> None:
        """Wait for one lock that was seen held. Having it proves that its process is gone."""
        try:
            async with await AsyncConnection.connect(self.url, autocommit=True) as connection:
                await connection.execute("SET lock_timeout = 0")
                if await _server(connection) == server:
                    await connection.execute("SELECT pg_advisory_lock(%s, %s)", [CLASS, key])
                    await self._in_thread(_end, key)
        except (psycopg.Error, DatabaseError) as error:
            logger.warning("not watched any more until it is found again: lock %s: %s", key, error)

    async def _in_thread(self, act: Any, *arguments: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self.endings, act, *arguments)


async def _server(connection: AsyncConnection[Any]) -> str:
    row = await (await connection.execute("SELECT pg_postmaster_start_time()::text")).fetchone()
    return str(row[0]) if row else ""


def _warm_up() -> None:
    """Connect to database and broker before anybody dies."""
    try:
        leases_end(lock_key=NO_LOCK)
    except DatabaseError as error:
        logger.warning("the watcher has no database yet: %s", error)
    hints_begin()


def _end(key: int) -> None:
    """End the leases of the process that held the lock, and ring the bell for each run."""
    leave_dead_session()
    for run_id in leases_end(lock_key=key):
        logger.warning("run %s: its worker is gone, its lease is ended", run_id)
        hint_run(run_id=run_id)
