"""Everything that `up` does: start all of Signalbox on this machine, say where it is, and stop it again."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from console.environment import Environment
from console.local import postgres, programs, valkey
from console.local.errors import LocalError
from console.local.readiness import page_answers, workers_answer
from console.local.sockets import private_folder, socket_dir
from console.local.state import local_secrets, only_one, write_addresses, write_private
from console.local.supervisor import StopRequested, Supervisor, signals_held

USERNAME = "operator"
DATABASE = "signalbox"
_WILDCARDS = {"0.0.0.0", "::"}  # noqa: S104  compared with, not bound to
_START_SECONDS = 120.0  # a first start on a busy machine
_PREPARE_SECONDS = (
    1800.0  # all migrations: half a minute of work, much more where tables are full or the machine is busy
)


@dataclass(frozen=True)
class Options:
    """What the person asked for. Port 0 is any free port; `ready_file` is written when everything answers."""

    host: str
    port: int
    workers: int
    tour: bool
    ready_file: Path | None


def launch(options: Options, given: Environment, say: Callable[[str], None]) -> None:
    """Start everything, watch over it until a signal asks to stop, stop everything. Raises LocalError.

    `given` is what the surroundings set: a database, a broker or an outside world named there is used as it is.
    """
    var_dir = given.var_dir.resolve()
    (var_dir / "log").mkdir(parents=True, exist_ok=True)
    with only_one(var_dir), _listener(options) as listener, signals_held() as stop_signals:
        supervisor = Supervisor(var_dir / "log", stop_signals, say)
        start = _Start(options, given, var_dir, listener, supervisor, say)
        try:
            start.everything()
            supervisor.watch()
        except StopRequested:
            pass
        finally:
            say(
                f"Stopping. Calls on the wire may answer for {programs.DRAIN_SECONDS:.0f} s; asking once more ends them."
            )
            supervisor.stop()
            start.withdraw_ready_file()


@contextmanager
def _listener(options: Options) -> Iterator[socket.socket]:
    """The listening socket of the web server. It stays ours, so the address stays ours while the server restarts."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=512)
    except OSError as error:
        raise LocalError(
            f"Cannot listen on {options.host} port {options.port}: {os.strerror(error.errno or 0)}. "
            "Stop the program that does, or choose another --port; --port 0 takes any free one."
        ) from error
    with listener:
        yield listener


