"""What was done outside: allowed, once, known, and unknown only as long as nobody knows (I2, I3, I4, I8)."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from tests.matrix.history import Broken, History, Row

EFFECT = "effect"
LOCAL = frozenset({"note", "spawn_child", "await_child"})


def every_effect_is_authorised(history: History) -> Broken:
    """What the oracle did was sent by a recorded attempt, with the recorded bytes, after policy or a person allowed
    exactly these: same call, revision and digests.
    """
    calls, attempts, broken = history.calls(), history.attempts(), []
    allowed = _allowed_from(history)
    for event in history.events(EFFECT, "repeat", "reading"):
        call = calls.get(event["call"])
        if call is None or (call["idempotency_key"], call["tool"]) != (event["key"], event["tool"]):
            broken.append(f"{event['kind']} of call {event['call']}, which is not recorded so")
            continue
        tried = [row for row in attempts[event["call"]] if row["attempt_no"] == event["attempt"]]
        if not tried or tried[0]["dispatched_at"] > _moment(event["at"]):
            broken.append(f"{event['kind']} of call {event['call']} before attempt {event['attempt']} was recorded")
        elif event["call"] not in allowed or allowed[event["call"]] > _moment(event["at"]):
            broken.append(f"{event['kind']} of call {event['call']}, which nobody had allowed")
        if call["args_digest"] != event["digest"]:
            broken.append(f"{event['kind']} of call {event['call']} with other bytes than recorded")
    broken += [f"wait {row['id']} was decided or used too late, or by who may not" for row in _unfit(history)]
    return broken + [f"decision of wait {row['id']} saw something else" for row in _unseen(history)]


def _allowed_from(history: History) -> dict[str, datetime]:
    """Since when a call may be sent: the policy's word, or a decision on a wait that is bound to the call as it is."""
    found = history.rows(
        """SELECT p.tool_call_id AS call, min(p.at) AS at FROM approvals_policydecision p
           JOIN receipts_toolcall c ON c.id = p.tool_call_id
           WHERE p.outcome = 'ALLOW' AND c.tenant_id = ANY(%(tenants)s) GROUP BY 1
           UNION ALL
           SELECT w.tool_call_id, min(d.at) FROM approvals_wait w JOIN approvals_decision d ON d.wait_id = w.id
           JOIN receipts_toolcall c ON c.id = w.tool_call_id AND c.args_digest = w.args_digest
                AND c.tool_hash = w.tool_hash
           JOIN checkpoints_checkpoint k ON k.run_id = w.run_id AND k.revision = w.checkpoint_revision
                AND k.digest = w.checkpoint_digest
           WHERE d.verdict = 'APPROVE' AND w.status = 'CONSUMED' AND w.tenant_id = ANY(%(tenants)s) GROUP BY 1"""
    )
    return {str(row["call"]): row["at"] for row in found}


def _unfit(history: History) -> list[Row]:
    """Decisions after the deadline, or of somebody who may not decide there, and approvals that were used after their time."""
    return history.rows(
        """SELECT w.id FROM approvals_decision d JOIN approvals_wait w ON w.id = d.wait_id
           WHERE w.tenant_id = ANY(%(tenants)s) AND (d.at > w.deadline OR NOT EXISTS (
               SELECT 1 FROM accounts_membership m JOIN accounts_user u ON u.id = m.user_id
               WHERE m.tenant_id = w.tenant_id AND 'person:' || u.username = d.actor AND 'approver' = ANY(m.roles)))
           UNION SELECT w.id FROM approvals_wait w JOIN receipts_attempt a ON a.tool_call_id = w.tool_call_id
           WHERE w.tenant_id = ANY(%(tenants)s) AND w.status = 'CONSUMED' AND a.attempt_no = 1
             AND a.dispatched_at > w.valid_until"""
    )


def _unseen(history: History) -> list[Row]:
    return history.rows(
        """SELECT w.id FROM approvals_decision d JOIN approvals_wait w ON w.id = d.wait_id
           WHERE w.tenant_id = ANY(%(tenants)s) AND (d.seen_revision, d.seen_digest, d.seen_args_digest)
                 IS DISTINCT FROM (w.checkpoint_revision, w.checkpoint_digest, w.args_digest)"""
    )


def no_effect_twice(history: History) -> Broken:
    """No key, no logical call and no intent of a lineage has more than one effect in the outside world, and no attempt is
    sent twice.
    """
    effects, calls = history.events(EFFECT), history.calls()
    intents = Counter(_intent(calls[event["call"]]) for event in effects if event["call"] in calls)
    broken = [
        f"an intent of lineage {lineage} has {times} effects" for (lineage, _), times in intents.items() if times > 1
    ]
    sent = Counter((event["call"], event["attempt"]) for event in history.events("asked"))
    broken += [f"attempt {no} of call {call} was sent {times} times" for (call, no), times in sent.items() if times > 1]
    broken += [f"key {key} has {times} effects" for key, times in _counts(effects, "key") if times > 1]
    return broken + [f"call {call} has {times} effects" for call, times in _counts(effects, "call") if times > 1]


