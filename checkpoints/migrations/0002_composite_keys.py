"""Composite foreign keys: a row cannot name an object of another tenant, nor a binding that does not exist."""

from typing import ClassVar

from django.db import migrations

KEYS = [
    (
        "checkpoints_checkpoint",
        "checkpoint_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "checkpoints_obligation",
        "obligation_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "checkpoints_head",
        "head_run_revision_digest_fk",
        "run_id, revision, digest",
        "checkpoints_checkpoint",
        "run_id, revision, digest",
    ),
]


class Migration(migrations.Migration):
    dependencies: ClassVar = [("checkpoints", "0001_initial")]

    operations: ClassVar = [
        migrations.RunSQL(
            f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) "
            f"REFERENCES {target} ({target_columns}) DEFERRABLE INITIALLY DEFERRED",
            f"ALTER TABLE {table} DROP CONSTRAINT {name}",
        )
        for table, name, columns, target, target_columns in KEYS
    ]
