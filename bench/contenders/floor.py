"""Raw SQL: what the database and psycopg allow. Durable commits, a compare-and-swap on the run, nothing else we promise."""

import psycopg
from psycopg.types.json import Jsonb

from bench.closed_loop import Operation
from bench.payload import LARGE_MESSAGES, MODEL_TEXT, SMALL_MESSAGES, STEPS, TOOL_TEXT, messages

TABLES = """
CREATE TABLE IF NOT EXISTS frun(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, version bigint NOT NULL, status text);
CREATE TABLE IF NOT EXISTS fcheckpoint(run_id bigint, seq bigint, state jsonb NOT NULL, at timestamptz DEFAULT now(),
    PRIMARY KEY (run_id, seq));
CREATE TABLE IF NOT EXISTS freceipt(run_id bigint, seq bigint, key text, result jsonb, PRIMARY KEY (run_id, key));
CREATE TABLE IF NOT EXISTS fevent(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_id bigint, kind text, seq bigint);
"""

STEP = """
WITH u AS (UPDATE frun SET version = version + 1 WHERE id = %s AND version = %s RETURNING id, version),
     r AS (INSERT INTO freceipt SELECT id, version, 'call-' || version, %s FROM u),
     e AS (INSERT INTO fevent(run_id, kind, seq) SELECT id, 'step', version FROM u)
INSERT INTO fcheckpoint(run_id, seq, state) SELECT id, version, %s FROM u RETURNING seq
"""

SAVE = """
WITH u AS (UPDATE frun SET version = version + 1 WHERE id = %s AND version = %s RETURNING id, version)
INSERT INTO fcheckpoint(run_id, seq, state) SELECT id, version, %s FROM u RETURNING seq
"""


def prepare(dsn: str) -> None:
    """Create the tables."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLES)


def agent(dsn: str) -> Operation:
    """floor20: a whole run of 20 single-statement commits, its creation and its end."""
    connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=0)

    def run() -> None:
        run_id = _new_run(connection)
        for version in range(STEPS):
            state = {"messages": [{"id": f"m{version}", "role": "ai", "content": MODEL_TEXT}], "n": version}
            _one(connection.execute(STEP, (run_id, version, Jsonb({"text": TOOL_TEXT}), Jsonb(state))))
        connection.execute("UPDATE frun SET status = 'DONE' WHERE id = %s", (run_id,))

    return run


def save(dsn: str) -> Operation:
    """raw_cte: one save of a 2 kB state, with the compare-and-swap, in one statement."""
    return _saving(dsn, SMALL_MESSAGES)


def save_large(dsn: str) -> Operation:
    """The same with a state of 500 kB."""
    return _saving(dsn, LARGE_MESSAGES)


def _saving(dsn: str, count: int) -> Operation:
    connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=0)
    run_id, version = _new_run(connection), 0
    state = {"messages": messages(count)}

    def once() -> None:
        nonlocal version
        _one(connection.execute(SAVE, (run_id, version, Jsonb(state))))
        version += 1

    return once


def _new_run(connection: psycopg.Connection) -> int:
    row = connection.execute("INSERT INTO frun(version, status) VALUES (0, 'RUNNING') RETURNING id").fetchone()
    if row is None:
        raise LookupError("an insert returns its row")
    return int(row[0])


def _one(cursor: psycopg.Cursor) -> None:
    if cursor.rowcount != 1:
        raise RuntimeError("the version was not the expected one")