def _intent(call: Row) -> tuple[str, str]:
    return str(call["lineage_id"]), call["intent_key"]


def every_effect_has_a_receipt(history: History) -> Broken:
    """Every effect of the outside world is known as done, or as of unknown outcome; and nothing is known as done that
    was not, or under another reference than the outside world gave.
    """
    calls, broken = history.calls(), []
    effects = Counter(event["call"] for event in history.events(EFFECT))
    happened = {_intent(calls[id]) for id in effects if id in calls}
    for id, call in calls.items():
        under_way = call["ended_at"] is None and call["status"] in ("DISPATCHED", "RETRY_WAIT")
        if effects[id] and not under_way and call["status"] not in ("SUCCEEDED", "UNCERTAIN"):
            broken.append(f"call {id} had its effect and is {call['status']}")
        outside = call["effect_class"] != "READ_ONLY" and call["tool"] not in LOCAL
        reused = not call["attempts"] and _intent(call) in happened
        if outside and call["status"] == "SUCCEEDED" and not effects[id] and not reused:
            broken.append(f"call {id} is SUCCEEDED and had no effect")
        given = f"{call['tool']}-{call['idempotency_key'][:12]}"
        if (
            call["tool"] not in LOCAL
            and call["status"] == "SUCCEEDED"
            and call["attempts"]
            and call["external_ref"] != given
        ):
            broken.append(f"call {id} is known as {call['external_ref']}, the outside world said {given}")
    return broken + [f"call {row['id']} is {row['status']} without its receipt" for row in _unreceipted(history)]


def _unreceipted(history: History) -> list[Row]:
    """Settled calls without a result, and successful ones without the effect that they had."""
    return history.rows(
        """SELECT c.id, c.status FROM receipts_toolcall c LEFT JOIN receipts_result r ON r.tool_call_id = c.id
           LEFT JOIN receipts_effect e ON e.tool_call_id = c.id
           LEFT JOIN receipts_reportversion v ON v.tool_call_id = c.id
           WHERE c.tenant_id = ANY(%(tenants)s) AND c.status IN ('SUCCEEDED', 'FAILED') AND (r.tool_call_id IS NULL
               OR c.status = 'SUCCEEDED' AND c.effect_class <> 'READ_ONLY' AND c.attempts > 0 AND e.id IS NULL
               OR c.status = 'SUCCEEDED' AND c.tool = 'note' AND c.attempts > 0 AND v.id IS NULL)"""
    )


def unknown_stays_unknown(history: History) -> Broken:
    """A call of unknown outcome is repeated or settled only on a person's word or a proof, unless repeating is harmless."""
    calls, broken = history.calls(), []
    verdicts = {
        (str(row["tool_call_id"]), row["seen_attempts"]): row
        for row in history.rows(
            "SELECT v.* FROM receipts_reconciliation v JOIN receipts_toolcall c ON c.id = v.tool_call_id "
            "WHERE c.tenant_id = ANY(%(tenants)s) AND v.verdict <> 'PROCEED_UNKNOWN'"
        )
    }
    results = {
        str(row["tool_call_id"]): row
        for row in history.rows(
            "SELECT r.* FROM receipts_result r JOIN receipts_toolcall c ON c.id = r.tool_call_id "
            "WHERE c.tenant_id = ANY(%(tenants)s)"
        )
    }
    for id, tries in history.attempts().items():
        if calls[id]["effect_class"] == "READ_ONLY":
            continue
        for row, after in zip(tries, [*tries[1:], None], strict=True):
            if row["outcome"] == "NO_RESPONSE":
                said, result = verdicts.get((id, row["attempt_no"])), results.get(id)
                broken += _left_unknown(calls[id], row, after, said, result)
    return broken


def _left_unknown(call: Row, row: Row, after: Row | None, said: Row | None, result: Row | None) -> Broken:
    """How the outcome of one unanswered attempt was settled, if it should not have been."""
    about = f"attempt {row['attempt_no']} of {call['tool']} {call['id']} got no answer"
    proved = said is not None and said["verdict"] == "NOT_EXECUTED"
    if after is not None:
        in_time = proved and said is not None and said["at"] <= after["dispatched_at"]
        return [] if in_time or call["effect_class"] == "IDEMPOTENT" else [f"{about} and was repeated"]
    if result is None:
        again = call["status"] == "RETRY_WAIT" and (proved or call["effect_class"] == "IDEMPOTENT")
        return [] if again or call["status"] == "UNCERTAIN" else [f"{about} and is {call['status']} on nobody's word"]
    return [] if result["reconciliation_id"] else [f"{about} and is {call['status']} on nobody's word"]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _counts(events: Sequence[Row], name: str) -> list[tuple[str, int]]:
    return list(Counter(event[name] for event in events).items())
