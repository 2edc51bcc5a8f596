"""The checkpoints app's parts of a worker's step: move the head by one and store the revision."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from accounts.keys import new_id
from accounts.selectors import sealed_body
from accounts.statements import columns, gathered, joined
from checkpoints.envelope import Parts, Snapshot
from checkpoints.models import Commitment, Obligation
from checkpoints.states import Encoding, Trigger

_HEAD_MOVED = """
done AS (
    UPDATE checkpoints_head h
    SET revision = %(ck_revision)s, digest = %(ck_digest)s, phase = %(ck_phase)s, trigger = %(ck_trigger)s
    FROM stands
    WHERE h.run_id = %(run)s AND h.run_id = stands.run_id
      AND h.revision = %(ck_revision)s - 1 AND h.digest = %(ck_parent)s
    RETURNING h.run_id, stands.fence, stands.starts)"""

_HEAD_MADE = """
done AS (
    INSERT INTO checkpoints_head (run_id, revision, digest, phase, trigger)
    SELECT fence.run_id, %(ck_revision)s, %(ck_digest)s, %(ck_phase)s, %(ck_trigger)s FROM fence
    RETURNING run_id, %(fence)s::bigint AS fence)"""

_SAVED = """
saved AS (
    INSERT INTO checkpoints_checkpoint (save_id, tenant_id, run_id, revision, parent_digest, format_version, phase,
        next_node, trigger, fence, intent_version, digest, encoding, body, data_key_id, body_bytes)
    SELECT %(ck_save)s, %(tenant)s, done.run_id, %(ck_revision)s, %(ck_parent)s, %(ck_format)s, %(ck_phase)s,
        %(ck_node)s, %(ck_trigger)s, done.fence, %(ck_intent)s, %(ck_digest)s, %(ck_encoding)s, %(ck_body)s,
        %(data_key)s, %(ck_bytes)s
    FROM done RETURNING save_id)"""

# `stands` is named by the joined statement: the fence, what else has to hold for the revision to be true, and whether new
# work starts with it.
SAVE = f"{_HEAD_MOVED},{_SAVED}"

# The save of whoever has locked lease and head in an earlier statement of the transaction.
UNDER_LOCKS = """
fence AS (SELECT %(run)s::uuid AS run_id, %(fence)s::bigint AS fence),
stands AS (SELECT fence.run_id, fence.fence, false AS starts FROM fence)"""
SAVE_LOCKED = joined(UNDER_LOCKS, SAVE, select="SELECT count(*) FROM saved")
# Revision 1 and the head that points at it.
SAVE_FIRST = joined(UNDER_LOCKS, _HEAD_MADE, _SAVED, select="SELECT count(*) FROM saved")

# What a run goes on from and what it has agreed, locked after its lease and its row (ruling 37).
HEAD_LOCKED = """
head_locked AS (
    SELECT h.run_id FROM checkpoints_head h, locked WHERE h.run_id = locked.id FOR NO KEY UPDATE OF h)"""
PROMISED = f"""
promised AS (
    SELECT {columns(Obligation, "o")} FROM checkpoints_obligation o, locked
    WHERE o.run_id = locked.id ORDER BY o.promised_at, o.id FOR SHARE OF o)"""
COMMITTED = f"""
committed AS (SELECT {columns(Commitment, "c")} FROM checkpoints_commitment c WHERE c.run_id = %(run)s)"""
COMMITTED_KEPT = f"""
committed AS (
    SELECT {columns(Commitment, "c")} FROM checkpoints_commitment c, fence
    WHERE c.run_id = fence.run_id ORDER BY c.accepted_at, c.id FOR SHARE OF c)"""
# The same for a person, who holds no lease.
COMMITTED_MEANWHILE = f"""
committed AS (
    SELECT {columns(Commitment, "c")} FROM checkpoints_commitment c
    WHERE c.run_id = %(run)s ORDER BY c.accepted_at, c.id FOR SHARE)"""

# The head, and what the revision before it is known by.
HEADED = """
headed AS (
    SELECT h.revision, h.digest, p.digest AS parent FROM checkpoints_head h
    LEFT JOIN checkpoints_checkpoint p ON p.run_id = h.run_id AND p.revision = h.revision - 1
    WHERE h.run_id = %(run)s)"""

# The newest full body up to a revision, and every revision from there on: what it is rebuilt from.
_CHAIN = """
    SELECT c.save_id, c.run_id, c.revision, c.parent_digest, c.digest, c.format_version, c.encoding, c.body, c.data_key_id,
        c.purged_at
    FROM checkpoints_checkpoint c
    WHERE c.run_id = %(run)s AND c.revision BETWEEN (
        SELECT max(f.revision) FROM checkpoints_checkpoint f
        WHERE f.run_id = %(run)s AND f.revision <= {upto} AND f.encoding = 'FULL') AND {upto}
    ORDER BY c.revision"""
CHAIN = _CHAIN.format(upto="%(revision)s")
CHAINED = f"""
chained AS ({_CHAIN.format(upto="(SELECT headed.revision FROM headed)")})"""
HEAD = gathered(HEADED, CHAINED, of=("headed", "chained"))

# Saves whose acknowledgement was lost, and the observations of a run's calls that hold no longer.
UNKNOWN = """
unknown AS (SELECT s.save_id FROM checkpoints_saveattempt s WHERE s.run_id = %(run)s AND s.status = 'UNKNOWN')"""
LAPSED = """
lapsed AS (
    SELECT l.tool_call_id, l.step_name FROM receipts_toolcall c JOIN checkpoints_lapse l ON l.tool_call_id = c.id
    WHERE c.run_id = %(run)s)"""

GOAL = """
INSERT INTO checkpoints_intent (run_id, version, body, data_key_id, revised_by, reason, digest)
VALUES (%(run)s, %(version)s, %(body)s, %(data_key)s, %(actor)s, %(reason)s, %(digest)s)"""

PROMISES = """
INSERT INTO checkpoints_obligation (id, tenant_id, run_id, step_name, statement)
SELECT p.id, %(tenant)s, %(run)s, p.step_name, p.statement
FROM unnest(%(ids)s::uuid[], %(steps)s::text[], %(statements)s::text[]) AS p(id, step_name, statement)"""

COMMITMENTS = """
INSERT INTO checkpoints_commitment (id, tenant_id, run_id, kind, statement, denies, source_kind, source_ref,
    source_version, accepted_revision)
