"""What is there once, and what must fit what it is bound to, written by direct SQL."""

from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from accounts.keys import new_id
from accounts.models import DataKey, Membership
from approvals.models import Decision, Vote
from approvals.states import LIVE_WAIT, WaitStatus
from receipts.models import Claim, Effect, Reconciliation, Report, ReportVersion
from receipts.states import LIVE_CALL, CallStatus
from runs.models import Agent, Workspace
from runs.states import LIVE_RUN, ControlStatus, RunStatus
from tests.engine.engine import sql
from tests.engine.guards.rows import DIGEST, OTHER_DIGEST, Told, columns_of, has_rows, refused, refused_in

# ── once ─────────────────────────────────────────────────────────────────────


def copied(table: str, where: str, **differently: str) -> str:
    """SQL that inserts a copy of a row, with other values (as SQL) for some columns."""
    numbered = sql("SELECT 1 FROM pg_attribute WHERE attrelid = %s::regclass AND attidentity <> ''", table)
    columns = [name for name in columns_of(table) if not (name == "id" and numbered)]
    values = [differently.get(name, "gen_random_uuid()" if name == "id" else name) for name in columns]
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {table} WHERE {where}"


@pytest.mark.parametrize(
    ("table", "constraint", "differently"),
    [
        ("approvals_decision", "approvals_decision_pkey", {}),
        ("receipts_result", "receipts_result_pkey", {}),
        ("receipts_effect", "receipts_effect_tool_call_id", {"idempotency_key": f"'{DIGEST}'"}),
        ("receipts_reconciliation", "one_final_verdict_per_attempt", {"verdict": "'NOT_EXECUTED'"}),
        ("receipts_reportversion", "report_version_once", {"tool_call_id": "gen_random_uuid()"}),
        (
            "receipts_modelcall",
            "model_turn_once",
            {"status": "'DISPATCHED'", "response_digest": "NULL", "sealed_at": "NULL"},
        ),
        ("receipts_proposal", "receipts_proposal_pkey", {}),
        ("receipts_attempt", "(tool|model)_attempt_once", {"outcome": "NULL", "finished_at": "NULL"}),
        ("receipts_claim", "receipts_claim_tool_call_id", {}),
        ("checkpoints_checkpoint", "checkpoint_revision_once", {"save_id": "gen_random_uuid()"}),
        ("checkpoints_checkpoint", "save_id", {"revision": "revision + 1000", "parent_digest": "digest"}),
        ("checkpoints_intent", "intent_version_once", {}),
        ("checkpoints_head", "checkpoints_head_pkey", {"revision": "1", "phase": "'READY_TO_DECIDE'"}),
        (
            "runs_run",
            "run_admission_once",
            {
                "origin": "'CHILD'",
                "parent_run_id": "id",
                "thread_id": "gen_random_uuid()",
                "status": "'QUEUED'",
                "hold_reason": "NULL",
                "ended_at": "NULL",
            },
        ),
        (
            "runs_lease",
            "runs_lease_pkey",
            {"fence": "0", "owner": "NULL", "expires_at": "NULL", "stop_requested": "false"},
        ),
        ("runs_allowance", "runs_allowance_pkey", {}),
        ("runs_budgetentry", "runs_budgetentry_pkey", {}),
        ("runs_wakeup", "dedupe_key", {"status": "'PENDING'", "consumed_fence": "NULL"}),
        ("runs_runinput", "run_input_once", {}),
        ("runs_message", "message_seq_once", {}),
        ("runs_agentversion", "agent_manifest_once", {}),
        ("accounts_auditevent", "audit_seq_once", {}),
    ],
)
def test_what_is_there_once_is_refused_a_second_time(
    told: Told, table: str, constraint: str, differently: dict[str, str]
) -> None:
    assert has_rows(table)
    refused(constraint, copied(table, "true", **differently))


@pytest.mark.parametrize("status", CallStatus)
def test_one_live_call_per_key(told: Told, status: str) -> None:
    told.another_call(status, idempotency_key=DIGEST)
    if status in LIVE_CALL:
        refused_in("one_live_call_per_key", lambda: told.another_call(idempotency_key=DIGEST))
    else:
        told.another_call(idempotency_key=DIGEST)


@pytest.mark.parametrize("status", RunStatus)
def test_one_live_root_per_thread(told: Told, status: str) -> None:
    first = told.another_run(status)
    if status in LIVE_RUN:
        refused_in("one_live_root_per_thread", lambda: told.another_run(thread=first.thread))
        refused_in("one_live_root_per_thread", lambda: told.continuation(thread=first.thread))
    else:
        told.another_run(thread=first.thread)


