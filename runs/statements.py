"""The runs app's parts of the statement that a worker sends for each step.

A step is one statement, joined by runtime from the parts of the owners. Every part hangs on `fence` (the proof of the
lease, row locked) or on `go` (fence, no stop requested, budget room) and is written so that each condition sits on a row
that the statement itself locks or updates (DESIGN.md rulings 24 and 26). `done` is named by the joined statement: it is
empty when nothing was written.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from weakref import WeakSet

from django.db import connection

from accounts.statements import columns, fetch, fetch_row, joined
from runs.models import Message, Run
from runs.states import BudgetUnit, Holding

FENCE = """
fence AS (
    SELECT l.run_id, l.fence, l.stop_requested, l.news, l.pause_requested FROM runs_lease l
    WHERE l.run_id = %(run)s AND l.owner = %(owner)s AND l.fence = %(fence)s AND l.expires_at > clock_timestamp()
    FOR NO KEY UPDATE)"""

_UNITS = range(1, len(BudgetUnit) + 1)  # the places of the units in an allowance


def _by_unit(amount: str) -> str:
    """An array of what an expression is for each unit, `#` being its place."""
    return f"ARRAY[{', '.join(amount.replace('#', f'[{place}]') for place in _UNITS)}]"


_WANTED = "(%(reserve)s::bigint[])#"
_ROOM = (
    "b.cap# - b.reserved# - b.held_unknown# - b.spent# "
    "+ (%(release)s::bigint[])# - (%(spend)s::bigint[])# - (%(hold)s::bigint[])#"
)
# A budget without a cap has no room to run out of: it is unknown, so it is never short. The row is locked: whoever writes
# it holds the lease's row first, so nobody waits crosswise.
# Facts may always be written under the fence; new work needs `go` as well. `start` is False where the worker drains; `news`
# is what a worker that asks the model has read, or null: news that it has not read keep it from asking (ruling 33).
GO = f"""
purse AS (
    SELECT b.cap, %(reserve)s::bigint[] AS wanted, {_by_unit(_ROOM)} AS room,
        {_by_unit(f"({_WANTED} > 0 AND (b.spent# IS NULL OR coalesce({_ROOM} < {_WANTED}, false)))")} AS short
    FROM runs_allowance b, fence WHERE b.run_id = %(run)s AND b.run_id = fence.run_id FOR NO KEY UPDATE OF b),
go AS (
    SELECT fence.run_id, fence.fence FROM fence, purse
    WHERE %(start)s AND NOT fence.stop_requested AND NOT fence.pause_requested
      AND coalesce(%(news)s = fence.news, true) AND NOT true = ANY (purse.short))"""

# For a statement in which a part before it, `allows`, says whether new work may start.
GO_WHERE_ALLOWED = GO.removesuffix(")") + " AND EXISTS (SELECT FROM allows))"

_MOVED_BUDGET = {
    "reserved": f"b.reserved# - (%(release)s::bigint[])# + CASE WHEN done.starts THEN {_WANTED} ELSE 0 END",
    "held_unknown": "b.held_unknown# + (%(hold)s::bigint[])#",
    "spent": "b.spent# + (%(spend)s::bigint[])#",
}
BUDGET = """
budgeted AS (
    UPDATE runs_allowance b
    SET reserved = {reserved}, held_unknown = {held_unknown}, spent = {spent}
    FROM done WHERE b.run_id = %(run)s AND b.run_id = done.run_id RETURNING b.run_id),
