"""What runs, threads and agents are found by: a part of a title, the end of an id (ADR 0060)."""

from typing import ClassVar

from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runs", "0029_overview")]
    operations: ClassVar = [
        TrigramExtension(),
        migrations.RunSQL(
            "CREATE INDEX run_title_parts ON runs_run USING gin (upper(title::text) gin_trgm_ops)",
            "DROP INDEX run_title_parts",
        ),
        migrations.RunSQL(
            "CREATE INDEX run_tail ON runs_run (reverse((id)::varchar) text_pattern_ops)", "DROP INDEX run_tail"
        ),
        migrations.RunSQL(
            "CREATE INDEX thread_key_start ON runs_thread (tenant_id, key text_pattern_ops)",
            "DROP INDEX thread_key_start",
        ),
        migrations.RunSQL("ANALYZE runs_run", migrations.RunSQL.noop),  # so that the server knows how rare a part of a title is
    ]
