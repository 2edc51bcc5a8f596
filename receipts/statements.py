"""The receipts app's parts of a worker's step: seal a turn, record proposals and calls, dispatch, record a result.

A fence is proved for one run: each part touches only what belongs to that run, whatever id it is given.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from accounts.models import among
from accounts.selectors import sealed_body
from accounts.statements import as_array, columns, joined
from receipts.models import ModelCall, Proposal, Result, ToolCall
from receipts.states import UNROUTED_CALL, Disposition

SEAL = """
sealed AS (
    UPDATE receipts_modelcall m
    SET status = 'SEALED', response_digest = %(turn_digest)s, response_id = %(turn_response_id)s,
        input_tokens = %(turn_input)s, output_tokens = %(turn_output)s, sealed_at = clock_timestamp(),
        sealed_fence = done.fence
    FROM done WHERE m.id = %(turn_id)s AND m.run_id = done.run_id AND m.status = 'DISPATCHED' RETURNING m.id),
sealed_try AS (
    UPDATE receipts_attempt a
    SET outcome = 'OK', finished_at = clock_timestamp(), response_digest = %(turn_digest)s
    FROM sealed WHERE a.model_call_id = sealed.id AND a.attempt_no = %(turn_attempt)s AND a.outcome IS NULL
    RETURNING a.id)"""

CALLS = """
new_call AS (
    SELECT c.* FROM jsonb_to_recordset(%(calls)s::jsonb) AS c(id uuid, ordinal int, tool text, tool_version text,
        tool_hash text, effect_class text, step_name text, args_digest text, args text, idempotency_key text,
        intent_key text, send boolean, timeout double precision, authorised_by text)),
called AS (
    INSERT INTO receipts_toolcall (id, tenant_id, run_id, ordinal, tool, tool_version, tool_hash, effect_class,
        step_name, args_digest, args, data_key_id, idempotency_key, intent_key, status, attempts, proposed_revision,
        turn_no)
    SELECT c.id, %(tenant)s, done.run_id, c.ordinal, c.tool, c.tool_version, c.tool_hash, c.effect_class, c.step_name,
        c.args_digest, decode(c.args, 'base64'), %(data_key)s, c.idempotency_key, c.intent_key,
        CASE WHEN c.send AND done.starts THEN 'DISPATCHED' ELSE 'PROPOSED' END, (c.send AND done.starts)::int,
        %(ck_revision)s, %(turn_no)s
    FROM new_call c, done RETURNING id),
tried AS (
    INSERT INTO receipts_attempt (tool_call_id, attempt_no, fence, deadline_at, authorised_by)
    SELECT c.id, 1, done.fence, clock_timestamp() + c.timeout * interval '1 second', c.authorised_by
    FROM new_call c, done WHERE c.send AND done.starts RETURNING tool_call_id),
proposed AS (
    INSERT INTO receipts_proposal (model_call_id, ordinal, tool, args_digest, disposition, tool_call_id, refusal)
    SELECT sealed.id, p.ordinal, p.tool, p.args_digest, p.disposition, p.call, p.refusal
    FROM jsonb_to_recordset(%(proposals)s::jsonb)
         AS p(ordinal int, tool text, args_digest text, disposition text, call uuid, refusal text), sealed
    RETURNING ordinal)"""

# An attempt number that is no longer the next one means that somebody else has sent or settled the call: it stays out.
DISPATCH = """
sent AS (
    UPDATE receipts_toolcall t
    SET status = 'DISPATCHED', attempts = s.attempt, retry_at = NULL
    FROM done, jsonb_to_recordset(%(sendings)s::jsonb)
         AS s(call uuid, attempt int, timeout double precision, authorised_by text)
    WHERE t.id = s.call AND t.run_id = done.run_id AND t.attempts = s.attempt - 1
      AND t.status = ANY(%(sent_from)s::text[])
      AND NOT t.contradicted
    RETURNING t.id, t.attempts, s.timeout, s.authorised_by),
tried AS (
    INSERT INTO receipts_attempt (tool_call_id, attempt_no, fence, deadline_at, authorised_by)
    SELECT sent.id, sent.attempts, done.fence, clock_timestamp() + sent.timeout * interval '1 second',
        sent.authorised_by
    FROM sent, done RETURNING attempt_no),
publishing AS (
    UPDATE receipts_publication p SET status = 'DISPATCHED', changed_at = clock_timestamp()
    FROM sent WHERE p.tool_call_id = sent.id RETURNING p.id)"""

# What a result stands on: its call is still open, and in the attempt that was answered. Else nothing of it is written.
OPEN_CALL = """
stands AS (
    SELECT fence.run_id, fence.fence, EXISTS (SELECT FROM go) AS starts FROM fence, receipts_toolcall t
    WHERE t.id = %(call)s AND t.run_id = fence.run_id AND t.status = 'DISPATCHED' AND t.attempts = %(call_attempt)s
    FOR NO KEY UPDATE OF t)"""

RESULT = """
answered AS (
    UPDATE receipts_toolcall t
    SET status = %(call_status)s, error = %(call_error)s, external_ref = %(call_external_ref)s
    FROM done WHERE t.id = %(call)s AND t.run_id = done.run_id AND t.status = 'DISPATCHED'
    RETURNING t.id, t.idempotency_key, t.tool),
