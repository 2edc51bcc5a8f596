"""What is never changed and never deleted, changed and deleted by direct SQL."""

import pytest
from django.db import DatabaseError

from approvals.models import DEMANDED
from receipts.models import Attempt
from tests.engine.engine import sql
from tests.engine.guards.rows import Told, columns_of, has_rows, refused
from tests.engine.races import undone

# ── what is never changed ────────────────────────────────────────────────────

APPEND_ONLY = {
    "accounts_auditevent",
    "approvals_decision",
    "approvals_policydecision",
    "checkpoints_intent",
    "receipts_effect",
    "receipts_proposal",
    "receipts_reconciliation",
    "receipts_reportversion",
    "receipts_result",
    "receipts_secondeffect",
    "runs_agentversion",
    "runs_artifact",
    "runs_budgetentry",
    "runs_message",
    "runs_refusal",
    "runs_runinput",
    "runs_runtransition",
}
NEVER_DELETED = {
    "accounts_audithead",
    "accounts_datakey",
    "approvals_vote",
    "approvals_wait",
    "checkpoints_checkpoint",
    "checkpoints_head",
    "checkpoints_obligation",
    "receipts_attempt",
    "receipts_claim",
    "receipts_modelcall",
    "receipts_publication",
    "receipts_toolcall",
    "runs_allowance",
    "runs_controlrequest",
    "runs_lease",
    "runs_run",
    "runs_wakeup",
}


@pytest.mark.parametrize("table", sorted(APPEND_ONLY))
def test_an_append_only_table_refuses_every_change(told: Told, table: str) -> None:
    assert has_rows(table)
    for column in columns_of(table):
        refused("Cannot update", f"UPDATE {table} SET {column} = {column}")
    refused("Cannot (update or )?delete", f"DELETE FROM {table}")


@pytest.mark.parametrize("table", sorted(NEVER_DELETED - {"checkpoints_obligation"}))
def test_a_row_is_never_deleted(told: Told, table: str) -> None:
    assert has_rows(table)
    refused("Cannot delete", f"DELETE FROM {table}")


def test_an_obligation_is_never_deleted(told: Told) -> None:
    told.another_obligation("OPEN")
    refused("Cannot delete", "DELETE FROM checkpoints_obligation")


def other_value(table: str, column: str) -> str:
    """SQL for a value of the column's type that no row has."""
    ((kind,),) = sql(
        "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s",
        *(table, column),
    )
    return {
        "uuid": "gen_random_uuid()",
        "integer": f"coalesce({column}, 0) + 7",
        "bigint": f"coalesce({column}, 0) + 7",
        "smallint": f"coalesce({column}, 0) + 7",
        "boolean": f"NOT {column}",
        "timestamp with time zone": "clock_timestamp() + interval '1 day'",
        "bytea": "'\\x00'::bytea",
    }.get(kind, "'changed'")


def is_refused_as_frozen(table: str, statement: str) -> bool:
    """Whether a statement is refused because of a frozen column, if no check or key refuses it before. Nothing stays."""
    try:
        with undone():
            for (rule,) in sql(
                "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype IN ('c', 'f')", table
            ):
                sql(f"ALTER TABLE {table} DROP CONSTRAINT {rule}")
            sql(statement)
    except DatabaseError as error:
        return "Cannot update rows" in str(error)
    return False


def assert_frozen(table: str, columns: set[str], where: str) -> None:
    """Each of these columns refuses another value, and no other column does so for being frozen."""
    for column in columns_of(table):
        statement = f"UPDATE {table} SET {column} = {other_value(table, column)} WHERE {where}"
        assert is_refused_as_frozen(table, statement) == (column in columns), column


def test_the_envelope_of_a_checkpoint_is_frozen_and_its_body_can_be_purged(told: Told) -> None:
    purgeable = {"body", "data_key_id", "purged_at"}
    where = f"run_id = '{told.run.id}' AND revision = {told.run.checkpoints.count()}"  # nothing rests on it
    assert_frozen("checkpoints_checkpoint", set(columns_of("checkpoints_checkpoint")) - purgeable, where)
    refused("checkpoint_purge_is_dated", f"UPDATE checkpoints_checkpoint SET body = NULL WHERE {where}")
    purge = "UPDATE checkpoints_checkpoint SET body = NULL, purged_at = clock_timestamp() WHERE"
    refused("the head of a run keeps its body", f"{purge} {where}")


def test_the_origin_of_a_run_is_frozen(told: Told) -> None:
    origin = {"tenant_id", "thread_id", "lineage_id", "origin", "root_run_id", "parent_run_id", "continued_from_id"}
    origin |= {"forked_from_id", "forked_from_revision", "admission_key", "inherited_turns", "inherited_messages"}
    origin |= {"recovery_policy"}
    assert_frozen("runs_run", origin, f"id = '{told.run.id}'")


def test_the_identity_of_a_call_is_frozen(told: Told) -> None:
    identity = {"run_id", "tool", "tool_version", "tool_hash", "effect_class", "step_name", "args_digest"}
    identity |= {"idempotency_key", "intent_key", "proposed_by", "author", "instead_of_id"}
    assert_frozen("receipts_toolcall", identity, f"id = '{told.call.id}'")


def test_the_binding_of_a_wait_is_frozen(told: Told) -> None:
    binding = {"run_id", "tool_call_id", "checkpoint_revision", "checkpoint_digest", "args_digest", "tool_hash"}
    binding |= {"kind", "policy_version", "policy_rule", "remind_at", "escalate_at", *DEMANDED}
    assert_frozen("approvals_wait", binding, f"tool_call_id = '{told.call.id}' AND status = 'CONSUMED'")


def test_an_attempt_is_settled_once(told: Told) -> None:
    call = told.another_call()
    attempt = Attempt.objects.create(tool_call=call, attempt_no=1, fence=1, authorised_by="policy")
    settle = "UPDATE receipts_attempt SET outcome = %s, finished_at = clock_timestamp() WHERE id = %s"
    sql(settle, "NO_RESPONSE", attempt.id)
    for outcome in ("OK", "ERROR_RETRYABLE", "ERROR_FINAL", "NO_RESPONSE"):
        refused("Cannot update", settle, outcome, attempt.id)
    refused("Cannot update", "UPDATE receipts_attempt SET outcome = NULL, finished_at = NULL WHERE id = %s", attempt.id)


def test_an_outcome_is_dated_and_of_one_receipt(told: Told) -> None:
    call = told.another_call()
    insert = "INSERT INTO receipts_attempt (tool_call_id, model_call_id, attempt_no, fence, authorised_by, outcome) "
    turn = told.run.model_calls.earliest("turn_no").id
    attempt = Attempt.objects.create(tool_call=call, attempt_no=9, fence=1, authorised_by="policy")
    refused("attempt_outcome_is_dated", "UPDATE receipts_attempt SET outcome = 'OK' WHERE id = %s", attempt.id)
    refused("attempt_of_one_receipt", insert + "VALUES (NULL, NULL, 1, 1, '', NULL)")
    refused("attempt_of_one_receipt", insert + "VALUES (%s, %s, 1, 1, '', NULL)", call.id, turn)
