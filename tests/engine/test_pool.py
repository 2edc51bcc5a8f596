"""The sessions of a web process outlive a restart of the database, each without a request that is told that it is silent."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.utils import ConnectionHandler, OperationalError

from console.environment import database
from console.outage import sessions_renew
from tests.engine.engine import sql


@pytest.fixture
def pooled(live_database: str) -> Iterator[ConnectionHandler]:
    """Sessions through a pool, as a web process has them."""
    handler = ConnectionHandler({"default": {}, "pooled": database(live_database, pool=True)})
    yield handler
    pool: Any = handler.create_connection("pooled")
    pool.close_pool()


def session_of(one: Any) -> int:
    with one.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_after_one_answer_that_the_database_is_silent_nobody_else_meets_a_session_that_it_has_ended(
    pooled: ConnectionHandler,
) -> None:
    ones = [pooled.create_connection("pooled") for _ in range(5)]
    before = {session_of(one) for one in ones}
    for one in ones:
        one.close()
    sql("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", sorted(before))
    with pytest.raises(OperationalError):
        session_of(ones[0])
    ones[0].close()
    looking = sessions_renew(ones[0])
    assert looking is not None
    looking.join()
    after = {session_of(one) for one in ones}
    for one in ones:
        one.close()
    assert len(after) == 5 and before.isdisjoint(after)
