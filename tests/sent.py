"""What is sent to the database, whichever way: through Django, or as constant SQL past its log."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from accounts.statements import send_prepared


@contextmanager
def statements(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every statement that any session of this process sends."""
    sent: list[str] = []

    def note(kind: type[Any]) -> None:
        execute = kind.execute

        def noted(cursor: Any, query: Any, *args: Any, **options: Any) -> Any:
            sent.append(query.decode() if isinstance(query, bytes) else str(query))
            return execute(cursor, query, *args, **options)

        patch.setattr(kind, "execute", noted)

    def step(session: Any, statement: bytes, values: Any) -> Any:
        sent.append(statement.decode())
        return send_prepared(session, statement, values)

    note(psycopg.Cursor)
    patch.setattr("accounts.statements.send_prepared", step)
    yield sent
