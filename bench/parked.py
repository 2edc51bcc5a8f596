"""Ten thousand runs that wait for a person, made from one that does, as rows."""

from typing import LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

# Every table with rows of a run, but for what was only seen on the way.
_TABLES = """
SELECT c.oid::regclass::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attname = 'run_id' AND NOT a.attisdropped
  AND c.relname <> 'runs_traceevent'"""

_ABOVE: dict[str, LiteralString] = {
    "runs_run": "t.id = %(run)s",
    "runs_thread": "t.id = (SELECT r.thread_id FROM runs_run r WHERE r.id = %(run)s)",
}

_UNIQUE_TEXTS = {"admission_key", "key"}

# The columns of a table: whether each counts by itself, and whether it names something that is copied too.
_COLUMNS = """
SELECT a.attname, a.attidentity <> '',
    a.atttypid = 'uuid'::regtype AND a.attname NOT IN ('tenant_id', 'data_key_id') AND NOT EXISTS (
        SELECT FROM pg_constraint f WHERE f.contype = 'f' AND f.conrelid = a.attrelid AND f.conkey = ARRAY[a.attnum]
        AND f.confrelid <> ALL(%s::regclass[]))
FROM pg_attribute a WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''"""


def park(dsn: str, run_id: UUID, copies: int) -> None:
    """Copy a run with all its rows so often, past the triggers. Each copy waits as the run does."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET session_replication_role = replica")
        tables = [row[0] for row in connection.execute(_TABLES)]
        chosen = dict.fromkeys(tables, "t.run_id = %(run)s") | _ABOVE
        for table, key in chosen.items():
            connection.execute(_copy(connection, table, key, list(chosen)), {"copies": copies, "run": run_id})
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")


def _copy(connection: psycopg.Connection, table: str, key: LiteralString, copied: list[str]) -> sql.Composed:
    columns = connection.execute(_COLUMNS, [copied, table]).fetchall()
    names = [sql.Identifier(name) for name, counted, _ in columns if not counted]
    values = [_value(name, own) for name, counted, own in columns if not counted]
    return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} t, generate_series(1, %(copies)s) n WHERE {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(names),
        sql.SQL(", ").join(values),
        sql.Identifier(table),
        sql.SQL(key),
    )


def _value(name: str, own: bool) -> sql.Composable:
    column = sql.SQL("t.{}").format(sql.Identifier(name))
    if name in _UNIQUE_TEXTS:
        return sql.SQL("{} || n").format(column)
    return sql.SQL("md5({}::text || n)::uuid").format(column) if own else column
