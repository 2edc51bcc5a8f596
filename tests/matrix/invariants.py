"""The history checker: what the oracle's log, the database, the audit and the HTTP log must say together (I1 to I12).

It reads with plain SQL and knows nothing of how the engine gets there. Each invariant is a function whose docstring is
its sentence and which returns what breaks it. `check` is asked when nothing is under way any more.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from uuid import UUID

from checkpoints.errors import Unreadable
from checkpoints.models import Checkpoint
from checkpoints.selectors import verified_body
from tests.matrix.effects import (
    every_effect_has_a_receipt,
    every_effect_is_authorised,
    no_effect_twice,
    unknown_stays_unknown,
)
from tests.matrix.history import Broken, History, Row
from tests.matrix.views import tenants_stay_apart, what_people_see_is_there

DECIDE = re.compile(r"^waits/([0-9a-f-]{36})/decide/$")
STOP = re.compile(r"^runs/([0-9a-f-]{36})/stop/$")
ACTS = {
    "decide": "wait.decide",
    "stop": "run.stop",
    "reconcile": "call.reconcile",
    "resume": "run.resume",
    "pause": "run.pause",
    "continue": "run.continue",
    "fork": "run.fork",
    "retain": "run.retain",
}


def one_decision_a_wait(history: History) -> Broken:
    """A wait has at most one decision, every wait that was decided has it, and whoever was told so finds it there."""
    counted = history.rows(
        """SELECT w.id, w.status, count(d.wait_id) AS decisions, min(d.verdict) AS verdict
           FROM approvals_wait w LEFT JOIN approvals_decision d ON d.wait_id = w.id
           WHERE w.tenant_id = ANY(%(tenants)s) GROUP BY w.id"""
    )
    broken = [f"wait {row['id']} has {row['decisions']} decisions" for row in counted if row["decisions"] > 1]
    for row in counted:
        wanted = {"APPROVED": "APPROVE", "REJECTED": "REJECT", "CONSUMED": row["verdict"]}.get(row["status"], "none")
        if wanted != "none" and (row["verdict"] is None or row["verdict"] != wanted):
            broken.append(f"wait {row['id']} is {row['status']}, its decision {row['verdict']}")
    stored, told = {str(row["id"]): row["verdict"] for row in counted}, Counter[str]()
    for said in history.http:
        wait = DECIDE.match(said["path"])
        if wait and said["status"] == 200 and wait[1] in stored:
            told[wait[1]] += 1
            if stored[wait[1]] != said["body"]["verdict"]:
                broken.append(f"wait {wait[1]}: told {said['body']['verdict']}, stored {stored[wait[1]]}")
    return broken + [
        f"wait {wait}: {times} people were told that theirs counts" for wait, times in told.items() if times > 1
    ]


FENCED = """
    SELECT run_id, fence, created_at AS at, 'revision ' || revision AS what FROM checkpoints_checkpoint
    WHERE revision > 1 AND tenant_id = ANY(%(tenants)s)
    UNION ALL SELECT c.run_id, a.fence, a.dispatched_at, 'attempt of call ' || c.id FROM receipts_attempt a
    JOIN receipts_toolcall c ON c.id = a.tool_call_id WHERE c.tenant_id = ANY(%(tenants)s)
    UNION ALL SELECT m.run_id, a.fence, a.dispatched_at, 'attempt of turn ' || m.turn_no FROM receipts_attempt a
    JOIN receipts_modelcall m ON m.id = a.model_call_id WHERE m.tenant_id = ANY(%(tenants)s)
    UNION ALL SELECT c.run_id, r.fence, r.at, 'result of call ' || c.id FROM receipts_result r
    JOIN receipts_toolcall c ON c.id = r.tool_call_id WHERE r.fence IS NOT NULL AND c.tenant_id = ANY(%(tenants)s)
    UNION ALL SELECT run_id, sealed_fence, sealed_at, 'turn ' || turn_no FROM receipts_modelcall
    WHERE sealed_fence IS NOT NULL AND tenant_id = ANY(%(tenants)s)
    UNION ALL SELECT run_id, fence, committed_at, 'report version ' || version_no FROM receipts_reportversion
    WHERE tenant_id = ANY(%(tenants)s)
    UNION ALL SELECT run_id, opened_fence, opened_at, 'wait ' || id FROM approvals_wait
    WHERE tenant_id = ANY(%(tenants)s)
    UNION ALL SELECT t.run_id, t.fence, t.at, 'transition to ' || t.to_status FROM runs_runtransition t
    JOIN runs_run r ON r.id = t.run_id WHERE t.fence IS NOT NULL AND r.tenant_id = ANY(%(tenants)s)"""


def nothing_under_an_old_fence(history: History) -> Broken:
    """No row was written under a fence after one was written under a higher one, none under one never taken, and no fence
    was taken twice.
    """
    rows = history.rows(
        f"""SELECT f.*, l.fence AS newest, max(f.fence) OVER (
                PARTITION BY f.run_id ORDER BY f.at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM ({FENCED}) f JOIN runs_lease l ON l.run_id = f.run_id"""
    )
    twice = history.rows(
        """SELECT t.run_id, t.fence FROM runs_runtransition t JOIN runs_run r ON r.id = t.run_id
           WHERE t.cause IN ('ACQUIRED', 'TAKEOVER', 'REFENCED') AND r.tenant_id = ANY(%(tenants)s)
           GROUP BY 1, 2 HAVING count(*) > 1"""
    )
    return [f"run {row['run_id']}: fence {row['fence']} was taken more than once" for row in twice] + [
        f"run {row['run_id']}: {row['what']} under fence {row['fence']}"
        for row in rows
        if row["fence"] > row["newest"] or row["fence"] < (row["before"] or 0)
    ]


def revisions_form_one_chain(history: History) -> Broken:
    """Revisions have no gap, each names its parent's digest and has its own unless it was purged, which nothing that is
    needed ever is; and the head is the newest.
    """
    rows = history.rows(
        """SELECT c.save_id, c.run_id, c.revision, c.parent_digest, c.purged_at, c.body IS NULL AS empty,
               EXISTS (SELECT 1 FROM runs_run f WHERE f.forked_from_id = c.run_id
                       AND f.forked_from_revision = c.revision) AS forked, h.revision AS head, h.digest AS head_digest, c.digest,
               lag(c.digest) OVER chain AS before, lag(c.revision) OVER chain AS previous
           FROM checkpoints_checkpoint c JOIN checkpoints_head h ON h.run_id = c.run_id
           WHERE c.tenant_id = ANY(%(tenants)s) WINDOW chain AS (PARTITION BY c.run_id ORDER BY c.revision, c.created_at)"""
    )
    broken = [
        f"run {row['run_id']}: revision {row['revision']} does not follow {row['previous']}"
        for row in rows
        if row["revision"] != (row["previous"] or 0) + 1 or row["parent_digest"] != row["before"]
    ]
    broken += [
        f"run {run}: its head is {row['head']}, its newest revision {row['revision']}"
        for run, row in {row["run_id"]: row for row in rows}.items()
        if (row["head"], row["head_digest"]) != (row["revision"], row["digest"])
    ]
    needed = [row for row in rows if row["empty"] and (row["revision"] == row["head"] or row["forked"])]
    broken += [f"run {row['run_id']}: revision {row['revision']} was purged and is needed" for row in needed]
    known: dict[UUID, set[str]] = defaultdict(set)
    for call in history.rows(
        """SELECT c.id, c.run_id FROM receipts_toolcall c JOIN receipts_result r ON r.tool_call_id = c.id
           JOIN runs_run u ON u.id = c.run_id WHERE u.status = 'COMPLETED' AND u.tenant_id = ANY(%(tenants)s)"""
    ):
        known[call["run_id"]].add(str(call["id"]))
    return broken + [bad for row in rows if row["purged_at"] is None and (bad := _unfit(row, known[row["run_id"]]))]


def _unfit(row: Row, known: set[str]) -> str:
    """What is wrong with a stored body. The last one of a completed run names every result that the run has."""
    try:
        body = json.loads(verified_body(Checkpoint.objects.get(save_id=row["save_id"])))
    except Unreadable as error:
        return f"run {row['run_id']}: revision {row['revision']} is {error.kind}"
    if row["revision"] == row["head"] and (lost := known - {ref["call"] for ref in body["results"]}):
        return f"run {row['run_id']}: its head does not know the results of {sorted(lost)}"
    return ""


def nothing_starts_after_a_stop(history: History) -> Broken:
    """Whoever was told that a stop is accepted finds it there, and from that moment on nothing of the run is sent; nor while a
    pause is open.
    """
    rows = history.rows(
        """SELECT c.run_id, coalesce(t.id, m.id) AS receipt, a.attempt_no FROM runs_controlrequest c
           JOIN receipts_attempt a ON a.dispatched_at > c.accepted_at
           LEFT JOIN receipts_toolcall t ON t.id = a.tool_call_id
           LEFT JOIN receipts_modelcall m ON m.id = a.model_call_id
           WHERE (c.kind = 'STOP' OR c.kind = 'PAUSE' AND (c.settled_at IS NULL OR a.dispatched_at < c.settled_at))
                 AND coalesce(t.run_id, m.run_id) = c.run_id AND c.tenant_id = ANY(%(tenants)s)"""
    )
    broken = [
        f"run {row['run_id']}: attempt {row['attempt_no']} of {row['receipt']} after its stop or pause" for row in rows
    ]
    there = {
        str(row["run_id"])
        for row in history.rows(
            "SELECT run_id FROM runs_controlrequest WHERE kind = 'STOP' AND tenant_id = ANY(%(tenants)s)"
        )
    }
    told = {
        stopped[1]
        for said in history.http
        if said["status"] == 200
        and said["tenant"] in map(str, history.tenants)
        and (stopped := STOP.match(said["path"]))
    }
    return broken + [f"the stop of run {run} was told and is not there" for run in sorted(told - there)]


def the_audit_only_grows(history: History) -> Broken:
    """The audit chain verifies, holds what earlier checks saw, and has every act that somebody was told is done, and every
    body that was purged, once.
    """
    broken = _purges_unaudited(history)
    for tenant in history.tenants:
        events = history.rows(
            "SELECT seq, canonical, prev_hash, hash, action, object_id, actor FROM accounts_auditevent "
            "WHERE tenant_id = %(tenant)s ORDER BY seq",
            tenant=tenant,
        )
        before = "0" * 64
        for number, event in enumerate(events, 1):
            intact = hashlib.sha256(bytes(event["canonical"])).hexdigest() == event["hash"]
            if not intact or event["prev_hash"] != before or event["seq"] != number:
                broken.append(f"audit event {event['seq']} of {tenant} does not follow")
            before = event["hash"]
        hashes, seen = [event["hash"] for event in events], history.memory.audit.get(tenant, [])
        if hashes[: len(seen)] != seen:
            broken.append(f"the audit of {tenant} was changed")
        history.memory.audit[tenant] = hashes
        audited = {(event["action"], event["object_id"], event["actor"]) for event in events}
        broken += [
            f"{act} of {id} by {who} is not in the audit"
            for act, id, who in _acts(history, tenant)
            if (act, id, who) not in audited
        ]
    return broken


def _purges_unaudited(history: History) -> Broken:
    """Runs whose purged bodies are not exactly those of their audit events."""
    rows = history.rows(
        """SELECT r.id, ARRAY(SELECT c.revision FROM checkpoints_checkpoint c
               WHERE c.run_id = r.id AND c.purged_at IS NOT NULL ORDER BY 1) AS purged, ARRAY(
               SELECT (jsonb_array_elements(e.detail->'revisions'))::int FROM accounts_auditevent e
               WHERE e.action = 'run.retain' AND e.object_id = r.id::text ORDER BY 1) AS audited
           FROM runs_run r WHERE r.tenant_id = ANY(%(tenants)s)"""
    )
    return [
        f"run {row['id']}: purged {row['purged']}, audited {row['audited']}"
        for row in rows
        if row["purged"] != row["audited"]
    ]


def _acts(history: History, tenant: UUID) -> Iterable[tuple[str, str, str]]:
    """What people of a tenant were told is done: (action, object, who)."""
    for said in history.http:
        if said["method"] != "POST" or said["tenant"] != str(tenant) or not 200 <= said["status"] < 300:
            continue
        parts, who = said["path"].strip("/").split("/"), f"person:{said['person']}"
        if parts == ["runs"]:
            yield "run.start", said["answer"]["id"], who
        elif parts[-1] in ("continue", "fork"):
            yield ACTS[parts[-1]], said["answer"]["id"], who
        elif parts[-1] != "retain" or said["answer"]["going"]:
            yield ACTS[parts[-1]], parts[1], who


def every_decision_wakes(history: History) -> Broken:
    """Every decision has left a wakeup, and no run goes on waiting after its last open wait was decided."""
    unheard = history.rows(
        """SELECT d.wait_id FROM approvals_decision d JOIN approvals_wait w ON w.id = d.wait_id
           WHERE w.tenant_id = ANY(%(tenants)s) AND NOT EXISTS (
               SELECT 1 FROM runs_wakeup k WHERE k.wait_id = d.wait_id AND k.cause = 'DECISION')"""
    )
    stuck = history.rows(
        """SELECT r.id FROM runs_run r WHERE r.tenant_id = ANY(%(tenants)s) AND r.status = 'WAITING' AND NOT EXISTS (
               SELECT 1 FROM approvals_wait w WHERE w.run_id = r.id AND w.status = 'OPEN')
           AND NOT EXISTS (SELECT 1 FROM runs_run c WHERE c.parent_run_id = r.id AND c.ended_at IS NULL)"""
    )
    broken = [f"the decision of wait {row['wait_id']} woke nobody" for row in unheard]
    return broken + [f"run {row['id']} waits for nothing" for row in stuck]


INVARIANTS: dict[str, Callable[[History], Broken]] = {
    "I1": one_decision_a_wait,
    "I2": every_effect_is_authorised,
    "I3": no_effect_twice,
    "I4": every_effect_has_a_receipt,
    "I5": nothing_under_an_old_fence,
    "I6": revisions_form_one_chain,
    "I7": nothing_starts_after_a_stop,
    "I8": unknown_stays_unknown,
    "I9": the_audit_only_grows,
    "I10": every_decision_wakes,
    "I11": what_people_see_is_there,
    "I12": tenants_stay_apart,
}


def check(history: History) -> dict[str, Broken]:
    """The invariants that do not hold, with what breaks each."""
    found = {name: invariant(history) for name, invariant in INVARIANTS.items()}
    return {name: broken for name, broken in found.items() if broken}