answered_try AS (
    UPDATE receipts_attempt a
    SET outcome = %(try_outcome)s, error = %(call_error)s, finished_at = clock_timestamp(),
        response_digest = %(result_digest)s
    FROM answered WHERE a.tool_call_id = answered.id AND a.attempt_no = %(call_attempt)s AND a.outcome IS NULL
    RETURNING a.id),
result AS (
    INSERT INTO receipts_result (tool_call_id, source, ok, attempt_no, value, data_key_id, digest, fence)
    SELECT answered.id, 'LIVE', %(result_ok)s, %(call_attempt)s, %(result_value)s, %(data_key)s, %(result_digest)s,
        done.fence
    FROM answered, done RETURNING tool_call_id)"""

# What a result means for what its call has changed, or was to change, outside. A call that only reads has none of it.
EFFECT = """
effected AS (
    INSERT INTO receipts_effect (id, tenant_id, run_id, tool_call_id, idempotency_key, kind, target, external_ref,
        payload_digest)
    SELECT %(effect_id)s, %(tenant)s, done.run_id, answered.id, answered.idempotency_key, answered.tool,
        %(effect_target)s, %(call_external_ref)s, %(effect_payload)s
    FROM answered, done WHERE %(effect_known)s RETURNING id),
published AS (
    UPDATE receipts_publication p
    SET status = CASE WHEN %(result_ok)s THEN 'PUBLISHED' ELSE 'FAILED' END, external_ref = %(call_external_ref)s,
        changed_at = clock_timestamp()
    FROM answered WHERE p.tool_call_id = answered.id RETURNING p.id),
unclaimed AS (
    UPDATE receipts_claim c SET released_at = clock_timestamp()
    FROM answered WHERE c.tool_call_id = answered.id AND NOT %(result_ok)s RETURNING c.id)"""

# `asking` is named by the joined statement: where a new turn may be asked.
ASK = """
asked AS (
    INSERT INTO receipts_modelcall (id, tenant_id, run_id, turn_no, at_revision, status, model, request_digest)
    SELECT %(ask_id)s, %(tenant)s, asking.run_id, %(ask_turn)s, %(ask_revision)s, 'DISPATCHED', %(ask_model)s,
        %(ask_digest)s
    FROM asking RETURNING id),
asked_try AS (
    INSERT INTO receipts_attempt (model_call_id, attempt_no, fence, deadline_at, authorised_by)
    SELECT asked.id, 1, asking.fence, clock_timestamp() + %(ask_timeout)s * interval '1 second', 'agent'
    FROM asked, asking RETURNING attempt_no)"""

ASK_AGAIN = """
asked AS (
    UPDATE receipts_modelcall m SET status = 'DISPATCHED', attempts = m.attempts + 1, retry_at = NULL,
        request_digest = %(ask_digest)s
    FROM asking WHERE m.id = %(ask_id)s AND m.run_id = asking.run_id AND m.status IN ('UNCERTAIN', 'RETRY_WAIT')
    RETURNING m.id, m.attempts),
asked_try AS (
    INSERT INTO receipts_attempt (model_call_id, attempt_no, fence, deadline_at, authorised_by)
    SELECT asked.id, asked.attempts, asking.fence, clock_timestamp() + %(ask_timeout)s * interval '1 second', 'agent'
    FROM asked, asking RETURNING attempt_no)"""

# What was asked and said in a run, up to a turn where one is given; what was proposed, which calls that names, beside those of
# the run itself, and what they gave.
TURNED = f"""
turned AS (
    SELECT f.data_key_id AS said_key, f.body AS said, {columns(ModelCall, "m")} FROM receipts_modelcall m
    LEFT JOIN runs_artifact f ON f.tenant_id = m.tenant_id AND f.sha256 = m.response_digest
    WHERE m.run_id = %(run)s AND coalesce(m.turn_no <= %(last_turn)s::int, true) ORDER BY m.turn_no)"""
PUT = f"""
put AS (
    SELECT {columns(Proposal, "p")} FROM receipts_proposal p JOIN receipts_modelcall m ON m.id = p.model_call_id
    WHERE m.run_id = %(run)s ORDER BY m.turn_no, p.ordinal)"""
CALLED = f"""
called AS (
    SELECT {columns(ToolCall, "c")} FROM receipts_toolcall c WHERE c.run_id = %(run)s
    UNION ALL
    SELECT {columns(ToolCall, "c")} FROM receipts_toolcall c
    WHERE c.id IN (SELECT put.tool_call_id FROM put) AND c.run_id <> %(run)s)"""
GAVE = f"""
gave AS (SELECT {columns(Result, "r")} FROM receipts_result r JOIN called ON called.id = r.tool_call_id)"""
STORY = (TURNED, PUT, CALLED, GAVE)
TOLD = ("turned", "put", "called", "gave")

# Attempts without an outcome that were sent under an older fence.
UNANSWERED = """
unanswered AS (
    SELECT a.id FROM receipts_attempt a JOIN receipts_toolcall c ON c.id = a.tool_call_id
    WHERE c.run_id = %(run)s AND a.outcome IS NULL AND a.fence < %(fence)s
    UNION ALL
    SELECT a.id FROM receipts_attempt a JOIN receipts_modelcall m ON m.id = a.model_call_id
    WHERE m.run_id = %(run)s AND a.outcome IS NULL AND a.fence < %(fence)s)"""

OPEN_TURN = """
run_id = %(run)s AND status IN ('DISPATCHED', 'UNCERTAIN', 'RETRY_WAIT') ORDER BY turn_no DESC LIMIT 1"""

# The calls of a barrier that have not been sent and are not closed.
UNSENT = f"""
unsent AS (
    SELECT {columns(ToolCall, "c")} FROM receipts_toolcall c
    WHERE c.id = ANY(%(calls)s::uuid[]) AND {among("c.status", UNROUTED_CALL)})"""

# A proposal may wait for the call that stands for the model's own.
WAITING = """
WITH named AS (
    SELECT c.id, c.id AS waiting FROM receipts_toolcall c WHERE c.id = ANY(%(calls)s)
    UNION ALL
    SELECT c.instead_of_id, c.id FROM receipts_toolcall c
    WHERE c.id = ANY(%(calls)s) AND c.instead_of_id <> ALL(%(calls)s))
