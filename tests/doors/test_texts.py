"""Every text that somebody may send comes to be stored as it was sent, or is refused with the name of its place."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_network
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.test import override_settings
from django.urls import resolve

from accounts.selectors import plain_body
from accounts.services import member_set, token_create
from accounts.states import Role
from checkpoints.models import Intent
from tests.corpus import IMPOSSIBLE, KEPT
from tests.doors.routes import OUR_APPS, ROUTES
from tests.doors.things import Things
from tests.doors.world import Doors
from tests.written_rows import undone

EVERYBODY = "every-role"
FEW = ("closing", "at the limit")  # what the normal suite sends of it; the long one sends all
texts = pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(one, marks=pytest.mark.matrix) for one in KEPT if one not in FEW)]
)


# ── what is stored ──


@cache
def _columns() -> str:
    """One question to every column that holds texts, alone or inside JSON: which of them holds this one?"""
    asked = []
    for model in (one for one in apps.get_models() if one._meta.app_label in OUR_APPS):
        for field in model._meta.concrete_fields:
            table, column = (connection.ops.quote_name(one) for one in (model._meta.db_table, str(field.column)))
            holds = None
            if isinstance(field, models.JSONField):
                holds = (
                    f"jsonb_path_exists({column}, '$.** ? (@ == $text)', jsonb_build_object('text', %(text)s::text))"
                )
            elif isinstance(field, models.CharField | models.TextField):
                holds = f"position(%(text)s IN {column}) > 0"
            if holds:
                asked.append(f"SELECT '{model._meta.label}.{field.name}' FROM {table} WHERE {holds}")
    return " UNION ".join(asked)


def stored(text: str) -> set[str]:
    """Where this text stands in the store, whole and character for character, maybe inside a longer one."""
    with connection.cursor() as cursor:
        cursor.execute(_columns(), {"text": text})
        found = {row[0] for row in cursor.fetchall()}
    goals = Intent.objects.order_by("-at")[:3]
    return found | {"goal" for one in goals if plain_body(key_id=one.data_key_id, body=one.body).decode() == text}


# ── every field of the API, from its own document ──

# Fields whose text is no fact of its own: they say which one, how, or by what key; or a person can't choose them freely.
CHOSEN = {"kind", "act", "how", "listed", "query", "digest", "args_digest", "unit", "person", "taker", "agent", "tool"}
CHOSEN |= {"address", "signed_with", "password"}  # sealed, or not stored at all


# What makes the rest of a body good, where the walk of the other tests has one that is always refused.
POLICY = '[[rule]]\nname = "all is asked"\nthen = "ask"\n'
GOOD: dict[str, dict[str, Any]] = {
    "api:run-terms": {"constraint": ["Be brief."]},
    "api:wait-assign": {"person": "only-approver"},
    "api:delegations": {
        "taker": "only-approver",
        "ends_at": f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%MZ}",
    },
    "api:grants": {"hours": 1, "max_uses": 1},
    "api:policies": {"text": POLICY, "summary": "walked"},
    "api:views": {"name": "walked once"},
    "api:endpoints": {"address": "http://127.0.0.1:9/"},
}


def text_fields(document: dict[str, Any], path: str) -> list[str]:
    """The fields of a POST that take free text, by the OpenAPI document."""
    described = document["paths"].get(path, {}).get("post", {}).get("requestBody", {}).get("content", {})
    schema = described.get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    free = [name for name, one in schema.get("properties", {}).items() if _is_free(one)]
    return [name for name in free if name not in CHOSEN]


def _is_free(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "string" and not {"enum", "format", "pattern"} & set(schema)


def fields_of_the_api(doors: Doors, things: Things) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each act of the API with a field of it that takes text, and a body that is good beside it."""
    document = doors.api("GET", "/schema/", by=EVERYBODY).json()
    for name, route in ROUTES.items():
        if route.door != "api" or route.act is None:
            continue
        pattern = "/" + resolve(things.path(name)).route.replace("<uuid:", "{").replace("<int:", "{").replace(
            "<str:", "{"
        )
        body = {key: "walked" if value == " " else value for key, value in route.act.body.items()} | GOOD.get(name, {})
        for field in text_fields(document, pattern.replace(">", "}")):
            yield name, field, body


@pytest.fixture(scope="module", autouse=True)
def everybody(doors: Doors) -> None:
    """Somebody with every role, since a field that nobody may fill proves nothing."""
    membership = member_set(tenant=doors.tenant, username=EVERYBODY, password=None, roles=frozenset(Role))
    doors.tokens[EVERYBODY] = token_create(membership=membership, name="tests")


@pytest.fixture(autouse=True)
def near() -> Iterator[None]:
    """Addresses of this machine may be told."""
    with override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.0/8")]):
        yield


EMPTY = {"api:waits-decide"}  # of no wait at all
TOO_LONG = {"long"}
TOLD = {"accounts_auditevent", "accounts_audithead", "accounts_passwordtry"}  # that somebody was refused is kept
# Acts of the API that the walk must find open, or it proves nothing: what they take is stored somewhere.
UNSEEN = {"tags"}  # nobody sees a character of it, so it is no reason
TAKEN = {
    ("api:run-stop", "reason"),
    ("api:run-pause", "reason"),
    ("api:run-goal", "goal"),
    ("api:obligation-release", "reason"),
    ("api:commitment-withdraw", "reason"),
    ("api:contradiction-close", "reason"),
    ("api:grant-revoke", "reason"),
    ("api:scope-lift", "reason"),
    ("api:run-terms", "reason"),
    ("api:wait-assign", "reason"),
    ("api:delegations", "reason"),
    ("api:grants", "reason"),
}


@texts
def test_the_api_keeps_a_text_as_it_was_sent_or_refuses_it_by_name(doors: Doors, things: Things, name: str) -> None:
    """But for the white space around it, which the services leave out."""
    text, taken = KEPT[name], set()
    wrong: list[tuple[object, ...]] = []
    for route, field, body in fields_of_the_api(doors, things):
        with undone() as written:
            answer = doors.api("POST", things.path(route).removeprefix("/api/v1"), {**body, field: text}, by=EVERYBODY)
            kept = stored(text.strip())
        if answer.status_code < 300:
            taken.add((route, field))
            if written and not kept:
                wrong.append((route, field, "taken and not stored"))
        elif answer.status_code == 400 and answer.json()["facts"].get("field") != field and route not in EMPTY:
            wrong.append((route, field, answer.content[:300]))
        elif answer.status_code not in {400, 403, 409} or not written <= TOLD:
            wrong.append((route, field, answer.status_code, written))
    assert not wrong, "\n".join(map(str, wrong))
    assert name in TOO_LONG | UNSEEN or taken >= TAKEN


@pytest.mark.parametrize("text", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_the_api_refuses_what_no_store_takes_and_names_its_place(doors: Doors, things: Things, text: str) -> None:
    for route, field, body in fields_of_the_api(doors, things):
        with undone() as written:
            answer = doors.api("POST", things.path(route).removeprefix("/api/v1"), {**body, field: text}, by=EVERYBODY)
        assert (answer.status_code, answer.json()["code"]) == (400, "MALFORMED"), (route, field, answer.content)
        assert f"$.{field}" in answer.json()["detail"] and not written, (route, field, answer.content)
