"""What `check --deploy` refuses, and what the health page says."""

import pytest
from django.conf import settings
from django.core.checks import Error
from django.test import Client, override_settings

from console.checks import durable_database, production_settings
from console.environment import Environment
from console.local.sockets import database_url, socket_dir
from tests.services import using_database

GIVEN = Environment(
    production=True,
    secret_key="s" * 50,
    master_key="m" * 50,
    database_url="postgresql://db/box",
    broker_url="redis://broker/0",
    allowed_hosts="box.example",
)


def found(given: Environment = GIVEN, **changed: object) -> set[str]:
    """The ids that the check reports in production with these settings."""
    hosts = given.allowed_hosts.split(",")
    production = {"PRODUCTION": True, "ENV": given, "ALLOWED_HOSTS": hosts, "FAULT_DIR": ""}
    with override_settings(**{**production, **changed}):
        return {str(message.id).removeprefix("signalbox.") for message in production_settings(None)}


def test_a_complete_production_is_fine() -> None:
    assert found() == set()


@pytest.mark.parametrize(
    ("name", "id"),
    [("secret_key", "E001"), ("master_key", "E002"), ("database_url", "E003"), ("broker_url", "E004")],
)
def test_what_production_must_be_given(name: str, id: str) -> None:
    assert found(GIVEN.model_copy(update={name: ""})) == {id}


def test_weak_and_shared_keys_are_refused() -> None:
    assert found(GIVEN.model_copy(update={"master_key": "short"})) == {"E005"}
    assert found(GIVEN.model_copy(update={"master_key": GIVEN.secret_key})) == {"E006"}


def test_what_belongs_to_one_machine_is_refused() -> None:
    embedded = database_url(socket_dir(settings.VAR_DIR.resolve()), "signalbox")
    assert found(GIVEN.model_copy(update={"database_url": embedded})) == {"E007"}
    assert found(ALLOWED_HOSTS=["localhost", "127.0.0.1"]) == {"E008"}
    assert found(ALLOWED_HOSTS=["*"]) == {"E009"}
    assert found(FAULT_DIR="faults") == {"E010"}


def test_a_laptop_is_told_that_it_is_one() -> None:
    assert [message.id for message in production_settings(None)] == ["signalbox.W001"]


@pytest.mark.django_db
def test_a_database_that_forgets_commits_is_refused_in_production() -> None:
    assert durable_database(None, ["default"]) == []
    with override_settings(PRODUCTION=True):
        messages = durable_database(None, ["default"])
    assert {message.id for message in messages} == {"signalbox.E011"}
    assert all(isinstance(message, Error) for message in messages)
    assert sorted(message.msg.split()[3] for message in messages) == ["fsync", "full_page_writes", "synchronous_commit"]


@pytest.mark.django_db
def test_health_says_whether_the_database_answers(client: Client) -> None:
    up = client.get("/healthz")
    assert (up.status_code, up.json(), up["Cache-Control"].split(",")[0]) == (200, {"database": "up"}, "max-age=0")


def test_health_says_so_when_it_does_not(live_database: str, client: Client) -> None:
    with using_database("no_such_database"):
        down = client.get("/healthz")
    assert (down.status_code, down.json()) == (503, {"database": "down"})
