"""Composite foreign keys: a row cannot name an object of another tenant, nor a binding that does not exist."""

from typing import ClassVar

from django.db import migrations

KEYS = [
    (
        "approvals_wait",
        "wait_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "approvals_wait",
        "wait_tenant_tool_call_fk",
        "tenant_id, tool_call_id",
        "receipts_toolcall",
        "tenant_id, id",
    ),
    (
        "approvals_wait",
        "wait_run_checkpoint_revision_checkpoint_digest_fk",
        "run_id, checkpoint_revision, checkpoint_digest",
        "checkpoints_checkpoint",
        "run_id, revision, digest",
    ),
    (
        "approvals_decision",
        "decision_wait_seen_revision_seen_digest_seen_args_digest_fk",
        "wait_id, seen_revision, seen_digest, seen_args_digest",
        "approvals_wait",
        "id, checkpoint_revision, checkpoint_digest, args_digest",
    ),
    (
        "approvals_vote",
        "vote_wait_seen_revision_seen_digest_seen_args_digest_fk",
        "wait_id, seen_revision, seen_digest, seen_args_digest",
        "approvals_wait",
        "id, checkpoint_revision, checkpoint_digest, args_digest",
    ),
]


class Migration(migrations.Migration):
    dependencies: ClassVar = [("approvals", "0001_initial"), ("checkpoints", "0002_composite_keys")]

    operations: ClassVar = [
        migrations.RunSQL(
            f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) "
            f"REFERENCES {target} ({target_columns}) DEFERRABLE INITIALLY DEFERRED",
            f"ALTER TABLE {table} DROP CONSTRAINT {name}",
        )
        for table, name, columns, target, target_columns in KEYS
    ]
