"""One durable PostgreSQL for all contenders: the embedded binaries, every durability setting at its default."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from console.local import postgres
from console.local.children import Child
from console.local.sockets import private_folder

_START_SECONDS = 60.0
_SETTLE_SECONDS = 1.5  # until backends have reported their counts
SETTINGS = {
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "shared_preload_libraries": "pg_stat_statements",
}


@dataclass(frozen=True)
class Counts:
    """What the server counted for a piece of work. They do not depend on how busy the machine is."""

    statements: int
    transactions: int
    fsyncs: int
    wal_bytes: int


@dataclass(frozen=True)
class Server:
    """A running server."""

    cluster: postgres.Cluster
    postmaster: int
    folder: Path
    prepared: set[str] = field(default_factory=set)

    def fresh(self, name: str) -> str:
        """An empty database of this name; its libpq URL."""
        self._create(name, "template1")
        with psycopg.connect(self.cluster.url(name), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        return self.cluster.url(name)

    def copy(self, name: str, of: str, prepare: Callable[[str], object]) -> str:
        """A database of this name as `prepare` leaves an empty one, which it does once for all copies; its libpq URL."""
        if of not in self.prepared:
            prepare(self.fresh(of))
            self.prepared.add(of)
        self._create(name, of)
        return self.cluster.url(name)

    def _create(self, name: str, template: str) -> None:
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        with self._admin() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            connection.execute(made)

    def counts(self, name: str) -> Counts:
        """What was counted so far in one database; WAL and fsyncs are the server's, so nothing else may run beside it."""
        time.sleep(_SETTLE_SECONDS)
        with psycopg.connect(self.cluster.url(name), autocommit=True) as connection:
            row = connection.execute(
                "SELECT (SELECT coalesce(sum(s.calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid"
                "        WHERE d.datname = current_database() AND s.toplevel),"
                "       (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()),"
                "       (SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal'),"
                "       (SELECT wal_bytes FROM pg_stat_wal)"
            ).fetchone()
        if row is None:
            raise LookupError("the server gave no counts")
        return Counts(*(int(value) for value in row))

    def sizes(self, name: str) -> dict[str, int]:
        """Bytes on disk of every table of one database, with its indexes and TOAST."""
        with psycopg.connect(self.cluster.url(name), autocommit=True) as connection:
            rows = connection.execute(
                "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
                "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            ).fetchall()
        return {str(table): int(size) for table, size in rows}

    def _admin(self) -> psycopg.Connection:
        return psycopg.connect(self.cluster.url("postgres"), autocommit=True)


@contextmanager
def running_server(more: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start a server in a folder of its own, with `more` settings; stop it and remove the folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="signalbox-bench-"))
    try:
        with running_cluster(folder, SETTINGS | dict(more or {})) as cluster:
            yield Server(cluster, _postmaster(cluster), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_cluster(folder: Path, settings: Mapping[str, str]) -> Iterator[postgres.Cluster]:
    """Start a server on the data in a folder, which stays; stop it at the end. A server of a cluster that is already there
    may have to repair it first, within _START_SECONDS.
    """
    private_folder(folder / "run")
    cluster = postgres.Cluster(folder / "postgres" / "data", folder / "run", postgres.embedded_bin_dir(), settings)
    child = Child(cluster.program(os.environ), folder / "postgres.log")
    try:
        child.start()
        deadline = time.monotonic() + _START_SECONDS
        while not cluster.answers():
            if child.has_ended() or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{child.last_lines()}")
            time.sleep(0.1)
        yield cluster
    finally:
        if child.process is not None:
            child.send(signal.SIGINT)
            child.collect()


def _postmaster(cluster: postgres.Cluster) -> int:
    return int((cluster.data_dir / "postmaster.pid").read_text().split("\n", 1)[0])
