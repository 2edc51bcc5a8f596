"""What calls and reports are found by: the key of an effect, what the other side calls it, a part of a title, the end of an id (ADR 0060)."""

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    dependencies: ClassVar = [("receipts", "0015_questions"), ("runs", "0030_found_by_name")]
    operations: ClassVar = [
        migrations.RunSQL(
            "CREATE INDEX call_effect_key ON receipts_toolcall (idempotency_key) WHERE effect_class <> 'READ_ONLY'",
            "DROP INDEX call_effect_key",
        ),
        migrations.RunSQL(
            "CREATE INDEX call_external_ref ON receipts_toolcall (tenant_id, external_ref text_pattern_ops) "
            "WHERE external_ref IS NOT NULL",
            "DROP INDEX call_external_ref",
        ),
        migrations.RunSQL(
            "CREATE INDEX report_title_parts ON receipts_reportversion USING gin (upper(title::text) gin_trgm_ops)",
            "DROP INDEX report_title_parts",
        ),
        migrations.RunSQL(
            "CREATE INDEX report_tail ON receipts_report (reverse((id)::varchar) text_pattern_ops)",
            "DROP INDEX report_tail",
        ),
        migrations.RunSQL("ANALYZE receipts_reportversion", migrations.RunSQL.noop),  # so that the server knows how rare a part of a title is
    ]