entered AS (
    INSERT INTO runs_budgetentry (run_id, receipt_id, attempt_no, kind, model_calls, tool_calls, tokens, usd_micros,
        wall_ms)
    SELECT done.run_id, e.receipt, e.attempt, e.kind, e.model_calls, e.tool_calls, e.tokens, e.usd_micros, e.wall_ms
    FROM jsonb_to_recordset(%(entries)s::jsonb)
         AS e(receipt uuid, attempt int, kind text, model_calls bigint, tool_calls bigint, tokens bigint,
              usd_micros bigint, wall_ms bigint), done
    WHERE e.kind <> 'RESERVE' OR done.starts RETURNING receipt_id)""".format(
    **{column: _by_unit(moved) for column, moved in _MOVED_BUDGET.items()}
)

ARTIFACT = """
kept AS (
    INSERT INTO runs_artifact (tenant_id, sha256, size, media_type, body, data_key_id)
    SELECT %(tenant)s, %(kept_sha256)s, %(kept_size)s, 'application/json', %(kept_body)s, %(data_key)s FROM done
    ON CONFLICT DO NOTHING RETURNING id)"""

# The first of the two numbers of an advisory lock: "runs of this tenant are admitted". Who admits shares it until the commit;
# who stops or pauses a scope takes it alone, so each admission is either seen by that act or sees it.
ADMISSION_LOCK = 0x5168

# Agent, pinned version and thread of a run that is to be admitted; what is not there yet is null. Whether something stops
# or pauses it is read by a later statement (ADMIT), since this one's snapshot is older than the lock that it waits for.
PINNED = f"""
SELECT a.id, v.id, t.id
FROM (SELECT pg_advisory_xact_lock_shared({ADMISSION_LOCK}, hashtext(%(tenant)s::text))) AS shared
LEFT JOIN runs_agent a ON a.tenant_id = %(tenant)s AND a.key = %(agent_key)s
LEFT JOIN runs_agentversion v ON v.agent_id = a.id AND v.manifest_digest = %(manifest_digest)s
LEFT JOIN runs_thread t ON t.agent_id = a.id AND t.key = %(thread_key)s"""

# Taken by whoever stops or pauses a scope, before the row is written.
HOLD_ADMISSIONS = f"SELECT pg_advisory_xact_lock({ADMISSION_LOCK}, hashtext(%(tenant)s::text))"

# What stands over a run of this tenant, agent and thread.
STANDING = """
SELECT s.id FROM runs_scopecontrol s
WHERE s.tenant_id = %(tenant)s AND s.status = 'STANDING'
  AND (s.scope = 'TENANT' OR s.agent_id = %(agent)s OR s.thread_id = %(thread)s)"""

LIVE_IN_THREAD = """
SELECT r.id FROM runs_run r JOIN runs_thread t ON t.id = r.thread_id JOIN runs_agent a ON a.id = t.agent_id
WHERE a.tenant_id = %(tenant)s AND a.key = %(agent)s AND t.key = %(thread)s
  AND r.status = ANY(%(live)s) AND r.origin = ANY(%(roots)s) LIMIT 1"""

ADMIT = f"""
WITH thread AS (
    INSERT INTO runs_thread (id, tenant_id, agent_id, key)
    SELECT %(thread)s, %(tenant)s, %(agent)s, %(thread_key)s WHERE %(new_thread)s RETURNING id),
admitted AS (
    INSERT INTO runs_run (id, tenant_id, thread_id, agent_version_id, lineage_id, origin, root_run_id, parent_run_id,
        continued_from_id, forked_from_id, forked_from_revision, inherited_turns, inherited_messages, title,
        workspace_id, recovery_policy, max_takeovers, admission_key, created_by)
    VALUES (%(id)s, %(tenant)s, %(thread)s, %(version)s, %(lineage_id)s, %(origin)s, %(root_run_id)s,
        %(parent_run_id)s, %(continued_from_id)s, %(forked_from_id)s, %(forked_from_revision)s, %(inherited_turns)s,
        %(inherited_messages)s, %(title)s, %(workspace)s, %(recovery_policy)s, %(max_takeovers)s, %(admission_key)s,
        %(created_by)s)
    RETURNING {columns(Run)}),
leased AS (INSERT INTO runs_lease (run_id) SELECT id FROM admitted RETURNING run_id),
budgeted AS (
    INSERT INTO runs_allowance (run_id, cap, held_unknown, reserved, spent)
    SELECT id, %(caps)s::bigint[], %(nothing)s::bigint[], %(nothing)s::bigint[], %(nothing)s::bigint[] FROM admitted
    RETURNING run_id),
given AS (
    INSERT INTO runs_runinput (run_id, name, filename, sha256, size)
    SELECT admitted.id, i.name, i.filename, i.sha256, i.size FROM admitted,
        unnest(%(input_names)s::text[], %(input_files)s::text[], %(input_digests)s::text[], %(input_sizes)s::bigint[])
        AS i(name, filename, sha256, size)
    RETURNING id),
noted AS (
    INSERT INTO runs_runtransition (run_id, to_status, cause, actor)
    SELECT id, status, 'ADMITTED', created_by FROM admitted RETURNING id)
