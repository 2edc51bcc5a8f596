"""The PostgreSQL and the broker of one test run: started when first asked for, gone with the run.

A cluster with the migrated template is kept beside the runs and copied by each, as long as migrations and binaries are the same.
"""

import fcntl
import hashlib
import itertools
import os
import shutil
import signal
import subprocess
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
from console.environment import BASE_DIR
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
    """Start both servers, with the migrated template; stop them and remove what they wrote at the end."""
    _remove_dead_runs(settings_test.RUN_DIR.parent)
    (settings_test.RUN_DIR / "log").mkdir(parents=True)
    private_folder(settings_test.SOCKET_DIR)
    # 200 acts at one instant are 200 sessions (issue 4).
    quick = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "max_connections": "300"}
    bin_dir = settings.ENV.postgres_bin or postgres.embedded_bin_dir()
    cluster = postgres.Cluster(settings_test.RUN_DIR / "postgres" / "data", settings_test.SOCKET_DIR, bin_dir, quick)
    copy_migrated(cluster)
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


def copy_migrated(cluster: postgres.Cluster) -> None:
    """Give a cluster without data a copy of the migrated one, which whoever needs it first makes. One at a time."""
    runs = settings_test.RUN_DIR.parent
    kept = runs / f"migrated-{_name_of(str(cluster.bin_dir).encode())}-{_name_of(*_what_it_is_made_of())}"
    with (runs / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            for outdated in runs.glob(f"{kept.name.rpartition('-')[0]}-*"):
                shutil.rmtree(outdated)
            _migrate(cluster)
            _copy(cluster.data_dir, kept.with_suffix(".new"))
            kept.with_suffix(".new").rename(kept)
        else:
            cluster.data_dir.parent.mkdir(parents=True)
            _copy(kept, cluster.data_dir)


def _what_it_is_made_of() -> Iterator[bytes]:
    yield (BASE_DIR / "requirements-dev.lock").read_bytes()
    yield (BASE_DIR / "console" / "settings.py").read_bytes()
    for pattern in ("*/migrations/*.py", "*/models.py", "*/models/*.py"):
        for path in sorted(BASE_DIR.glob(pattern)):
            yield str(path.relative_to(BASE_DIR)).encode()
            yield path.read_bytes()


def _name_of(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _copy(source: Path, target: Path) -> None:
    """With owners and modes, on which PostgreSQL insists."""
    subprocess.run(["cp", "--archive", "--reflink=auto", str(source), str(target)], check=True)


def _migrate(cluster: postgres.Cluster) -> None:
    """Make the cluster, and in it the migrated database that every other one is cloned from."""
    database = Child(cluster.program(os.environ), settings_test.RUN_DIR / "log" / "migrate.log")
    database.start()
    try:
        wait_until(cluster.answers, "PostgreSQL answers")
        cluster.create_database(TEMPLATE)
        with using_database(TEMPLATE):
            call_command("migrate", verbosity=0, interactive=False)
    finally:
        _stop(database, signal.SIGINT)


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
