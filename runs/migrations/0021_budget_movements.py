"""One entry a movement, with a column a unit, in place of one entry a unit. Existing entries are carried over, both ways."""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
import runs.states
import accounts.models
from django.db import migrations, models

TAKE_BY_UNIT = """
CREATE TEMP TABLE budget_movements ON COMMIT DROP AS
SELECT run_id, receipt_id, attempt_no, kind,
    max(amount) FILTER (WHERE unit = 'model_calls') AS model_calls,
    max(amount) FILTER (WHERE unit = 'tool_calls') AS tool_calls,
    max(amount) FILTER (WHERE unit = 'tokens') AS tokens,
    max(amount) FILTER (WHERE unit = 'usd_micros') AS usd_micros,
    max(amount) FILTER (WHERE unit = 'wall_ms') AS wall_ms,
    min(at) AS at
FROM runs_budgetentry GROUP BY run_id, receipt_id, attempt_no, kind
"""
PUT_MOVEMENTS = """
INSERT INTO runs_budgetentry (run_id, receipt_id, attempt_no, kind, model_calls, tool_calls, tokens, usd_micros, wall_ms, at)
SELECT run_id, receipt_id, attempt_no, kind, model_calls, tool_calls, tokens, usd_micros, wall_ms, at FROM budget_movements
"""
TAKE_MOVEMENTS = """
CREATE TEMP TABLE budget_units ON COMMIT DROP AS
SELECT e.run_id, u.unit, e.receipt_id, e.attempt_no, e.kind, u.amount, e.at FROM runs_budgetentry e CROSS JOIN LATERAL (VALUES
    ('model_calls', e.model_calls), ('tool_calls', e.tool_calls), ('tokens', e.tokens), ('usd_micros', e.usd_micros),
    ('wall_ms', e.wall_ms)) AS u(unit, amount) WHERE u.amount IS NOT NULL
"""
PUT_BY_UNIT = """
INSERT INTO runs_budgetentry (run_id, unit, receipt_id, attempt_no, kind, amount, at)
SELECT run_id, unit, receipt_id, attempt_no, kind, amount, at FROM budget_units ORDER BY at
"""


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0020_recovery_fixed'),
    ]

    operations = [
        migrations.RunSQL(TAKE_BY_UNIT, PUT_BY_UNIT),
        migrations.DeleteModel(name='BudgetEntry'),
        migrations.CreateModel(
            name='BudgetEntry',
            fields=[
                ('pk', models.CompositePrimaryKey('receipt_id', 'attempt_no', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('receipt_id', models.UUIDField()),
                ('attempt_no', models.IntegerField()),
                ('kind', models.CharField(max_length=16)),
                ('model_calls', models.BigIntegerField(null=True)),
                ('tool_calls', models.BigIntegerField(null=True)),
                ('tokens', models.BigIntegerField(null=True)),
                ('usd_micros', models.BigIntegerField(null=True)),
                ('wall_ms', models.BigIntegerField(null=True)),
                ('at', models.DateTimeField(db_default=accounts.models.ClockTimestamp())),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='runs.run')),
            ],
            options={
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('kind__in', [runs.states.BudgetEntryKind['RESERVE'], runs.states.BudgetEntryKind['SETTLE'], runs.states.BudgetEntryKind['RELEASE'], runs.states.BudgetEntryKind['HOLD_UNKNOWN'], runs.states.BudgetEntryKind['OVERRUN']])), name='budget_entry_kind_known'),
                    models.CheckConstraint(condition=models.Q(('model_calls__isnull', False), ('tool_calls__isnull', False), ('tokens__isnull', False), ('usd_micros__isnull', False), ('wall_ms__isnull', False), _connector='OR'), name='budget_entry_moves_something'),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='budgetentry',
            trigger=pgtrigger.compiler.Trigger(name='append_only', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;", hash='15f160d9d31fa9ad4cd67a1b174f64b98232cad4', operation='UPDATE OR DELETE', pgid='pgtrigger_append_only_033cb', table='runs_budgetentry', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='budgetentry',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION '% is never emptied', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';", hash='cb3ced3eeff4e2569b6cb4c39f9bb01a5de06988', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_c918c', table='runs_budgetentry', when='BEFORE')),
        ),
        migrations.RunSQL(PUT_MOVEMENTS, TAKE_MOVEMENTS),
    ]
