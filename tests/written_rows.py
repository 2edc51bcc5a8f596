"""Which tables a piece of work has written to."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

_COUNTED = "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_user_tables"


@contextmanager
def undone() -> Iterator[set[str]]:
    """Whatever is written inside is taken back at the end; the names of the tables that were written to are in the set by then.

    The server counts rows for each session, and hands nothing on before a transaction is over; rows that are taken back count too.
    """
    written: set[str] = set()
    with transaction.atomic():
        before = _counted()
        yield written
        written |= {table for table, count in _counted().items() if count > before.get(table, 0)}
        transaction.set_rollback(True)


def _counted() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(_COUNTED)
        return dict(cursor.fetchall())
