"""What `check --deploy` refuses: settings that are fine on a laptop and unsafe where others depend on them."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Caution
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from console.local.sockets import socket_dir

_SHORTEST_KEY = 32
_LOCAL_HOSTS = {"localhost", "127.0.0.1", "[::1]"}
_DURABILITY = ("fsync", "synchronous_commit", "full_page_writes")


@register(Tags.security, deploy=True)
def production_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Everything that production must be given, because nothing safe can be assumed."""
    if not settings.PRODUCTION:
        hint = "Set SIGNALBOX_PRODUCTION=1 where others depend on this installation."
        return [Caution("This is the set-up for one person's machine.", hint=hint, id="signalbox.W001")]
    return [*_missing(), *_local_leftovers()]


def _missing() -> Iterator[CheckMessage]:
    given = settings.ENV
    for number, name in enumerate(("secret_key", "master_key", "database_url", "broker_url"), start=1):
        if not getattr(given, name):
            yield Error(f"SIGNALBOX_{name.upper()} is not set.", id=f"signalbox.E00{number}")
    if given.master_key and len(given.master_key) < _SHORTEST_KEY:
        hint = "It protects the data keys of every tenant. Use 32 random characters or more, and keep a copy."
        yield Error("SIGNALBOX_MASTER_KEY is short enough to be guessed.", hint=hint, id="signalbox.E005")
    if given.master_key and given.master_key == given.secret_key:
        yield Error("SIGNALBOX_MASTER_KEY and SIGNALBOX_SECRET_KEY are the same.", id="signalbox.E006")


def _local_leftovers() -> Iterator[CheckMessage]:
    if conninfo_to_dict(settings.ENV.database_url).get("host") == str(socket_dir(settings.VAR_DIR.resolve())):
        hint = "`manage.py up` owns that server and ends it with itself. Use a PostgreSQL that is looked after."
        yield Error("The database is the embedded server of one machine.", hint=hint, id="signalbox.E007")
    if set(settings.ALLOWED_HOSTS) <= _LOCAL_HOSTS:
        hint = "Set SIGNALBOX_ALLOWED_HOSTS to the names that people use."
        yield Error("Nobody can reach this installation by its name.", hint=hint, id="signalbox.E008")
    if "*" in settings.ALLOWED_HOSTS:
        hint = "Any page of any site could then speak for this one. Name the hosts."
        yield Error("SIGNALBOX_ALLOWED_HOSTS allows every host.", hint=hint, id="signalbox.E009")
    if settings.FAULT_DIR:
        hint = "Whoever may write there can kill every worker. Unset SIGNALBOX_FAULT_DIR."
        yield Error("Fault points are on.", hint=hint, id="signalbox.E010")


@register(Tags.database)
def durable_database(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """In production a commit must survive a crash of the database's machine: a dispatch that is forgotten is sent again."""
    if not settings.PRODUCTION:
        return []
    return [message for alias in databases or () for message in _volatile(alias)]


def _volatile(alias: str) -> Iterator[CheckMessage]:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(_DURABILITY)])
        for name, value in cursor.fetchall():
            if value == "off":
                hint = "A call whose dispatch was lost in a crash would be sent twice."
                yield Error(f"PostgreSQL runs with {name} off.", hint=hint, id="signalbox.E011")
