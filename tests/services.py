"""The PostgreSQL and the broker of one test run: started when first asked for, gone with the run."""

import itertools
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from console import settings_test
from console.local import postgres, valkey
from console.local.children import Child
from console.local.sockets import private_folder
from tests.waiting import wait_until

TEMPLATE = "template_signalbox"
_names = itertools.count(1)


@dataclass(frozen=True)
class Services:
    """The servers of this run. `broker` may be killed and started by a test that puts it back."""

    cluster: postgres.Cluster
    database: Child
    broker: Child

    def start_broker(self) -> None:
        """Start the broker, empty, and wait for it."""
        self.broker.start()
        wait_until(lambda: valkey.answers(settings_test.BROKER_SOCKET), "the broker answers")

    def drop(self, name: str) -> None:
        """Drop a database, with whoever is still connected to it."""
        with psycopg.connect(self.cluster.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def running_services() -> Iterator[Services]:
    """Start both servers; stop them and remove what they wrote at the end."""
    _remove_dead_runs(settings_test.RUN_DIR.parent)
    (settings_test.RUN_DIR / "log").mkdir(parents=True)
    private_folder(settings_test.SOCKET_DIR)
    quick = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    bin_dir = settings.ENV.postgres_bin or postgres.embedded_bin_dir()
    cluster = postgres.Cluster(settings_test.RUN_DIR / "postgres" / "data", settings_test.SOCKET_DIR, bin_dir, quick)
    database = Child(cluster.program(os.environ), settings_test.RUN_DIR / "log" / "postgres.log")
    broker_program = valkey.program(settings_test.BROKER_SOCKET, os.environ)
    broker = Child(broker_program, settings_test.RUN_DIR / "log" / "valkey.log")
    services = Services(cluster, database, broker)
    try:
        database.start()
        wait_until(cluster.answers, "PostgreSQL answers")
        services.start_broker()
        yield services
    finally:
        _stop(broker, signal.SIGKILL)
        _stop(database, signal.SIGINT)
        shutil.rmtree(settings_test.RUN_DIR)
        shutil.rmtree(settings_test.SOCKET_DIR, ignore_errors=True)


@contextmanager
def using_database(name: str) -> Iterator[None]:
    """Point Django's connections, in every thread, at another database of the test server."""
    entry = connections.settings["default"]
    before = entry["NAME"]
    connections.close_all()
    entry["NAME"] = name
    try:
        yield
    finally:
        connections.close_all()
        entry["NAME"] = before


def make_template(services: Services) -> None:
    """The migrated database that every other one is cloned from."""
    services.cluster.create_database(TEMPLATE)
    with using_database(TEMPLATE):
        call_command("migrate", verbosity=0, interactive=False)


@contextmanager
def cloned_database(services: Services, template: str = TEMPLATE) -> Iterator[str]:
    """A fresh migrated database that Django uses meanwhile; yields its libpq URL for other processes."""
    name = f"clone_{next(_names)}"
    services.cluster.create_database(name, template=template)
    try:
        with using_database(name):
            yield services.cluster.url(name)
    finally:
        services.drop(name)


def _stop(child: Child, signum: signal.Signals) -> None:
    if child.process is not None:
        child.send(signum)
        wait_until(child.has_ended, f"{child.program.name} ends")
        child.collect()


def _remove_dead_runs(folder: Path) -> None:
    """What runs that were killed left behind. Another run that starts now may be removing the same."""
    for run in folder.glob("run-*"):
        if not Path("/proc", run.name.removeprefix("run-")).exists():
            shutil.rmtree(run, ignore_errors=True)