@dataclass
class _Start:
    """One start, step by step. `environment` grows as the services get their addresses."""

    options: Options
    given: Environment
    var_dir: Path
    listener: socket.socket
    supervisor: Supervisor
    say: Callable[[str], None]
    environment: dict[str, str] = field(default_factory=dict)

    def everything(self) -> None:
        """Start the services, migrate, start our own processes, make the tour, and tell the person when all answer."""
        self.withdraw_ready_file()
        secrets = local_secrets(self.var_dir)
        private_folder(self.sockets)
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "1", **self._settings(secrets)}
        self._database()
        self._broker()
        self._outside()
        write_addresses(self.var_dir, self.environment)
        self._prepare(secrets["password"])
        nodes = self._own_processes()
        self.supervisor.wait(self._web_answers, "The web server", _START_SECONDS)
        broker_url = self.environment["SIGNALBOX_BROKER_URL"]
        self.supervisor.wait(partial(workers_answer, broker_url, nodes), "A worker", _START_SECONDS)
        self.supervisor.start(programs.beat(self.environment))
        notices = f"notices-{os.getpid()}@{socket.gethostname()}"
        self.supervisor.start(programs.worker("notices", notices, self.environment, concurrency=1, queue="notices"))
        if self.given.liveness:
            self.supervisor.start(programs.watcher(self.environment))
        self._announce(secrets["password"])

    def withdraw_ready_file(self) -> None:
        """Nobody is to take an old file for ours."""
        if self.options.ready_file:
            self.options.ready_file.unlink(missing_ok=True)

    @property
    def sockets(self) -> Path:
        """Where PostgreSQL and the broker listen."""
        return socket_dir(self.var_dir)

    @property
    def url(self) -> str:
        """The address to give to people and programs on this machine."""
        host = "127.0.0.1" if self.options.host in _WILDCARDS else self.options.host
        port = self.listener.getsockname()[1]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def _settings(self, secrets: dict[str, str]) -> dict[str, str]:
        hosts = self.given.allowed_hosts.split(",")
        if self.options.host not in {*_WILDCARDS, *hosts}:
            hosts.append(f"[{self.options.host}]" if ":" in self.options.host else self.options.host)
        return {
            "SIGNALBOX_VAR_DIR": str(self.var_dir),
            "SIGNALBOX_SECRET_KEY": self.given.secret_key or secrets["secret_key"],
            "SIGNALBOX_MASTER_KEY": self.given.master_key or secrets["master_key"],
            "SIGNALBOX_ALLOWED_HOSTS": ",".join(hosts),
            "SIGNALBOX_PUBLIC_URL": self.given.public_url or self.url,
        }

    def _database(self) -> None:
        if self.given.database_url:
            self.environment["SIGNALBOX_DATABASE_URL"] = self.given.database_url
            return
        self.say("Starting PostgreSQL.")
        bin_dir = self.given.postgres_bin or postgres.embedded_bin_dir()
        data_dir = self.var_dir / "postgres" / "data"
        cluster = postgres.Cluster(data_dir, self.sockets, bin_dir)
        self.supervisor.start(cluster.program(self.environment))
        self.supervisor.wait(cluster.answers, "PostgreSQL", _START_SECONDS)
        cluster.create_database(DATABASE)
        self.environment["SIGNALBOX_DATABASE_URL"] = cluster.url(DATABASE)

    def _broker(self) -> None:
        if self.given.broker_url:
            self.environment["SIGNALBOX_BROKER_URL"] = self.given.broker_url
            return
        self.say("Starting the broker.")
        broker_socket = self.sockets / "valkey.sock"
        self.supervisor.start(valkey.program(broker_socket, self.environment))
        self.supervisor.wait(partial(valkey.answers, broker_socket), "The broker", _START_SECONDS)
        self.environment["SIGNALBOX_BROKER_URL"] = valkey.url(broker_socket)

    def _outside(self) -> None:
        if self.given.outside_url:
            self.environment["SIGNALBOX_OUTSIDE_URL"] = self.given.outside_url
            return
        self.say("Starting the tour's outside world.")
        ready_file = self.var_dir / "outside-ready.json"
        program = partial(programs.outside, self.var_dir / "outside.sqlite3", ready_file, dict(self.environment))
        self.supervisor.start(program())
        self.supervisor.wait(ready_file.exists, "The outside world", _START_SECONDS)
        url: str = json.loads(ready_file.read_text())["url"]
        self.supervisor.change(program(port=urlsplit(url).port or 0))
        self.environment["SIGNALBOX_OUTSIDE_URL"] = url

    def _prepare(self, password: str) -> None:
        """Migrate, and make the tour. The run that it starts waits for the workers."""
        self.say("Bringing the tables up to date, and preparing the tour. The first time takes half a minute or more.")
        arguments = ("--migrate",) if self.options.tour else ("--migrate", "--no-run")
        environment = {**self.environment, "SIGNALBOX_TOUR_PASSWORD": password}
        program = programs.management("prepare", "tour", *arguments, environment=environment)
        self.supervisor.run(program, _PREPARE_SECONDS)

    def _own_processes(self) -> list[str]:
        """Start the web server and the workers; the nodes of the workers. The clock starts when they answer."""
        self.say(f"Starting the web server and {self.options.workers} workers.")
        self.supervisor.start(programs.web(self.listener.fileno(), self.environment))
        numbers = range(1, self.options.workers + 1)
        nodes = [f"worker-{number}-{os.getpid()}@{socket.gethostname()}" for number in numbers]
        for number, node in zip(numbers, nodes, strict=True):
            self.supervisor.start(programs.worker(f"worker-{number}", node, self.environment))
        return nodes

    def _web_answers(self) -> bool:
        """The health page says that the database answers, and a visitor gets the sign-in page."""
        return all(page_answers(self.url + path) for path in ("healthz", "sign-in/"))

    def _announce(self, password: str) -> None:
        if self.options.ready_file:
            write_private(self.options.ready_file, {"url": self.url, "username": USERNAME, "password": password})
        self.say("")
        self.say(f"Signalbox is ready:  {self.url}")
        self.say(f"Sign in as:          {USERNAME}")
        self.say(f"Password:            {password}")
        self.say(f"Outside world:       {self.environment['SIGNALBOX_OUTSIDE_URL']}")
        self.say(f"Logs:                {self.var_dir / 'log'}")
        self.say("Ctrl-C stops everything.")