def test_forks_and_children_live_beside_the_root_of_their_thread(told: Told) -> None:
    root = told.another_run()
    for _ in range(2):
        told.fork(thread=root.thread)
        told.child(thread=root.thread)


def test_where_a_run_comes_from_fits_its_origin(told: Told) -> None:
    id, source = new_id(), told.run
    refused_in("run_origin_known", lambda: told.another_run(origin="BORN"))
    refused_in("run_child_has_parent", lambda: told.another_run(parent_run=source))
    refused_in("run_child_has_parent", lambda: told.another_run(origin="CHILD", root_run_id=source.id))
    refused_in("run_child_has_root", lambda: told.another_run(id=id, origin="CHILD", root_run_id=id, parent_run=source))
    refused_in("run_child_has_root", lambda: told.another_run(root_run_id=source.id))
    refused_in("run_continued_has_source", lambda: told.another_run(origin="CONTINUED"))
    refused_in("run_continued_has_source", lambda: told.fork(continued_from=source))
    refused_in("run_forked_has_source", lambda: told.another_run(forked_from=source, forked_from_revision=1))
    refused_in("run_forked_has_source", lambda: told.fork(forked_from_revision=None))
    refused_in("run_forked_has_source", lambda: told.fork(forked_from_revision=0))
    refused_in("run_new_has_own_lineage", lambda: told.another_run(lineage_id=source.lineage_id))


@pytest.mark.parametrize("status", ControlStatus)
def test_one_open_stop_per_run(told: Told, status: str) -> None:
    told.another_stop(status)
    if status in ("ACCEPTED", "ADOPTED"):
        refused_in("one_open_control", lambda: told.another_stop("ACCEPTED"))
    else:
        told.another_stop("ACCEPTED")


@pytest.mark.parametrize("status", WaitStatus)
def test_one_live_wait_per_call(told: Told, status: str) -> None:
    call = told.another_call()
    told.another_wait(status, tool_call=call)
    if status in LIVE_WAIT:
        refused_in("one_live_wait_per_call", lambda: told.another_wait(tool_call=call))
    else:
        told.another_wait(tool_call=call)


def test_one_live_claim_per_intent_and_lineage(told: Told) -> None:
    lineage = new_id()

    def claim() -> Claim:
        call = told.another_call()
        return Claim.objects.create(
            tenant_id=call.tenant_id, lineage_id=lineage, intent_key=call.intent_key, tool_call=call
        )

    first = claim()
    refused_in("one_live_claim_per_intent", claim)
    sql("UPDATE receipts_claim SET released_at = clock_timestamp() WHERE id = %s", first.id)
    claim()


def test_one_effect_per_key(told: Told) -> None:
    effect = Effect.objects.get(tool_call=told.call)
    other = told.another_call()
    refused("idempotency_key", copied("receipts_effect", f"id = '{effect.id}'", tool_call_id=f"'{other.id}'::uuid"))


def test_going_on_without_knowing_is_no_final_verdict(told: Told) -> None:
    call = told.another_call("UNCERTAIN")
    said = {"tool_call": call, "follow_up": "NONE", "method": "HUMAN", "seen_attempts": 1, "evidence": "x"}
    Reconciliation.objects.create(verdict="PROCEED_UNKNOWN", **said)
    Reconciliation.objects.create(verdict="EXECUTED", **said)
    refused_in("one_final_verdict_per_attempt", lambda: Reconciliation.objects.create(verdict="EXECUTED", **said))


# ── bindings ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", [Decision, Vote])
@pytest.mark.parametrize(
    "differently",
    [{"seen_revision": 2}, {"seen_digest": OTHER_DIGEST}, {"seen_args_digest": OTHER_DIGEST}],
)
def test_what_was_seen_is_what_is_bound(
    told: Told, model: type[Decision] | type[Vote], differently: dict[str, Any]
) -> None:
    wait = told.another_wait()
    shown = {
        "seen_revision": wait.checkpoint_revision,
        "seen_digest": wait.checkpoint_digest,
        "seen_args_digest": wait.args_digest,
    }
    rest = {"wait": wait, "verdict": "REJECT", "reason": "x", "actor": "system:x"}
    refused_in("seen_args_digest_fk", lambda: model.objects.create(**(shown | differently | rest)))
    model.objects.create(**(shown | rest))
    connection.check_constraints()


