"""Texts inside the sealed bodies: goals, arguments, results, what a model said, reports, memory, progress and answers."""

import json
from typing import Any

from django.apps import apps
from django.db import connection, models

from accounts.selectors import plain_body, sealed_body
from runs.canonical import canonical, digest
from tests.doors.routes import OUR_APPS

SEALED = {
    "checkpoints.Intent": "body",
    "receipts.ToolCall": "args",
    "receipts.Result": "value",
    "runs.Artifact": "body",
    "runs.Message": "body",
    "runs.MemoryItem": "body",
    "runs.WorkspaceProgress": "body",
    "approvals.Answer": "body",
}


def write_into_sealed(text: str) -> int:
    """Every sealed body says this text wherever it says something in words; its digest is put right in whatever refers to it. To be
    called inside `holding`, past the triggers that keep what is written. How many bodies say it.
    """
    now: dict[str, str] = {}
    for label, column in SEALED.items():
        for row in apps.get_model(label)._default_manager.all():
            plain = plain_body(key_id=row.data_key_id, body=getattr(row, column))
            said = _saying(plain, text)
            if said != plain:
                now[digest(plain)] = digest(said)
                _put(row, column, sealed_body(key_id=row.data_key_id, plain=said))
    for model in (one for one in apps.get_models() if one._meta.app_label in OUR_APPS):
        for field in model._meta.concrete_fields:
            if isinstance(field, models.CharField) and field.max_length == 64:
                _point(model._meta.db_table, str(field.column), now)
    return len(now)


def _saying(plain: bytes, text: str) -> bytes:
    try:
        said = plain.decode()
        value = json.loads(said)
    except UnicodeDecodeError:
        return plain
    except ValueError:
        return plain if "date,fund" in said[:40] else f"{said}\n\n{text}".encode()
    return canonical(_each(value, text))


def _each(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return {key: _each(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [_each(one, text) for one in value]
    return f"{value} {text}" if isinstance(value, str) and " " in value else value


def _put(row: models.Model, column: str, body: bytes) -> None:
    table, key = row._meta.db_table, row._meta.pk.column
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {column} = %s WHERE {key} = %s", [body, row.pk])


def _point(table: str, column: str, now: dict[str, str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET {column} = %s::jsonb ->> {column} WHERE {column} = ANY(%s)",
            [json.dumps(now), list(now)],
        )