SELECT c.id, %(tenant)s, %(run)s, c.kind, c.statement, c.denies, c.source_kind, c.source_ref, c.source_version,
    %(revision)s
FROM jsonb_to_recordset(%(commitments)s::jsonb) AS c(id uuid, kind text, statement text, denies text[],
    source_kind text, source_ref text, source_version text)"""

TASK_WRITE = """
task_written AS (
    INSERT INTO checkpoints_taskwrite (run_id, base_revision, tool_call_id, digest, fence)
    SELECT done.run_id, %(base_revision)s, answered.id, %(result_digest)s, done.fence FROM answered, done RETURNING id)"""

OBLIGATION = """
fulfilled AS (
    UPDATE checkpoints_obligation o
    SET status = 'FULFILLED', fulfilled_by = answered.id, closed_at = clock_timestamp()
    FROM answered, done
    WHERE o.run_id = %(run)s AND o.run_id = done.run_id AND o.step_name = %(call_step)s AND o.status = 'OPEN' AND %(result_ok)s
    RETURNING o.id)"""


@dataclass(frozen=True)
class Candidate:
    """A revision that is to be stored.

    `after` is the revision that it follows, None for the first one. `writes` are calls that the same commit writes: what
    the snapshot newly refers to must be among them or stored already. `base` are the bytes of `after` as they are stored,
    where they are known: only then is the revision stored as a delta.
    """

    snapshot: Snapshot
    trigger: Trigger
    after: Snapshot | None = None
    writes: frozenset[UUID] = frozenset()
    save_id: UUID = field(default_factory=new_id)
    base: Parts | None = None


@dataclass(frozen=True)
class Prepared:
    """A candidate that was found fit to be stored, with its bytes and the id by which its save can be looked up."""

    candidate: Candidate
    plain: bytes
    digest: str
    parts: Parts
    encoding: Encoding
    stored: bytes

    @property
    def save_id(self) -> UUID:
        """The id by which this save can be looked up."""
        return self.candidate.save_id


def save_params(prepared: Prepared, *, key_id: UUID) -> dict[str, Any]:
    """The parameters of SAVE."""
    snapshot = prepared.candidate.snapshot
    return {
        "data_key": key_id,
        "ck_revision": snapshot.revision,
        "ck_parent": snapshot.parent_digest,
        "ck_format": snapshot.format_version,
        "ck_intent": snapshot.contract.version,
        "ck_phase": str(snapshot.phase),
        "ck_node": snapshot.next_node,
        "ck_trigger": str(prepared.candidate.trigger),
        "ck_save": prepared.save_id,
        "ck_digest": prepared.digest,
        "ck_encoding": str(prepared.encoding),
        "ck_body": sealed_body(key_id=key_id, plain=prepared.stored),
        "ck_bytes": len(prepared.plain),
    }
