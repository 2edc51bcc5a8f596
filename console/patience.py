"""How long a request waits for one answer of the database. A server that stands still says nothing: nobody would hear that it does."""

from functools import partial
from typing import Any

import psycopg
from django.db.backends.signals import connection_created


def give_up_after(seconds: float) -> None:
    """Have this process give up each session of its that leaves it without an answer for so long, with an OperationalError.

    For a web process, once. Others wait: a migration may take its time, and a worker has a lease that runs out.
    """
    connection_created.connect(partial(_bound, seconds), weak=False, dispatch_uid="give_up_after")


def _bound(seconds: float, connection: Any, **_: Any) -> None:
    session = connection.connection
    session.wait = partial(_wait, session, seconds)


def _wait(session: Any, seconds: float, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
    try:
        return psycopg.Connection.wait(session, gen, interval, seconds if timeout is None else timeout)
    except psycopg.OperationalError:
        if timeout is None and session.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            session.pgconn.finish()  # what it may still answer is for nobody
        raise
