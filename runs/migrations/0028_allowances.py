"""One row a run for its budgets, with an amount a unit, in place of a row a unit. Existing budgets are carried over, both
ways. Who reads or writes a budget by unit finds it where it was: in a view.
"""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

UNITS = ("model_calls", "tool_calls", "tokens", "usd_micros", "wall_ms")
COLUMNS = ("cap", "held_unknown", "reserved", "spent")


def _of_units(column: str) -> str:
    return "ARRAY[" + ", ".join(f"max({column}) FILTER (WHERE unit = '{unit}')" for unit in UNITS) + "]"


GATHER = f"""
INSERT INTO runs_allowance (run_id, {", ".join(COLUMNS)})
SELECT run_id, {", ".join(_of_units(column) for column in COLUMNS)} FROM runs_budget GROUP BY run_id
"""
SPREAD = "INSERT INTO runs_budget (run_id, unit, cap, held_unknown, reserved, spent) {by_unit}"
BY_UNIT = f"""
SELECT a.run_id, u.unit, a.cap[u.place] AS cap, a.held_unknown[u.place] AS held_unknown,
    a.reserved[u.place] AS reserved, a.spent[u.place] AS spent
FROM runs_allowance a, (VALUES {", ".join(f"({place}, '{unit}')" for place, unit in enumerate(UNITS, start=1))}) AS u(place, unit)
WHERE a.spent[u.place] IS NOT NULL
"""
VIEW = f"""
CREATE VIEW runs_budget AS {BY_UNIT};
CREATE FUNCTION runs_budget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE place int := array_position('{{{",".join(UNITS)}}}'::text[], OLD.unit);
BEGIN
    IF (NEW.run_id, NEW.unit) IS DISTINCT FROM (OLD.run_id, OLD.unit) THEN
        RAISE EXCEPTION 'a budget stays with its run and its unit' USING ERRCODE = 'check_violation';
    END IF;
    UPDATE runs_allowance a SET cap[place] = NEW.cap, reserved[place] = a.reserved[place] + NEW.reserved - OLD.reserved,
        held_unknown[place] = a.held_unknown[place] + NEW.held_unknown - OLD.held_unknown,
        spent[place] = a.spent[place] + NEW.spent - OLD.spent
    WHERE a.run_id = OLD.run_id;
    RETURN NEW;
END $$;
CREATE TRIGGER runs_budget_changed INSTEAD OF UPDATE ON runs_budget FOR EACH ROW EXECUTE FUNCTION runs_budget_changed();
"""
NO_VIEW = "DROP VIEW runs_budget; DROP FUNCTION runs_budget_changed()"


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0027_lighter_budgets'),
    ]

    operations = [
        migrations.CreateModel(
            name='Allowance',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='allowance', serialize=False, to='runs.run')),
                ('cap', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(null=True), size=None)),
                ('held_unknown', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(null=True), size=None)),
                ('reserved', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(null=True), size=None)),
                ('spent', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(null=True), size=None)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=django.db.models.expressions.RawSQL('0 <= ALL (cap || held_unknown || reserved || spent)', (), output_field=models.BooleanField()), name='budget_not_negative'), models.CheckConstraint(condition=django.db.models.expressions.RawSQL('cardinality(cap || held_unknown || reserved || spent) = 20', (), output_field=models.BooleanField()), name='budget_of_every_unit')],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='allowance',
            trigger=pgtrigger.compiler.Trigger(name='no_delete', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='d1628ac3150dc1288a1aa82ff1b4ccaee153f7e6', operation='DELETE', pgid='pgtrigger_no_delete_db9d0', table='runs_allowance', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='allowance',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION '% is never emptied', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';", hash='58048cc9e9b79e2a38647c6af82373e0e3c4c0a7', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_ba707', table='runs_allowance', when='BEFORE')),
        ),
        migrations.RunSQL(GATHER, SPREAD.format(by_unit=BY_UNIT)),
        pgtrigger.migrations.RemoveTrigger(model_name='budget', name='no_delete'),
        pgtrigger.migrations.RemoveTrigger(model_name='budget', name='no_truncate'),
        migrations.DeleteModel(name='Budget'),
        migrations.RunSQL(VIEW, NO_VIEW),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('pk', models.CompositePrimaryKey('run_id', 'unit', blank=True, editable=False, primary_key=True, serialize=False)),
                ('unit', models.CharField(max_length=16)),
                ('cap', models.BigIntegerField(null=True)),
                ('reserved', models.BigIntegerField()),
                ('held_unknown', models.BigIntegerField()),
                ('spent', models.BigIntegerField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.DO_NOTHING, related_name='budgets', to='runs.run')),
            ],
            options={'db_table': 'runs_budget', 'managed': False},
        ),
    ]
