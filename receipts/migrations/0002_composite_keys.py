"""Composite foreign keys: a row cannot name an object of another tenant, nor a binding that does not exist."""

from typing import ClassVar

from django.db import migrations

KEYS = [
    (
        "receipts_modelcall",
        "modelcall_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "receipts_toolcall",
        "toolcall_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "receipts_effect",
        "effect_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "receipts_claim",
        "claim_tenant_tool_call_fk",
        "tenant_id, tool_call_id",
        "receipts_toolcall",
        "tenant_id, id",
    ),
    (
        "receipts_report",
        "report_tenant_thread_fk",
        "tenant_id, thread_id",
        "runs_thread",
        "tenant_id, id",
    ),
    (
        "receipts_reportversion",
        "reportversion_tenant_run_fk",
        "tenant_id, run_id",
        "runs_run",
        "tenant_id, id",
    ),
    (
        "receipts_publication",
        "publication_tenant_report_version_fk",
        "tenant_id, report_version_id",
        "receipts_reportversion",
        "tenant_id, id",
    ),
    (
        "receipts_effect",
        "effect_tenant_tool_call_fk",
        "tenant_id, tool_call_id",
        "receipts_toolcall",
        "tenant_id, id",
    ),
    (
        "receipts_reportversion",
        "reportversion_tenant_report_fk",
        "tenant_id, report_id",
        "receipts_report",
        "tenant_id, id",
    ),
    (
        "receipts_reportversion",
        "reportversion_tenant_tool_call_fk",
        "tenant_id, tool_call_id",
        "receipts_toolcall",
        "tenant_id, id",
    ),
    (
        "receipts_publication",
        "publication_tenant_tool_call_fk",
        "tenant_id, tool_call_id",
        "receipts_toolcall",
        "tenant_id, id",
    ),
]


class Migration(migrations.Migration):
    dependencies: ClassVar = [("receipts", "0001_initial")]

    operations: ClassVar = [
        migrations.RunSQL(
            f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) "
            f"REFERENCES {target} ({target_columns}) DEFERRABLE INITIALLY DEFERRED",
            f"ALTER TABLE {table} DROP CONSTRAINT {name}",
        )
        for table, name, columns, target, target_columns in KEYS
    ]
