"""The watcher's side: wait for the lock of every living pool process, and end the leases of one that is gone.

It only ends leases of a lock that it has seen held and then got itself, from the same server: a worker that is frozen keeps
its lock, and after a restart of the database, which frees every lock, nobody is taken for dead.
"""

import asyncio
import logging
from typing import Any

import psycopg
from django.db import connections
from psycopg import AsyncConnection

from runs.leases import leases_end
from runs.wakeups import hint_run
from runtime.liveness.lock import CLASS

DISCOVERY_SECONDS = 0.25
RECONNECT_SECONDS = 1.0

_LIVING = """
SELECT l.objid::bigint, pg_postmaster_start_time()::text FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.classid = %s AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""

logger = logging.getLogger(__name__)


async def watch(url: str) -> None:
    """Watch until cancelled. Whatever goes wrong with the database costs speed only, and is tried again."""
    while True:
        try:
            await _watch_server(url)
        except psycopg.Error as error:
            logger.warning("the watcher lost the database, leases run out by themselves meanwhile: %s", error)
        await asyncio.sleep(RECONNECT_SECONDS)


async def _watch_server(url: str) -> None:
    waiting: dict[int, asyncio.Task[None]] = {}
    connection = await AsyncConnection.connect(url, autocommit=True)
    try:
        while True:
            rows = await (await connection.execute(_LIVING, [CLASS])).fetchall()
            for key, server in rows:
                if key not in waiting or waiting[key].done():
                    waiting[key] = asyncio.create_task(_wait_for_end(url, key, server))
            waiting = {key: task for key, task in waiting.items() if not task.done()}
            await asyncio.sleep(DISCOVERY_SECONDS)
    finally:
        for task in waiting.values():
            task.cancel()
        await connection.close()


async def _wait_for_end(url: str, key: int, server: str) -> None:
    """Wait for one lock that was seen held. Having it proves that its process is gone."""
    try:
        async with await AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("SET lock_timeout = 0")
            await connection.execute("SELECT pg_advisory_lock(%s, %s)", [CLASS, key])
            if await _server(connection) == server:
                await asyncio.to_thread(_end, key)
    except psycopg.Error as error:
        logger.warning("not watched any more until it is found again: lock %s: %s", key, error)


async def _server(connection: AsyncConnection[Any]) -> str:
    row = await (await connection.execute("SELECT pg_postmaster_start_time()::text")).fetchone()
    return str(row[0]) if row else ""


def _end(key: int) -> None:
    """End the leases of the process that held the lock, and ring the bell for each run."""
    try:
        for run_id in leases_end(lock_key=key):
            logger.warning("run %s: its worker is gone, its lease is ended", run_id)
            hint_run(run_id=run_id)
    finally:
        connections.close_all()
