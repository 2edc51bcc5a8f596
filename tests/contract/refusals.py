"""What the database says where it refuses an act."""

from collections.abc import Callable

import psycopg
from django.db import DatabaseError, transaction

# A step goes past the ORM: its errors may come as the driver's own.
REFUSALS = (DatabaseError, psycopg.Error)


def refused(act: Callable[[], object]) -> str:
    """What a refused act of the database said. Fails where it was accepted."""
    try:
        with transaction.atomic():
            act()
    except REFUSALS as error:
        return str(error)
    raise AssertionError("it was accepted")
