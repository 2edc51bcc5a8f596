"""The goal of a run is encrypted in its row, as the messages are that tell it to the model."""

from typing import Any, ClassVar

from django.db import migrations, models

from accounts.selectors import current_data_key, sealed_body

ALONE = "ALTER TABLE checkpoints_intent {} TRIGGER USER"


def seal_goals(apps: Any, editor: Any) -> None:
    """Encrypt what is stored. The table keeps its rows as they are, so its guard has to stand aside for this once."""
    intents = apps.get_model("checkpoints", "Intent").objects
    editor.execute(ALONE.format("DISABLE"))
    for intent in intents.select_related("run").iterator():
        key_id = current_data_key(intent.run.tenant_id)
        body = sealed_body(key_id=key_id, plain=intent.goal.encode())
        intents.filter(id=intent.id).update(body=body, data_key_id=key_id)
    editor.execute(ALONE.format("ENABLE"))


class Migration(migrations.Migration):
    dependencies: ClassVar = [("checkpoints", "0012_lapse_in_tenant"), ("accounts", "0001_initial")]

    operations: ClassVar = [
        migrations.AddField("intent", "body", models.BinaryField(null=True)),
        migrations.AddField("intent", "data_key_id", models.UUIDField(null=True)),
        migrations.RunPython(seal_goals),
        migrations.AlterField("intent", "body", models.BinaryField()),
        migrations.AlterField("intent", "data_key_id", models.UUIDField()),
        migrations.RemoveField("intent", "goal"),
    ]
