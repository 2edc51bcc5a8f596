"""Django's PostgreSQL backend with the seam. Named by ENGINE in tests.matrix.settings."""

import os
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base

from accounts import statements
from tests.matrix.store import faults as store
from tests.matrix.store.faults import SERVER_ERRORS, StoreFault, ack_order_taken, current_rate


def session_name(pid: int, thread: str = "") -> str:
    """How the sessions of a process are named in pg_stat_activity."""
    return f"matrix-{pid}-{thread}"[:63]


class Seam:
    """What one session is told to fail with."""

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        self.raw = raw
        self.open = False  # a transaction's first statement was sent
        self.wrote = False
        self.fault: StoreFault | None = None

    def statement_begins(self, sql: str) -> None:
        """Draw at the start of a unit, and strike what strikes there. Raises psycopg's own errors."""
        reads = sql.lstrip().upper().startswith("SELECT")
        if not self.open:
            rate = current_rate(settings.FAULT_DIR)
            self.fault = rate.draw(reading=reads and self.raw.autocommit) if rate is not None else None
            self.open, self.wrote = not self.raw.autocommit, False
        self.wrote = self.wrote or not reads
        if self.fault == StoreFault.LOST_BEFORE or (self.fault == StoreFault.LOST_DURING and self.raw.autocommit):
            self.lose()
        code = SERVER_ERRORS.get(self.fault) if self.fault else None
        if code:
            self._strike()
            raising = f"DO $$ BEGIN RAISE EXCEPTION 'told to fail' USING ERRCODE = '{code}'; END $$"
            _execute(psycopg.Cursor(self.raw), raising.encode())

    def statement_ends(self) -> None:
        """After a statement that was a unit of its own."""
        if self.raw.autocommit:
            self.committed()

    def committing(self) -> None:
        """Before a commit."""
        if self.open and self.fault == StoreFault.LOST_DURING:
            self.lose()

    def committed(self) -> None:
        """After a commit: lose the answer to it, if told so."""
        ordered = self.wrote and ack_order_taken(settings.FAULT_DIR)
        if self.fault == StoreFault.ACK_LOST or ordered:
            self.fault = StoreFault.ACK_LOST
            self.lose()
        self.ended()

    def ended(self) -> None:
        """The unit is over."""
        self.open, self.fault = False, None

    def lose(self) -> NoReturn:
        """The connection is gone; the server rolls back what was not committed."""
        self._strike()
        self.ended()
        self.raw.close()
        raise psycopg.OperationalError("the connection was lost, as it was told to be")

    def _strike(self) -> None:
        fault, self.fault = self.fault, None
        rate = current_rate(settings.FAULT_DIR)
        if rate is not None and fault is not None:
            rate.note(fault)


_execute = psycopg.Cursor.execute
_send = statements.send_prepared


def watch_statements() -> None:
    """Have whatever this process sends ask the seam of its session first: every cursor, whatever its class, and each step."""
    psycopg.Cursor.execute = _execute_with_seam  # type: ignore[method-assign, assignment]
    statements.send_prepared = _send_with_seam


def forget_statements() -> None:
    """Undo it."""
    psycopg.Cursor.execute = _execute  # type: ignore[method-assign]
    statements.send_prepared = _send


def _send_with_seam(session: "psycopg.Connection[Any]", statement: bytes, values: Sequence[Any]) -> Any:
    seam: Seam | None = getattr(session, "seam", None)
    if seam is None:
        return _send(session, statement, values)
    seam.statement_begins(statement.decode())
    done = _send(session, statement, values)
    seam.statement_ends()
    return done


def _execute_with_seam(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
    seam: Seam | None = getattr(cursor.connection, "seam", None)
    if seam is None:
        return _execute(cursor, query, params, **options)
    if store.replace_text is not None and isinstance(query, str):
        query = store.replace_text(query)
    seam.statement_begins(query.decode() if isinstance(query, bytes) else str(query))
    done = _execute(cursor, query, params, **options)
    seam.statement_ends()
    return done


class DatabaseWrapper(base.DatabaseWrapper):
    """Sessions are named after their process and thread, so that a test can end those of one process."""

    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        params["application_name"] = session_name(os.getpid(), threading.current_thread().name)
        return params

    def init_connection_state(self) -> None:
        super().init_connection_state()
        self.connection.seam = Seam(self.connection)

    @property
    def _seam(self) -> Seam | None:
        return getattr(self.connection, "seam", None)

    def _commit(self) -> None:
        with self.wrap_database_errors:
            if self._seam is not None:
                self._seam.committing()
        super()._commit()  # type: ignore[misc]
        with self.wrap_database_errors:
            if self._seam is not None:
                self._seam.committed()

    def _rollback(self) -> None:
        if self._seam is not None:
            self._seam.ended()
        super()._rollback()  # type: ignore[misc]
