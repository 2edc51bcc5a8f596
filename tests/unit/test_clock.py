"""The time that pages tell is the database's, whatever the clock of the web server says."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.db.backends.signals import connection_created
from django.utils import timezone

from console import clock
from console.templatetags import moments

pytestmark = pytest.mark.django_db


@pytest.fixture
def looking() -> Iterator[None]:
    """A process that looks at the database's clock with the next session that it opens."""
    clock.keep()
    yield
    connection_created.disconnect(dispatch_uid="console.clock")
    clock._last = None


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (at,) = cursor.fetchone()
    assert isinstance(at, datetime)
    return at


@pytest.mark.parametrize("hours", [-24, 1])
def test_ages_and_deadlines_go_by_the_database_where_this_machine_has_another_time(
    looking: None, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + timedelta(hours=hours))
    connection_created.send(sender=type(connection), connection=connection)
    at = database_now()
    assert ">5 min 0" in moments.age(at - timedelta(minutes=5))
    assert ">in 4 min 5" in moments.within(at + timedelta(minutes=5))
    assert abs(datetime.fromisoformat(moments.server_now()) - at) < timedelta(seconds=5)
