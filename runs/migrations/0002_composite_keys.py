"""Composite foreign keys: a row cannot name an object of another tenant, nor a binding that does not exist."""

from typing import ClassVar

from django.db import migrations

KEYS = [
    (
        "runs_thread",
        "thread_tenant_agent_fk",
        "tenant_id, agent_id",
        "runs_agent",
        "tenant_id, id",
    ),
    (
        "runs_run",
        "run_tenant_thread_fk",
        "tenant_id, thread_id",
        "runs_thread",
        "tenant_id, id",
    ),
    (
        "runs_controlrequest",
        "controlrequest_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "runs_wakeup",
        "wakeup_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "runs_refusal",
        "refusal_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
]


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runs", "0001_initial")]

    operations: ClassVar = [
        migrations.RunSQL(
            f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) "
            f"REFERENCES {target} ({target_columns}) DEFERRABLE INITIALLY DEFERRED",
            f"ALTER TABLE {table} DROP CONSTRAINT {name}",
        )
        for table, name, columns, target, target_columns in KEYS
    ]
