"""The runs app's parts of the statement that a worker sends for each step.

A step is one statement, joined by runtime from the parts of the owners. Every part hangs on `fence` (the proof of the
lease, row locked) or on `go` (fence, no stop requested, budget room) and is written so that each condition sits on a row
that the statement itself locks or updates (DESIGN.md rulings 24 and 26). `done` is named by the joined statement: it is
empty when nothing was written.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection
from psycopg import RawCursor

from runs.states import Holding

_NAMED = re.compile(r"%\((\w+)\)s")

FENCE = """
fence AS (
    SELECT l.run_id, l.fence, l.stop_requested, l.news, l.pause_requested FROM runs_lease l
    WHERE l.run_id = %(run)s AND l.owner = %(owner)s AND l.fence = %(fence)s AND l.expires_at > clock_timestamp()
    FOR NO KEY UPDATE)"""

# A budget without a cap has no room to run out of: `room` is unknown, so it is never short. Only what is reserved from is
# locked: whoever writes a budget holds the lease's row first, so nobody waits crosswise.
# Facts may always be written under the fence; new work needs `go` as well. `start` is False where the worker drains; `news`
# is what a worker that asks the model has read, or null: news that it has not read keep it from asking (ruling 33).
GO = """
want AS (
    SELECT w.unit, w.reserve, w.release, w.spend, w.hold
    FROM jsonb_to_recordset(%(budget)s::jsonb) AS w(unit text, reserve bigint, release bigint, spend bigint, hold bigint)),
purse AS (
    SELECT b.id, b.unit, b.cap, b.cap - b.reserved - b.held_unknown - b.spent AS room FROM runs_budget b, fence, want
    WHERE b.run_id = fence.run_id AND b.unit = want.unit AND want.reserve > 0 ORDER BY b.unit FOR NO KEY UPDATE OF b),
short AS (
    SELECT want.unit, want.reserve AS wanted, purse.room + want.release - want.spend - want.hold AS room, purse.cap
    FROM want LEFT JOIN purse USING (unit)
    WHERE want.reserve > 0
      AND (purse.id IS NULL OR purse.room + want.release - want.spend - want.hold < want.reserve)),
go AS (
    SELECT fence.run_id, fence.fence FROM fence
    WHERE %(start)s AND NOT fence.stop_requested AND NOT fence.pause_requested
      AND coalesce(%(news)s = fence.news, true) AND NOT EXISTS (SELECT FROM short))"""

BUDGET = """
budgeted AS (
    UPDATE runs_budget b
    SET reserved = b.reserved - want.release + CASE WHEN EXISTS (SELECT FROM go) THEN want.reserve ELSE 0 END,
        spent = b.spent + want.spend, held_unknown = b.held_unknown + want.hold
    FROM want, done WHERE b.run_id = done.run_id AND b.unit = want.unit RETURNING b.id),
entered AS (
    INSERT INTO runs_budgetentry (run_id, receipt_id, attempt_no, kind, model_calls, tool_calls, tokens, usd_micros,
        wall_ms)
    SELECT done.run_id, e.receipt, e.attempt, e.kind, e.model_calls, e.tool_calls, e.tokens, e.usd_micros, e.wall_ms
    FROM jsonb_to_recordset(%(entries)s::jsonb)
         AS e(receipt uuid, attempt int, kind text, model_calls bigint, tool_calls bigint, tokens bigint,
              usd_micros bigint, wall_ms bigint), done
    WHERE e.kind <> 'RESERVE' OR EXISTS (SELECT FROM go) RETURNING receipt_id)"""

ARTIFACT = """
kept AS (
    INSERT INTO runs_artifact (tenant_id, sha256, size, media_type, body, data_key_id)
    SELECT %(tenant)s, %(kept_sha256)s, %(kept_size)s, 'application/json', %(kept_body)s, %(data_key)s FROM done
    ON CONFLICT DO NOTHING RETURNING id)"""


@dataclass
class Purse:
    """The budget movements of one step, each an entry, and summed per unit since a row is updated once in a statement."""

    moves: dict[str, Counter[str]] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)

    def reserve(self, receipt: UUID, attempt: int, amounts: dict[str, int]) -> "Purse":
        """Reserve before a dispatch; takes effect only where `go` holds."""
        return self._add(receipt, attempt, amounts, "RESERVE", {"reserve": amounts})

    def settle(self, receipt: UUID, attempt: int, reserved: dict[str, int], spent: dict[str, int]) -> "Purse":
        """Turn a reservation into what was really used. What goes beyond it counts in full, with an OVERRUN entry."""
        beyond = {unit: used - reserved.get(unit, 0) for unit, used in spent.items() if used > reserved.get(unit, 0)}
        self._add(receipt, attempt, beyond, "OVERRUN", {})
        return self._add(receipt, attempt, spent, "SETTLE", {"release": reserved, "spend": spent})

    def hold_unknown(self, receipt: UUID, attempt: int, amounts: dict[str, int]) -> "Purse":
        """Keep a reservation whose use nobody knows."""
        return self._add(receipt, attempt, amounts, "HOLD_UNKNOWN", {"release": amounts, "hold": amounts})

    def _add(
        self, receipt: UUID, attempt: int, amounts: dict[str, int], kind: str, columns: dict[str, dict[str, int]]
    ) -> "Purse":
        if amounts:
            self.entries.append({"receipt": str(receipt), "attempt": attempt, "kind": kind, **amounts})
        for column, per_unit in columns.items():
            for unit, amount in per_unit.items():
                self.moves.setdefault(unit, Counter())[column] += amount
        return self

    def params(self) -> dict[str, str]:
        """The parameters of GO and BUDGET."""
        names = ("reserve", "release", "spend", "hold")
        rows = [{"unit": unit, **{name: move[name] for name in names}} for unit, move in self.moves.items()]
        return {"budget": json.dumps(rows), "entries": json.dumps(self.entries)}


def fence_params(holding: Holding) -> dict[str, Any]:
    """The parameters of FENCE, and the tenant."""
    return {
        "run": holding.run_id,
        "owner": holding.owner,
        "fence": holding.fence,
        "tenant": holding.tenant_id,
    }


def joined(*parts: str, select: str) -> str:
    """One statement made of named parts, in the order of the locks."""
    return "WITH" + ",".join(parts) + "\n" + select


def run_statement(sql: str, params: dict[str, Any]) -> tuple[Any, ...]:
    """Send a joined statement, prepared, and return its one row."""
    connection.ensure_connection()
    numbered, names = _numbered(sql)
    with connection.wrap_database_errors, RawCursor(connection.connection) as cursor:
        cursor.execute(numbered, [params[name] for name in names], prepare=True)
        row: tuple[Any, ...] | None = cursor.fetchone()
    if row is None:
        raise LookupError("a joined statement answers with one row")
    return row


@contextmanager
def steps_planned_once() -> Iterator[None]:
    """Let the server plan each step's statement once for this session, not at each call: planning costs more than running.

    Only around the loop, whose other reads are by key: a plan without its values can't use most partial indexes.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET plan_cache_mode = force_generic_plan")
    try:
        yield
    finally:
        if connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("RESET plan_cache_mode")


@cache
def _numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """A statement as the server takes it, with `$1` for the first name and so on. psycopg parses a long one at each call."""
    names = tuple(dict.fromkeys(_NAMED.findall(sql)))
    numbers = {name: f"${number}" for number, name in enumerate(names, start=1)}
    return _NAMED.sub(lambda found: numbers[found[1]], sql).encode(), names
