"""A run never becomes COMPLETED while a promise of it is open (T39), whoever writes.

The trigger stands on the table of runs and belongs to this app: runs knows nothing of promises, and only a migration of the app
above it may look from there to here.
"""

from typing import ClassVar

from django.db import migrations

CREATE = """
CREATE FUNCTION checkpoints_completed_keeps_promises() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM checkpoints_obligation WHERE run_id = NEW.id AND status = 'OPEN') THEN
        RAISE EXCEPTION 'a run with an open obligation does not complete' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER completed_keeps_promises BEFORE UPDATE OF status ON runs_run FOR EACH ROW
    WHEN (NEW.status = 'COMPLETED' AND OLD.status <> 'COMPLETED')
    EXECUTE FUNCTION checkpoints_completed_keeps_promises();
"""

DROP = """
DROP TRIGGER completed_keeps_promises ON runs_run;
DROP FUNCTION checkpoints_completed_keeps_promises();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("checkpoints", "0006_first_states")]

    operations: ClassVar = [migrations.RunSQL(CREATE, DROP)]
