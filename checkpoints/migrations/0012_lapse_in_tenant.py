"""A lapse names a call of its own tenant."""

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    dependencies: ClassVar = [("checkpoints", "0011_fewer_indexes"), ("receipts", "0002_composite_keys")]

    operations: ClassVar = [
        migrations.RunSQL(
            "ALTER TABLE checkpoints_lapse ADD CONSTRAINT lapse_tenant_call_fk "
            "FOREIGN KEY (tenant_id, tool_call_id) REFERENCES receipts_toolcall (tenant_id, id)",
            "ALTER TABLE checkpoints_lapse DROP CONSTRAINT lapse_tenant_call_fk",
        ),
    ]
