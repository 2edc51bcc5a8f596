"""Waits in the order in which they were asked, and by the end of an id (ADR 0060)."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("approvals", "0016_closed_waits")]
    operations: ClassVar = [
        migrations.AddIndex("wait", models.Index(fields=["tenant", "-opened_at", "-id"], name="wait_newest")),
        migrations.RunSQL(
            "CREATE INDEX wait_tail ON approvals_wait (reverse((id)::varchar) text_pattern_ops)", "DROP INDEX wait_tail"
        ),
    ]
