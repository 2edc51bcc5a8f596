"""What holds after every scenario, whatever was killed: each sentence with the query that finds what breaks it.

The queries read one snapshot of the database, so they hold while runs go on as well. The outside world is asked first:
what it executed until then was authorised before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count

from accounts.audit import audit_verify
from checkpoints.models import Intent
from checkpoints.selectors import load_head
from console.pages.inbox.items import unknown_calls
from receipts.models import Attempt, ModelCall, Reconciliation, ToolCall
from receipts.states import FollowUp
from runs.canonical import canonical, digest
from runs.models import Run
from runtime.conversation import Conversation, history_of, rebuild
from tests.scenarios.world import World

INVARIANTS: dict[str, str] = {
    "revisions have no gap and each names its parent's digest": """
        SELECT c.run_id, c.revision FROM checkpoints_checkpoint c
        LEFT JOIN checkpoints_checkpoint p ON p.run_id = c.run_id AND p.revision = c.revision - 1
        WHERE c.revision > 1 AND c.parent_digest IS DISTINCT FROM p.digest""",
    "the head is the newest revision": """
        SELECT h.run_id, h.revision FROM checkpoints_head h
        LEFT JOIN checkpoints_checkpoint c ON c.run_id = h.run_id AND c.revision = h.revision
             AND c.digest = h.digest AND c.phase = h.phase
        WHERE c.save_id IS NULL OR h.revision <> (SELECT max(revision) FROM checkpoints_checkpoint WHERE run_id = h.run_id)""",
    "revisions carry fences that never fall and were once held": """
        SELECT c.run_id, c.revision FROM checkpoints_checkpoint c JOIN runs_lease l ON l.run_id = c.run_id
        LEFT JOIN checkpoints_checkpoint p ON p.run_id = c.run_id AND p.revision = c.revision - 1
        WHERE c.fence < p.fence OR c.fence > l.fence""",
    "a call is settled exactly when it has its one result": """
        SELECT t.id, t.status FROM receipts_toolcall t LEFT JOIN receipts_result r ON r.tool_call_id = t.id
        WHERE (t.status IN ('SUCCEEDED', 'FAILED')) <> (r.tool_call_id IS NOT NULL)
           OR r.ok IS DISTINCT FROM (t.status = 'SUCCEEDED') AND r.tool_call_id IS NOT NULL""",
    "a call that has its result gains no attempt": """
        SELECT a.id FROM receipts_attempt a JOIN receipts_result r ON r.tool_call_id = a.tool_call_id
        WHERE a.dispatched_at > r.at""",
    "attempts are numbered without a gap and counted": """
        SELECT t.id FROM receipts_toolcall t LEFT JOIN receipts_attempt a ON a.tool_call_id = t.id
        GROUP BY t.id HAVING t.attempts <> count(a.id) OR t.attempts <> coalesce(max(a.attempt_no), 0)
        UNION ALL
        SELECT m.id FROM receipts_modelcall m LEFT JOIN receipts_attempt a ON a.model_call_id = m.id
        GROUP BY m.id HAVING m.attempts <> count(a.id) OR m.attempts <> coalesce(max(a.attempt_no), 0)""",
    "at most one attempt of a receipt has no outcome or succeeded": """
        SELECT coalesce(tool_call_id, model_call_id) FROM receipts_attempt
        WHERE outcome IS NULL OR outcome = 'OK' GROUP BY 1 HAVING count(*) > 1""",
    "a run that waits has nothing on the wire": """
        SELECT r.id FROM runs_run r WHERE r.status = 'WAITING' AND (
            EXISTS (SELECT FROM receipts_toolcall t WHERE t.run_id = r.id AND t.status = 'DISPATCHED')
            OR EXISTS (SELECT FROM receipts_modelcall m WHERE m.run_id = r.id AND m.status = 'DISPATCHED'))""",
    "an attempt is open exactly while its receipt is dispatched": """
        SELECT t.id, t.status FROM receipts_toolcall t
        WHERE (t.status = 'DISPATCHED') <> EXISTS (
            SELECT 1 FROM receipts_attempt a WHERE a.tool_call_id = t.id AND a.outcome IS NULL)
        UNION ALL
        SELECT m.id, m.status FROM receipts_modelcall m
        WHERE (m.status = 'DISPATCHED') <> EXISTS (
            SELECT 1 FROM receipts_attempt a WHERE a.model_call_id = m.id AND a.outcome IS NULL)""",
    "a live result was written under the fence of the attempt that gave it, or one that its holder raised itself": """
        SELECT r.tool_call_id FROM receipts_result r
        JOIN receipts_toolcall t ON t.id = r.tool_call_id
        LEFT JOIN receipts_attempt a ON a.tool_call_id = r.tool_call_id AND a.attempt_no = r.attempt_no
        WHERE r.source = 'LIVE' AND r.ok AND (a.outcome IS DISTINCT FROM 'OK' OR r.fence - a.fence <> (
            SELECT count(*) FROM runs_runtransition x WHERE x.run_id = t.run_id AND x.cause = 'REFENCED'
            AND x.fence > a.fence AND x.fence <= r.fence))""",
    "a sealed turn was sealed under the fence of the attempt that gave it, or one that its holder raised itself": """
        SELECT m.id FROM receipts_modelcall m
        LEFT JOIN receipts_attempt a ON a.model_call_id = m.id AND a.outcome = 'OK'
        WHERE m.status = 'SEALED' AND (m.sealed_fence - a.fence IS DISTINCT FROM (
            SELECT count(*) FROM runs_runtransition x WHERE x.run_id = m.run_id AND x.cause = 'REFENCED'
            AND x.fence > a.fence AND x.fence <= m.sealed_fence))""",
    "a successful call with an effect has exactly one effect row, others have none": """
        SELECT t.id FROM receipts_toolcall t LEFT JOIN receipts_effect e ON e.tool_call_id = t.id
        LEFT JOIN receipts_result r ON r.tool_call_id = t.id AND r.source = 'REUSED'
        WHERE (t.status = 'SUCCEEDED' AND t.effect_class <> 'READ_ONLY' AND r.tool_call_id IS NULL)
              <> (e.id IS NOT NULL)""",
    "a reused result is that of another call of the lineage, and nothing was sent for it": """
        SELECT t.id FROM receipts_result r JOIN receipts_toolcall t ON t.id = r.tool_call_id
        JOIN runs_run u ON u.id = t.run_id
        WHERE r.source = 'REUSED' AND (t.attempts > 0 OR NOT EXISTS (
            SELECT FROM receipts_result o JOIN receipts_toolcall x ON x.id = o.tool_call_id
            JOIN runs_run v ON v.id = x.run_id
            WHERE v.lineage_id = u.lineage_id AND x.intent_key = t.intent_key AND o.digest = r.digest
              AND o.source <> 'REUSED' AND x.status = 'SUCCEEDED'))""",
    "an outside publication says what its call says": """
        SELECT p.id, p.status, t.status FROM receipts_publication p JOIN receipts_toolcall t ON t.id = p.tool_call_id
        WHERE p.status <> CASE t.status
            WHEN 'SUCCEEDED' THEN 'PUBLISHED' WHEN 'UNCERTAIN' THEN 'UNCERTAIN' WHEN 'DISPATCHED' THEN 'DISPATCHED'
            WHEN 'PROPOSED' THEN 'REQUESTED' WHEN 'AWAITING_APPROVAL' THEN 'REQUESTED'
            WHEN 'RETRY_WAIT' THEN p.status ELSE 'FAILED' END""",
    "an intent is claimed by at most one live call of a lineage": """
        SELECT r.lineage_id, t.intent_key FROM receipts_toolcall t JOIN runs_run r ON r.id = t.run_id
        WHERE t.effect_class <> 'READ_ONLY' AND t.status IN ('DISPATCHED', 'RETRY_WAIT', 'UNCERTAIN', 'SUCCEEDED')
          AND t.attempts > 0
        GROUP BY 1, 2 HAVING count(*) > 1""",
    "budget columns are the sums of their entries": """
        WITH entry AS (
            SELECT e.run_id, u.unit, e.receipt_id, e.attempt_no, e.kind, u.amount
            FROM runs_budgetentry e CROSS JOIN LATERAL (VALUES
                ('model_calls', e.model_calls), ('tool_calls', e.tool_calls), ('tokens', e.tokens),
                ('usd_micros', e.usd_micros), ('wall_ms', e.wall_ms)) AS u(unit, amount) WHERE u.amount IS NOT NULL),
        attempt AS (
            SELECT run_id, unit, receipt_id, attempt_no,
                coalesce(sum(amount) FILTER (WHERE kind = 'RESERVE'), 0) AS reserved,
                coalesce(sum(amount) FILTER (WHERE kind = 'HOLD_UNKNOWN'), 0) AS held,
                coalesce(sum(amount) FILTER (WHERE kind = 'SETTLE'), 0) AS spent,
                bool_or(kind IN ('SETTLE', 'RELEASE')) AS closed, bool_or(kind = 'HOLD_UNKNOWN') AS unknown
            FROM entry GROUP BY 1, 2, 3, 4),
        summed AS (
            SELECT run_id, unit, coalesce(sum(reserved) FILTER (WHERE NOT closed AND NOT unknown), 0) AS reserved,
                coalesce(sum(held) FILTER (WHERE NOT closed), 0) AS held, sum(spent) AS spent
            FROM attempt GROUP BY 1, 2)
        SELECT b.run_id, b.unit, b.reserved, s.reserved, b.held_unknown, s.held, b.spent, s.spent
        FROM runs_budget b LEFT JOIN summed s USING (run_id, unit)
        WHERE (b.reserved, b.held_unknown, b.spent)
              <> (coalesce(s.reserved, 0), coalesce(s.held, 0), coalesce(s.spent, 0))""",
    "every attempt reserved its budget": """
        SELECT a.id FROM receipts_attempt a
        WHERE NOT EXISTS (SELECT 1 FROM runs_budgetentry e
            WHERE e.receipt_id = coalesce(a.tool_call_id, a.model_call_id) AND e.attempt_no = a.attempt_no
              AND e.kind = 'RESERVE')""",
    "the lease is free exactly when no worker continues the run": """
        SELECT r.id, r.status, l.owner FROM runs_run r JOIN runs_lease l ON l.run_id = r.id
        WHERE (r.status IN ('RUNNING', 'STOPPING')) <> (l.owner IS NOT NULL)""",
    "transitions form one chain that ends at the status": """
        SELECT x.run_id FROM (
            SELECT t.run_id, t.from_status, t.to_status, r.status,
                lag(t.to_status) OVER chain AS before, lead(t.id) OVER chain AS after
            FROM runs_runtransition t JOIN runs_run r ON r.id = t.run_id WINDOW chain AS (PARTITION BY t.run_id ORDER BY t.id)
        ) x WHERE x.from_status IS DISTINCT FROM x.before OR (x.after IS NULL AND x.to_status <> x.status)""",
    "a run is taken over as often as it says": """
        SELECT r.id FROM runs_run r
        WHERE r.takeovers <> (SELECT count(*) FROM runs_runtransition t WHERE t.run_id = r.id AND t.cause = 'TAKEOVER')""",
    "nothing is sent after a stop was accepted": """
        SELECT a.id FROM runs_controlrequest c
        JOIN receipts_attempt a ON a.tool_call_id IN (SELECT id FROM receipts_toolcall WHERE run_id = c.run_id)
             OR a.model_call_id IN (SELECT id FROM receipts_modelcall WHERE run_id = c.run_id)
        WHERE c.kind = 'STOP' AND a.dispatched_at > c.accepted_at""",
    "an ended run has nothing under way": """
        SELECT r.id, 'attempt' FROM runs_run r JOIN receipts_toolcall t ON t.run_id = r.id
        WHERE r.ended_at IS NOT NULL AND t.status IN ('PROPOSED', 'AWAITING_APPROVAL', 'DISPATCHED', 'RETRY_WAIT')
        UNION ALL SELECT r.id, 'turn' FROM runs_run r JOIN receipts_modelcall m ON m.run_id = r.id
        WHERE r.ended_at IS NOT NULL AND m.status IN ('DISPATCHED', 'RETRY_WAIT')
        UNION ALL SELECT r.id, 'wait' FROM runs_run r JOIN approvals_wait w ON w.run_id = r.id
        WHERE r.ended_at IS NOT NULL AND w.status IN ('OPEN', 'APPROVED', 'REJECTED')
        UNION ALL SELECT r.id, 'wakeup' FROM runs_run r JOIN runs_wakeup w ON w.run_id = r.id
        WHERE r.ended_at IS NOT NULL AND w.status = 'PENDING'
        UNION ALL SELECT r.id, 'stop' FROM runs_run r JOIN runs_controlrequest c ON c.run_id = r.id
        WHERE r.ended_at IS NOT NULL AND c.status IN ('ACCEPTED', 'ADOPTED')
        UNION ALL SELECT r.id, 'budget' FROM runs_run r JOIN runs_budget b ON b.run_id = r.id
        WHERE r.ended_at IS NOT NULL AND b.reserved <> 0""",
    "a waiting run has a wait that is open, or a child that has not ended": """
        SELECT r.id FROM runs_run r WHERE r.status = 'WAITING'
          AND NOT EXISTS (SELECT 1 FROM approvals_wait w WHERE w.run_id = r.id AND w.status = 'OPEN')
          AND NOT EXISTS (SELECT 1 FROM runs_run c WHERE c.parent_run_id = r.id AND c.ended_at IS NULL)""",
    "a decision saw exactly what its wait is bound to": """
        SELECT w.id FROM approvals_decision d JOIN approvals_wait w ON w.id = d.wait_id
        WHERE (d.seen_revision, d.seen_digest, d.seen_args_digest)
              <> (w.checkpoint_revision, w.checkpoint_digest, w.args_digest)""",
    "a consumed wait was decided, and its wakeup was consumed under a fence": """
        SELECT w.id FROM approvals_wait w LEFT JOIN approvals_decision d ON d.wait_id = w.id
        LEFT JOIN runs_wakeup k ON k.wait_id = w.id AND k.cause = 'DECISION'
        WHERE w.status = 'CONSUMED' AND (d.wait_id IS NULL OR k.status IS DISTINCT FROM 'CONSUMED')""",
    "a call that needs approval was sent only after its approval, or again by a person": """
        SELECT a.id FROM receipts_attempt a JOIN receipts_toolcall t ON t.id = a.tool_call_id
        WHERE t.effect_class = 'NON_IDEMPOTENT' AND NOT EXISTS (
            SELECT 1 FROM approvals_wait w JOIN approvals_decision d ON d.wait_id = w.id
            WHERE w.tool_call_id = t.id AND w.status = 'CONSUMED' AND d.verdict = 'APPROVE' AND d.at < a.dispatched_at)""",
}


def check_invariants(world: World) -> None:
    """Check everything. Raises AssertionError with the sentences that do not hold and the rows that break them.

    A row that an earlier test was blamed for is not held against the next one.
    """
    counts = world.outside_counts()
    with one_snapshot():
        broken = broken_invariants() | outside_broken(counts) | _requests_broken(world)
        unlisted = set(unknown_effects()) - {call.id for call in unknown_calls(world.person())}
    broken["an unknown call with an effect is in the inbox"] = sorted(unlisted)
    news = {(sentence, str(row)) for sentence, rows in broken.items() for row in rows} - world.blamed
    world.blamed |= news
    assert not news, "\n".join(f"not true: {sentence}: {row}" for sentence, row in sorted(news))
    audit_verify(world.tenant.id)


@contextmanager
def one_snapshot() -> Iterator[None]:
    """One snapshot of the database for every query inside."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def broken_invariants() -> dict[str, list[Any]]:
    """The sentences of INVARIANTS that do not hold, with rows that break them."""
    broken = {}
    with connection.cursor() as cursor:
        for sentence, query in INVARIANTS.items():
            cursor.execute(query)
            if rows := cursor.fetchall():
                broken[sentence] = rows
    return broken


