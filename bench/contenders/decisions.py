"""One decision on a wait: `approval_decide` in this process, and the same rows written by plain SQL on the same schema.

Both decide waits of a database with POOL waiting runs, each once, and write the same rows under the same locks and triggers.
"""

import hashlib
import secrets
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg

from bench.closed_loop import Operation
from bench.contenders import ours
from bench.parked import park

POOL = 8_000
SHARE = 600  # what one worker takes for itself

_POOL = """
CREATE TABLE bench_pool AS SELECT id, run_id, tenant_id, checkpoint_revision, checkpoint_digest, args_digest, tool_call_id
FROM approvals_wait WHERE status = 'OPEN'"""

_TAKE = """
DELETE FROM bench_pool WHERE ctid = ANY(ARRAY(SELECT ctid FROM bench_pool LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING *"""


def prepare(dsn: str) -> None:
    """One run that waits, and POOL copies of it."""
    ours.prepare(dsn)
    from runtime.loop import drive

    run_id = ours.started(agent="asker")
    drive(run_id)
    park(dsn, run_id, POOL)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_POOL)


def signalbox(dsn: str) -> Operation:
    """`approval_decide` with every guard, as any door calls it; the hint goes nowhere."""
    ours.set_up(dsn)
    from accounts.selectors import actor_named
    from approvals.services import Decided, Seen
    from approvals.states import DecisionVerdict
    from runtime.services import wait_decide

    waits = _taken(dsn)
    actor = actor_named(username=ours.PERSON, door="command")

    def decide() -> None:
        wait, _, _, revision, digest, args_digest, _ = next(waits)
        outcome = wait_decide(
            actor=actor,
            wait_id=wait,
            verdict=DecisionVerdict.APPROVE,
            seen=Seen(revision, digest, args_digest),
            reason="bench",
        )
        if not isinstance(outcome, Decided):
            raise TypeError(f"{outcome}")

    return decide


def plain(dsn: str) -> Operation:
    """The same transaction by hand: locks, vote, decision, wait, wakeup, run, transition, audit. It checks nothing."""
    waits = _taken(dsn)
    connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=0)

    def decide() -> None:
        wait, run, tenant, revision, digest, args_digest, _ = next(waits)
        shown = {"wait": wait, "revision": revision, "digest": digest, "args_digest": args_digest}
        with connection.transaction():
            for statement in _PLAIN:
                connection.execute(statement, {**shown, "run": run, "tenant": tenant, "id": uuid4()})
            _audit(connection, tenant, wait)

    return decide


_PLAIN = (
    "SELECT status FROM runs_run WHERE id = %(run)s FOR NO KEY UPDATE",
    "SELECT status FROM approvals_wait WHERE id = %(wait)s FOR NO KEY UPDATE",
    (
        "INSERT INTO approvals_vote (id, wait_id, actor, voice, verdict, seen_revision, seen_digest, seen_args_digest, reason) "
        "VALUES (%(id)s, %(wait)s, 'person:bench', 'person:bench', 'APPROVE', %(revision)s, %(digest)s, %(args_digest)s, 'bench')"
    ),
    (
        "INSERT INTO approvals_decision (wait_id, verdict, seen_revision, seen_digest, seen_args_digest, reason, actor) "
        "VALUES (%(wait)s, 'APPROVE', %(revision)s, %(digest)s, %(args_digest)s, 'bench', 'person:bench')"
    ),
    (
        "UPDATE approvals_wait SET status = 'APPROVED', closed_at = clock_timestamp(), "
        "valid_until = clock_timestamp() + interval '1 day' WHERE id = %(wait)s AND status = 'OPEN'"
    ),
    (
        "INSERT INTO runs_wakeup (id, tenant_id, run_id, wait_id, cause, dedupe_key) "
        "VALUES (%(id)s, %(tenant)s, %(run)s, %(wait)s, 'DECISION', 'wait:' || %(wait)s::text || ':DECISION')"
    ),
    "UPDATE runs_run SET status = 'QUEUED' WHERE id = %(run)s AND status = 'WAITING'",
    (
        "INSERT INTO runs_runtransition (run_id, from_status, to_status, cause, actor) "
        "VALUES (%(run)s, 'WAITING', 'QUEUED', 'DECISION', 'person:bench')"
    ),
)


def _audit(connection: psycopg.Connection[Any], tenant: UUID, wait: UUID) -> None:
    end = "SELECT seq, hash, clock_timestamp() FROM accounts_audithead WHERE tenant_id = %s FOR NO KEY UPDATE"
    found = connection.execute(end, [tenant]).fetchone()
    if found is None:
        raise LookupError("the tenant has no audit chain")
    seq, before, at = found
    canonical = secrets.token_bytes(600)
    row = (tenant, seq + 1, str(wait), canonical, at, before, hashlib.sha256(canonical).hexdigest())
    connection.execute(
        "INSERT INTO accounts_auditevent (tenant_id, seq, actor, action, object_type, object_id, detail, canonical, at, "
        "prev_hash, hash) VALUES (%s, %s, 'person:bench', 'wait.decide', 'wait', %s, '{}', %s, %s, %s, %s)",
        row,
    )
    connection.execute(
        "UPDATE accounts_audithead SET seq = %s, hash = %s WHERE tenant_id = %s", [seq + 1, row[-1], tenant]
    )


def _taken(dsn: str) -> Iterator[tuple[Any, ...]]:
    """Waits that nobody else decides."""
    with psycopg.connect(dsn) as connection:
        return iter(connection.execute(_TAKE, [SHARE]).fetchall())
