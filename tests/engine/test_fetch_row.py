"""How a step's statement is sent: the same values as psycopg would send and read, and the same errors."""

from contextlib import closing
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, DataError, IntegrityError, connection, transaction
from django.db.utils import OperationalError
from hypothesis import given
from hypothesis import strategies as st

from accounts.statements import fetch, fetch_row
from checkpoints.states import Phase
from runs.canonical import MAX_INTEGER
from runs.errors import connection_lost
from tests.engine.engine import sql

pytestmark = pytest.mark.usefixtures("shared_engine")

BACK = """
SELECT %(text)s::text, %(whole)s::bigint, %(truth)s::boolean, %(id)s::uuid::text, %(body)s::bytea::text,
    %(part)s::float8::text, jsonb_build_object('v', %(text)s::text)"""


@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\0")) | st.none(),
    whole=st.integers(-MAX_INTEGER, MAX_INTEGER) | st.none(),
    truth=st.booleans() | st.none(),
    id=st.uuids() | st.none(),
    body=st.binary() | st.none(),
    part=st.floats(allow_nan=False) | st.none(),
)
def test_values_come_back_as_through_psycopg(**values: Any) -> None:
    assert fetch_row(BACK, values) == fetch(BACK, values)[0]


def test_a_member_of_an_enum_is_sent_as_its_text() -> None:
    assert fetch_row("SELECT %(phase)s::text", {"phase": Phase.FINISHED}) == ("FINISHED",)


def test_a_text_with_nul_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(DataError, match="NUL"):
        fetch_row("SELECT %(text)s::text", {"text": "a\0b"})


@pytest.mark.parametrize(("statement", "value"), [("SELECT %(v)s::text", [1]), ("SELECT now(), %(v)s::text", "a")])
def test_what_a_step_does_not_send_or_read_is_no_guess(statement: str, value: Any) -> None:
    with pytest.raises(TypeError, match="a step"):
        fetch_row(statement, {"v": value})


def test_no_row_is_an_error() -> None:
    with pytest.raises(LookupError):
        fetch_row("SELECT 1 WHERE %(v)s::boolean", {"v": False})


def test_an_error_of_the_server_is_djangos_with_its_state() -> None:
    with pytest.raises(DatabaseError) as caught:
        fetch_row("SELECT 1 / %(v)s::int", {"v": 0})
    assert getattr(caught.value.__cause__, "sqlstate", None) == "22012"
    assert fetch_row("SELECT 1 / %(v)s::int", {"v": 1}) == (1,)


def test_a_rule_that_a_row_breaks_is_named() -> None:
    with pytest.raises(IntegrityError, match="accounts_tenant"):
        fetch_row("INSERT INTO accounts_tenant (id, name) VALUES (%(id)s, 'X') RETURNING 1", {"id": uuid4()})


def test_after_a_rollback_has_made_the_session_forget_it_is_prepared_anew() -> None:
    statement, values = "SELECT %(v)s::uuid::text", {"v": UUID(int=7)}
    before = fetch_row(statement, values)
    with transaction.atomic():
        fetch("SELECT 1", {})
        transaction.set_rollback(True)
    fetch("SELECT 1", {})  # psycopg lets go of everything before it
    assert sql("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'step%%'") == [(0,)]
    assert fetch_row(statement, values) == before


def test_in_a_transaction_it_belongs_to_it() -> None:
    with transaction.atomic():
        fetch_row("SELECT set_config('signalbox.here', %(v)s, true)", {"v": "yes"})
        assert sql("SELECT current_setting('signalbox.here')") == [("yes",)]
    assert sql("SELECT current_setting('signalbox.here')") == [("",)]


def test_a_session_that_the_server_ended_is_told_as_lost() -> None:
    (pid,) = fetch_row("SELECT pg_backend_pid()", {})
    _end_session(pid)
    with pytest.raises(OperationalError) as caught:
        fetch_row("SELECT pg_backend_pid()", {})
    assert connection_lost(caught.value)
    connection.close()
    assert fetch_row("SELECT pg_backend_pid()", {}) != (pid,)


def _end_session(pid: int) -> None:
    other = connection.copy()
    with closing(other), other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