def unknown_effects() -> list[Any]:
    """Calls with an effect whose outcome nobody knows."""
    return list(
        ToolCall.objects.filter(status="UNCERTAIN").exclude(effect_class="READ_ONLY").values_list("id", flat=True)
    )


def outside_broken(counts: dict[str, Any]) -> dict[str, list[Any]]:
    """What the wiki did against what was authorised: each execution is of a sent call, and only a person adds one."""
    calls = {call.idempotency_key: call for call in ToolCall.objects.filter(effect_class="NON_IDEMPOTENT")}
    stray, unasked, repeated = [], [], []
    for key, executed in counts["wiki"]["keys"].items():
        call = calls.get(key)
        if call is None or not Attempt.objects.filter(tool_call=call).exists():
            stray.append(key)
            continue
        retries = Reconciliation.objects.filter(tool_call=call, method="HUMAN", follow_up=FollowUp.RETRY).count()
        if executed > call.attempts:
            unasked.append((key, executed, call.attempts))
        if executed > 1 + retries:
            repeated.append((key, executed, retries))
    found = {
        "every execution on the wiki joins to an attempt": stray,
        "the wiki executed no more than was sent": unasked,
        "without a person's RETRY the wiki executed once": repeated,
    }
    return {sentence: rows for sentence, rows in found.items() if rows}