SELECT named.waiting, m.turn_no, p.ordinal FROM named
JOIN receipts_proposal p ON p.tool_call_id = named.id JOIN receipts_modelcall m ON m.id = p.model_call_id
ORDER BY m.created_at, p.ordinal"""

KEYS = """
keys AS (
    SELECT t.id, t.idempotency_key, t.status, t.blocking, t.ordinal FROM receipts_toolcall t
    WHERE t.run_id = %(run)s ORDER BY t.ordinal)"""

GRANTED = """
granted AS (
    SELECT s.intent_key FROM receipts_secondeffect s JOIN runs_run r ON r.lineage_id = s.lineage_id
    WHERE r.id = %(run)s)"""

READS_RELEASED = """
reads_released AS (
    UPDATE receipts_toolcall t SET blocking = false
    WHERE t.run_id = %(run)s AND t.status = 'UNCERTAIN' AND t.effect_class = 'READ_ONLY' RETURNING t.id)"""
RELEASE_READS = joined(READS_RELEASED, select="SELECT count(*) FROM reads_released")


@dataclass(frozen=True)
class NewCall:
    """A logical call as it is first recorded. `send` dispatches it in the same commit, where new work may start."""

    id: UUID
    ordinal: int
    tool: str
    tool_version: str
    tool_hash: str
    effect_class: str
    step_name: str
    args: bytes
    args_digest: str
    idempotency_key: str
    intent_key: str
    timeout: float
    send: bool = False
    authorised_by: str = ""


@dataclass(frozen=True)
class NewProposal:
    """A proposal of a sealed turn and what became of it."""

    ordinal: int
    tool: str
    args_digest: str
    disposition: Disposition
    call: UUID | None = None
    refusal: str = ""


@dataclass(frozen=True)
class SentCall:
    """One try of a recorded call that is about to be dispatched: the number it will have, and on whose word it goes."""

    call: UUID
    attempt: int
    timeout: float
    authorised_by: str


def dispatch_params(sendings: Sequence[SentCall], *, sources: Sequence[str]) -> dict[str, Any]:
    """The parameters of DISPATCH. `sources`: the statuses from which these calls may be sent."""
    rows = [{**vars(sending), "call": str(sending.call)} for sending in sendings]
    return {"sendings": json.dumps(rows), "sent_from": as_array(sources)}


def call_params(calls: Sequence[NewCall], proposals: Sequence[NewProposal], *, key_id: UUID) -> dict[str, Any]:
    """The parameters of CALLS."""
    return {
        "calls": json.dumps([_call_row(call, key_id) for call in calls]),
        "proposals": json.dumps(
            [
                {
                    "ordinal": proposal.ordinal,
                    "tool": proposal.tool,
                    "args_digest": proposal.args_digest,
                    "disposition": str(proposal.disposition),
                    "call": str(proposal.call) if proposal.call else None,
                    "refusal": proposal.refusal,
                }
                for proposal in proposals
            ]
        ),
    }


def _call_row(call: NewCall, key_id: UUID) -> dict[str, Any]:
    return {
        "id": str(call.id),
        "ordinal": call.ordinal,
        "tool": call.tool,
        "tool_version": call.tool_version,
        "tool_hash": call.tool_hash,
        "effect_class": call.effect_class,
        "step_name": call.step_name,
        "args_digest": call.args_digest,
        "args": base64.b64encode(sealed_body(key_id=key_id, plain=call.args)).decode(),
        "idempotency_key": call.idempotency_key,
        "intent_key": call.intent_key,
        "send": call.send,
        "timeout": call.timeout,
        "authorised_by": call.authorised_by,
    }