SELECT (SELECT count(*) FROM ({STANDING}) AS standing), * FROM admitted"""

# The thread's row is locked in an earlier statement, so that nobody else takes the same number.
MESSAGE = """
INSERT INTO runs_message (thread_id, run_id, seq, role, after_turn, sha256, body, data_key_id)
SELECT %(thread)s, %(run)s, coalesce(max(m.seq), 0) + 1, %(role)s, %(after_turn)s, %(sha256)s, %(body)s, %(data_key)s
FROM runs_message m WHERE m.thread_id = %(thread)s RETURNING seq"""

# A free lease of a queued run starts it once it is due; an expired lease of a run that somebody had is a takeover.
ACQUIRE = """
WITH free AS (
    SELECT l.run_id FROM runs_lease l
    WHERE l.run_id = %(run)s AND (l.owner IS NULL OR l.expires_at <= clock_timestamp()) FOR NO KEY UPDATE),
found AS (
    SELECT r.id, r.tenant_id, r.status, r.status <> 'QUEUED' AS takeover FROM runs_run r, free
    WHERE r.id = free.run_id AND r.status IN ('QUEUED', 'RUNNING', 'STOPPING')
      AND (r.due_at IS NULL OR r.due_at <= clock_timestamp())
    FOR NO KEY UPDATE OF r),
taken AS (
    UPDATE runs_lease l
    SET fence = l.fence + 1, owner = %(owner)s, lock_key = %(lock_key)s, acquired_at = clock_timestamp(),
        renewed_at = clock_timestamp(), expires_at = clock_timestamp() + %(ttl)s::float8 * interval '1 second'
    FROM found WHERE l.run_id = found.id RETURNING l.run_id, l.fence),
moved AS (
    UPDATE runs_run r
    SET status = CASE WHEN found.takeover THEN found.status ELSE 'RUNNING' END, due_at = NULL,
        takeovers = r.takeovers + found.takeover::int
    FROM found, taken WHERE r.id = taken.run_id RETURNING r.id, r.status),
noted AS (
    INSERT INTO runs_runtransition (run_id, from_status, to_status, cause, actor, fence)
    SELECT moved.id, found.status, moved.status, CASE WHEN found.takeover THEN 'TAKEOVER' ELSE 'ACQUIRED' END,
        'worker:' || %(owner)s::text, taken.fence
    FROM found, taken, moved RETURNING id)
SELECT found.tenant_id, taken.fence, found.takeover FROM found, taken, moved"""

# What a worker reads first of a run that it has taken, and under which lease.
CONTINUED = f"""
continued AS (
    SELECT l.owner = %(owner)s AND l.fence = %(fence)s AND l.expires_at > clock_timestamp() AS held, l.stop_requested,
        l.news, (SELECT coalesce(max(m.seq), 0) FROM runs_message m WHERE m.run_id = r.id) AS heard,
        ARRAY(SELECT b.unit FROM runs_budget b WHERE b.run_id = r.id) AS units,
        a.key, v.version, v.manifest_digest, {columns(Run, "r")}
    FROM runs_run r JOIN runs_lease l ON l.run_id = r.id JOIN runs_agentversion v ON v.id = r.agent_version_id
    JOIN runs_agent a ON a.id = v.agent_id WHERE r.id = %(run)s)"""

WOKEN = """
woken AS (
    SELECT w.cause FROM runs_wakeup w
    WHERE w.run_id = %(run)s AND w.status = 'PENDING' AND w.cause = ANY(%(causes)s))"""

# Whom a run acts for, while that is an active member of its tenant.
PRINCIPAL = """
principal AS (
    SELECT u.username, m.roles FROM runs_run r JOIN accounts_user u ON u.username = substr(r.created_by, 8)
    JOIN accounts_membership m ON m.tenant_id = r.tenant_id AND m.user_id = u.id
    WHERE r.id = %(run)s AND r.created_by LIKE 'person:%' AND u.is_active)"""

PIN = """
SELECT a.key, v.version, v.manifest_digest FROM runs_agentversion v JOIN runs_agent a ON a.id = v.agent_id
WHERE v.id = %(version)s"""

GIVEN = """
given AS (
    SELECT i.name, f.data_key_id, f.body, i.sha256 FROM runs_runinput i JOIN runs_run r ON r.id = i.run_id
    LEFT JOIN runs_artifact f ON f.tenant_id = r.tenant_id AND f.sha256 = i.sha256
    WHERE i.run_id = %(run)s ORDER BY i.name)"""
INPUTS = joined(GIVEN, select="SELECT * FROM given")

# What a run was told, up to a message where one is given.
SAID = f"""
said AS (
    SELECT {columns(Message, "m")} FROM runs_message m
    WHERE m.run_id = %(run)s AND coalesce(m.seq <= %(last_message)s::bigint, true) ORDER BY m.seq)"""

# The run of a proved lease, locked after it, as everything that a worker writes beside its steps begins.
LOCKED = f"""
locked AS (
    SELECT {columns(Run, "r")} FROM runs_run r, fence WHERE r.id = fence.run_id FOR NO KEY UPDATE OF r)"""

LIVING = """
living AS (SELECT c.id FROM runs_run c WHERE c.parent_run_id = %(run)s AND c.status = ANY(%(live)s))"""

WAKEUPS_CANCELLED = """
cancelled AS (
    UPDATE runs_wakeup w SET status = 'CANCELLED' WHERE w.run_id = %(run)s AND w.status = 'PENDING' RETURNING w.cause)"""

# The move of a locked run with its transition. The end of a run settles or voids its open requests; `frees` frees its lease.
MOVED = """
moved AS (
    UPDATE runs_run r
    SET status = %(to)s, hold_reason = %(hold_reason)s, hold_detail = %(hold_detail)s, end_reason = %(end_reason)s,
        due_at = clock_timestamp() + %(due_in)s::float8 * interval '1 second',
        ended_at = CASE WHEN %(ended)s THEN clock_timestamp() END
    WHERE r.id = %(run)s AND r.status = %(before)s RETURNING r.id),