def _requests_broken(world: World) -> dict[str, list[Any]]:
    """Turns whose request was another than the one that the records give: as if the model had been told otherwise.

    Left out are runs whose goal was revised and runs that went on without knowing: there the truth changed later.
    """
    plain = Run.objects.exclude(tool_calls__reconciliations__verdict="PROCEED_UNKNOWN")
    plain = plain.annotate(goals=Count("intents", distinct=True)).filter(goals=1)
    unread = plain.exclude(id__in=world.read_through).select_related("agent_version")
    wrong = [turn for run in unread for turn in _wrong_requests(run)]
    world.read_through |= {run.id for run in unread if run.ended_at is not None}
    return {"every request holds what the records say": wrong} if wrong else {}


def _wrong_requests(run: Run) -> list[tuple[UUID, int]]:
    goal = Intent.objects.get(run=run).goal
    contract = load_head(run).snapshot.contract
    asked = {turn.turn_no: turn.request_digest for turn in ModelCall.objects.filter(run=run)}
    given = {
        turn_no: digest(
            canonical(
                {
                    "manifest": run.agent_version.manifest_digest,
                    "goal": goal,
                    "constraints": [term.statement for term in contract.constraints],
                    "assumptions": [term.statement for term in contract.assumptions],
                    "lapsed": [],
                    "turn": turn_no,
                    "conversation": chain,
                }
            )
        )
        for turn_no, chain in enumerate(_chains(run), 1)
    }
    return [(run.id, turn_no) for turn_no, request in asked.items() if given.get(turn_no) != request]


def _chains(run: Run) -> list[str]:
    """The running digest of the conversation before each turn, and after the last one."""
    conversation, chains = Conversation(), []
    for message in rebuild(history_of(run)).messages:
        if message["role"] == "assistant":
            chains.append(conversation.chain)
        conversation.add(message)
    return [*chains, conversation.chain]