def test_a_wait_is_bound_to_a_revision_that_exists_with_that_digest(told: Told) -> None:
    refused_in("approvals_wait names a revision", lambda: told.another_wait(checkpoint_revision=999))
    refused_in("approvals_wait names a revision", lambda: told.another_wait(checkpoint_digest=OTHER_DIGEST))


# ── tenants ──────────────────────────────────────────────────────────────────


def test_no_reference_can_cross_a_tenant(told: Told) -> None:
    """Wherever both tables have a tenant, the foreign key must carry it."""
    crossing = sql("""
        SELECT c.conrelid::regclass::text, a.attname, c.confrelid::regclass::text
        FROM pg_constraint c
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.contype = 'f' AND cardinality(c.conkey) = 1 AND c.confrelid <> 'accounts_tenant'::regclass
          AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.conrelid AND t.attname = 'tenant_id')
          AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.confrelid AND t.attname = 'tenant_id')
          AND NOT EXISTS (
            SELECT FROM pg_constraint w
            WHERE w.contype = 'f' AND w.conrelid = c.conrelid AND w.confrelid = c.confrelid
              AND w.conkey @> c.conkey AND w.conkey @> ARRAY[(
                SELECT t.attnum FROM pg_attribute t WHERE t.attrelid = c.conrelid AND t.attname = 'tenant_id')])
        ORDER BY 1, 2""")
    assert crossing == []


def targets(foreign: Told) -> dict[str, UUID | int]:
    """Something of each table in another tenant."""
    agent = Agent.objects.create(tenant=foreign.run.tenant, key="theirs")
    report = Report.objects.create(tenant=foreign.run.tenant, thread=foreign.run.thread, slug="theirs")
    version = ReportVersion.objects.create(
        tenant=foreign.run.tenant,
        report=report,
        version_no=99,
        run=foreign.run,
        tool_call=foreign.another_call(),
        source_calls=[],
        fence=1,
    )
    return {
        "runs_agent": agent.id,
        "runs_thread": foreign.another_run().thread_id,
        "runs_run": foreign.another_run().id,
        "runs_controlrequest": foreign.another_stop("SETTLED").id,
        "runs_bulk": foreign.another_bulk().bulk_id,
        "runs_scopecontrol": foreign.another_scope(thread=foreign.run.thread).id,
        "accounts_membership": Membership.objects.filter(tenant=foreign.run.tenant)[0].id,
        "accounts_datakey": DataKey.objects.filter(tenant=foreign.run.tenant)[0].id,
        "runs_workspace": Workspace.objects.create(tenant=foreign.run.tenant, title="theirs").id,
        "receipts_toolcall": foreign.another_call().id,
        "receipts_report": report.id,
        "receipts_reportversion": version.id,
    }


def test_a_row_that_names_an_object_of_another_tenant_is_refused(told: Told, foreign: Told) -> None:
    keys = sql("""
        SELECT c.conname, c.conrelid::regclass::text, a.attname, c.confrelid::regclass::text
        FROM pg_constraint c
        JOIN pg_attribute t ON t.attrelid = c.conrelid AND t.attnum = c.conkey[1] AND t.attname = 'tenant_id'
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[2]
        WHERE c.contype = 'f'""")
    assert len(keys) >= 20
    theirs = targets(foreign)
    told.another_obligation("OPEN")
    told.fork(), told.child(), told.continuation(), told.another_flag()
    told.remember()
    told.lapse()
    told.look_into(told.call)
    told.another_endpoint()
    told.another_view()
    told.another_bulk()
    told.another_tag()
    told.another_scope(agent=told.run.thread.agent)
    told.another_stop("SETTLED", scope_control=told.another_scope(thread=told.run.thread))
    told.another_call(proposed_by="HUMAN", author="person:x", instead_of=told.call)
    told.another_stop("SETTLED", cascade_of=told.another_stop("SETTLED"))
    for name, table, column, target in keys:
        connection.check_constraints()
        sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")  # what is frozen is another test
        one = f"SELECT ctid FROM {table} WHERE tenant_id = %s AND {column} IS NOT NULL LIMIT 1"
        ours = sql(one, told.run.tenant_id)
        assert ours, table
        refused(name, f"UPDATE {table} SET {column} = %s WHERE ctid = %s::tid", theirs[target], str(ours[0][0]))