noted AS (
    INSERT INTO runs_runtransition (run_id, from_status, to_status, cause, detail, actor, fence)
    SELECT moved.id, %(before)s, %(to)s, %(cause)s, %(detail)s, %(actor)s, %(fence)s FROM moved RETURNING id),
closed AS (
    UPDATE runs_controlrequest c
    SET settled_at = clock_timestamp(), status = CASE
        WHEN c.kind = 'PAUSE' AND c.status = 'ADOPTED' OR c.kind = 'STOP' AND %(stopped)s THEN 'SETTLED' ELSE 'MOOT' END
    FROM moved WHERE %(ended)s AND c.run_id = moved.id AND c.status IN ('ACCEPTED', 'ADOPTED') RETURNING c.id),
freed AS (
    UPDATE runs_lease l SET owner = NULL, expires_at = NULL, renewed_at = NULL, lock_key = NULL
    FROM moved WHERE %(frees)s AND l.run_id = moved.id RETURNING l.run_id)"""
MOVE = joined(MOVED, select="SELECT count(*) FROM moved")


_NOTHING: Counter[str] = Counter()


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
        moves = [self.moves.get(unit, _NOTHING) for unit in BudgetUnit]
        amounts = {
            name: f"{{{','.join([str(move[name]) for move in moves])}}}"
            for name in ("reserve", "release", "spend", "hold")
        }
        return {**amounts, "entries": json.dumps(self.entries)}


def fence_params(holding: Holding) -> dict[str, Any]:
    """The parameters of FENCE, and the tenant."""
    return {
        "run": holding.run_id,
        "owner": holding.owner,
        "fence": holding.fence,
        "tenant": holding.tenant_id,
    }


def run_statement(sql: str, params: dict[str, Any]) -> tuple[Any, ...]:
    """Send a joined statement, prepared, and return its one row."""
    return fetch_row(sql, params)


_PLANS_ONCE: WeakSet[Any] = WeakSet()
# A plan that is made once must not go by how few rows a table had at that moment: each step goes by keys, row by row.
_BY_KEYS = {
    "plan_cache_mode": "force_generic_plan",
    **dict.fromkeys(("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"), "off"),
}
_PLANNING = "SELECT " + ", ".join(f"set_config('{name}', %({name})s, false)" for name in _BY_KEYS)


def plan_once() -> None:
    """Let the server plan each statement of this session once, not at each call: planning a step costs more than running it.

    For the loop, until `plan_each`: other reads than those by key need a plan with their values to use a partial index.
    """
    connection.ensure_connection()
    if connection.connection not in _PLANS_ONCE:
        fetch(_PLANNING, _BY_KEYS)
        _PLANS_ONCE.add(connection.connection)


def plan_each() -> None:
    """Take `plan_once` back."""
    if connection.connection in _PLANS_ONCE:
        _PLANS_ONCE.discard(connection.connection)
        for name in _BY_KEYS:
            fetch(f"RESET {name}", {})
