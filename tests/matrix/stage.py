"""The one running system of the matrix: workers, clock, web server, oracle and database, replaced when they are killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg
from celery import current_app
from django.db import connection

from accounts.models import Membership
from accounts.services import member_set, tenant_create, token_create
from accounts.states import Role
from console.local import programs
from console.local.programs import Program
from tests.matrix.doors import Doors, HttpLog, Person
from tests.matrix.history import History, Memory
from tests.matrix.oracle import read_log
from tests.matrix.store.base import session_name
from tests.matrix.store.faults import RATE_FILE, STRIKES_FILE
from tests.scenarios.test_random_kills import parent_of
from tests.services import Services
from tests.stack import Process, Stack
from tests.waiting import wait_until

WORKERS = 2
POOL = 4
QUICK_START = 0.5  # s in which a Python process starts on a machine that is not slow
PATIENCE = 600.0  # s in which the processes of a slow machine answer
EVERYTHING = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER, Role.GOVERNANCE})


TTL = "SIGNALBOX_LEASE_TTL_SECONDS"


def stack_on(services: Services, database: str, folder: Path, *, least: float = 2.0) -> Stack:
    """The processes' surroundings, with leases that fit the machine.

    A lease lasts `least` seconds where a Python process starts at once, and longer where the machine is slow or shared, so that
    a worker which gets its turn seldom keeps what it holds. A session that is frozen inside a transaction ends as soon.
    """
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import django, celery, psycopg, rest_framework"], check=True)
    lease = min(10.0, max(least, 2.0 * (time.monotonic() - began) / QUICK_START))
    guards = f"-c lock_timeout=15s -c idle_in_transaction_session_timeout={lease * 1000:.0f}ms"
    stack = Stack(services, f"{services.cluster.url(database)}&options={quote(guards)}", folder)
    stack.environment[TTL] = f"{lease:.1f}"
    return stack


@dataclass
class Stage:
    """What a cell of the matrix plays on. Processes are started from the main thread only: their lives hang on it."""

    stack: Stack
    people: list[Person] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    single: dict[str, Process] = field(default_factory=dict)
    watching: bool = False

    def __post_init__(self) -> None:
        self.oracle_listener = socket.create_server(("127.0.0.1", 0))
        self.web_listener = socket.create_server(("127.0.0.1", 0))
        self.doors = Doors(HttpLog(self.stack.folder / "http.jsonl"), f"http://127.0.0.1:{_port(self.web_listener)}/")
        self.oracle_url = f"http://127.0.0.1:{_port(self.oracle_listener)}"
        self.stack.environment |= {
            "DJANGO_SETTINGS_MODULE": "tests.matrix.settings",
            "SIGNALBOX_OUTSIDE_URL": self.oracle_url,
        }

    # ── processes ───────────────────────────────────────────────────────────────

    def tend(self) -> None:
        """Start what does not run. Does not wait until it answers."""
        for process in [worker for worker in self.workers if worker.child.has_ended()]:
            self.workers.remove(process)
            process.child.collect()
        while len(self.workers) < WORKERS:
            number = len(self.stack.processes)
            node = f"matrix-{number}-{os.getpid()}@{socket.gethostname()}"
            self.workers.append(self.stack._start(programs.worker(f"worker-{number}", node, self.environment, POOL)))
        for name, program in self._single_programs().items():
            running = self.single.get(name)
            if running is None or running.child.has_ended():
                if running is not None:
                    running.child.collect()
                self.single[name] = self.stack._start(program)

    @property
    def lease(self) -> float:
        """How long a lease lasts, in seconds."""
        return float(self.environment[TTL])

    @property
    def environment(self) -> dict[str, str]:
        """What the processes get."""
        return self.stack.environment

    def _single_programs(self) -> dict[str, Program]:
        listener, log = self.oracle_listener.fileno(), str(self.oracle_log)
        argv = (sys.executable, "-m", "tests.matrix.oracle", "--log", log, "--descriptor", str(listener))
        watcher = {"watcher": programs.watcher(self.environment)} if self.watching else {}
        return {
            "oracle": Program("oracle", argv, self.environment, inherited=(listener,)),
            "web": programs.web(self.web_listener.fileno(), self.environment),
            "beat": programs.beat(self.environment),
            **watcher,
        }

    def watch(self, wanted: bool) -> None:
        """With a watcher a dead worker's runs go on at once; without one their leases expire."""
        self.watching = wanted
        if not wanted and "watcher" in self.single:
            self.single.pop("watcher").kill()

    def wait_ready(self) -> None:
        """Wait until the web server answers and every worker has taken a hint."""
        self.tend()
        wait_until(
            lambda: not self.doors.ask(self.people[0], "GET", "runs/").result().unknown, "the web answers", PATIENCE
        )

    def wait_idle(self) -> None:
        """Wait until no worker has a task any more: what stood still has woken up and given up."""
        wait_until(lambda: not self.busy(), "the workers are idle", PATIENCE)

    def busy(self) -> list[str]:
        """What the workers have in hand, and those that do not answer."""
        self.tend()
        nodes = [worker.child.program.argv[-2] for worker in self.workers]
        with current_app.connection_for_write() as broker:
            asked = current_app.control.inspect(destination=nodes, timeout=5, connection=broker)
            answers = [asked.active() or {}, asked.reserved() or {}]
        return [f"{node}: {answer.get(node)}" for answer in answers for node in nodes if answer.get(node) != []]

    def where_it_hangs(self) -> str:
        """What the workers have in hand, and where: each busy process writes its stacks to its worker's log."""
        with current_app.connection_for_write() as broker:
            active = current_app.control.inspect(timeout=5, connection=broker).active() or {}
        pids = [task["worker_pid"] for tasks in active.values() for task in tasks]
        states = [f"{pid} is {_state(pid)}" for pid in pids]
        for pid in pids:
            os.kill(pid, signal.SIGUSR2)
        logs = [worker.log() for worker in self.workers]
        wait_until(lambda: [worker.log() for worker in self.workers] != logs or not pids, "the stacks are written", 5)
        return "\n".join([*self.busy(), *states, *(worker.log()[-6000:] for worker in self.workers)])

    def history(self, memory: Memory) -> History:
        """Everything that the checker reads."""
        return self.history_of(self.people, memory)

    def history_of(self, people: Sequence[Person], memory: Memory) -> History:
        """The same for the tenants of these people only."""
        tenants = [person.tenant_id for person in people]
        return History(tenants, self.oracle_events(), list(self.doors.log.entries), memory)

    def tree_of(self, pid: int) -> Process:
        """The program that a process belongs to: itself, or the worker whose pool it is in."""
        for process in [*self.workers, *self.single.values()]:
            if process.child.process is not None and process.child.pid in (pid, parent_of(pid)):
                return process
        raise AssertionError(f"process {pid} is none of the matrix")

    # ── what was ordered, and who took it ───────────────────────────────────────

    def hold_at(self, point: str, subject: str, about: str) -> str:
        """Have the process that works for `about` stand still at a point; the order's name, for `taken`."""
        name = f"{point}@{subject}@@{about}" if subject else f"{point}@@{about}"
        for before in self.stack.fault_dir.glob(f"{name}.hit.*"):
            before.unlink()  # whoever took the same order earlier went on long ago
        return self._order(name, "STOP")

    def _order(self, name: str, action: str) -> str:
        unfinished = self.stack.folder / f"order-{uuid4().hex}"
        unfinished.write_text(action)
        unfinished.rename(self.stack.fault_dir / name)
        return name

    def taken(self, name: str) -> int | None:
        """The process that took an order and stands still now, or None. What it takes it names first, and stops then: a
        SIGCONT in between would be lost.
        """
        if (self.stack.fault_dir / name).exists():
            return None
        hits = list(self.stack.fault_dir.glob(f"{name}.hit.*"))
        if not hits:
            return None
        pid = int(hits[0].name.rpartition(".")[2])
        return pid if self.stands(pid) or _state(pid) in ("Z", "") else None

    @staticmethod
    def stands(pid: int) -> bool:
        """Whether a process stands still."""
        return _state(pid) == "T"

    def plant(self, name: str, *abouts: str) -> None:
        """Have the processes break one rule wherever they work for one of these (see tests.matrix.plants)."""
        for about in abouts:
            self._order(f"plant-{name}@@{about}", "")

    def cancel(self, name: str) -> bool:
        """Take an order back. False: somebody has taken it just now."""
        try:
            (self.stack.fault_dir / name).unlink()
        except FileNotFoundError:
            return False
        return True

    # ── faults ──────────────────────────────────────────────────────────────────

    def kill(self, pid: int, *, tree: bool) -> None:
        """F1: SIGKILL the process, or the whole program that it belongs to. Another cell may have killed it just before."""
        if parent_of(pid) is None:
            return
        if tree:
            os.killpg(self.tree_of(pid).child.pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)

    def go_on(self, pid: int) -> None:
        """SIGCONT, if it is still there."""
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return

    def end_sessions(self, pid: int) -> int:
        """F3: end every database session of a process. Returns how many it had."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE %s",
                [f"{session_name(pid)}%"],
            )
            return int(cursor.fetchone()[0])

    def lose_next_ack(self, pid: int) -> str:
        """F4: the process's next commit succeeds, and it does not hear of it. The order's name, for `cancel`."""
        return self._order(f"commit_ack_lost@{pid}", "LOSE")

    @contextmanager
    def store_failing(self, rate: float, seed: int) -> Iterator[None]:
        """Meanwhile every unit of work of every process fails at this rate."""
        told = self.stack.fault_dir / RATE_FILE
        told.write_text(json.dumps({"rate": rate, "seed": seed}))
        try:
            yield
        finally:
            told.unlink()

    def store_strikes(self) -> list[dict[str, Any]]:
        """Which fault struck whose work."""
        struck = self.stack.fault_dir / STRIKES_FILE
        return [json.loads(line) for line in struck.read_text().splitlines()] if struck.exists() else []

    def kill_database(self) -> None:
        """F5: SIGKILL the postmaster. Whoever waits for `start_database` finds nobody."""
        connection.close()
        database = self.stack.services.database
        database.send(signal.SIGKILL)
        wait_until(database.has_ended, "the postmaster ends")
        database.collect()

    def start_database(self) -> None:
        """Start it again and wait until it answers. What its killed parent left goes away only after a moment."""
        services = self.stack.services

        def answers() -> bool:
            if services.database.has_ended():
                if services.database.process is not None:
                    services.database.collect()
                services.database.start()
            return services.cluster.answers()

        wait_until(answers, "PostgreSQL answers again", PATIENCE)

    # ── the oracle ──────────────────────────────────────────────────────────────

    @property
    def oracle_log(self) -> Path:
        """What it really did."""
        return self.stack.folder / "oracle.jsonl"

    def oracle_events(self) -> list[dict[str, Any]]:
        """Its log so far."""
        return list(read_log(self.oracle_log))

    def found(self, key: str) -> dict[str, int]:
        """How often the oracle executed a key, and how many requests for it are held back."""
        found: dict[str, int] = self._oracle(f"/find?key={key}")
        return found

    def release(self) -> None:
        """Let it execute what it holds back."""
        self._oracle("/release", b"{}")

    def _oracle(self, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(urllib.request.Request(f"{self.oracle_url}{path}", body), timeout=10) as answer:
            return json.load(answer)

    # ── the end ─────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Free the sockets and threads; the stack ends the processes."""
        self.doors.close()
        self.oracle_listener.close()
        self.web_listener.close()


def _state(pid: int) -> str:
    """The state of a process as the kernel names it (T: stopped, Z: ended), or "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def strangers(roles: Collection[Role] = EVERYTHING) -> tuple[Person, Person]:
    """Two tenants, each with one person who may do everything, or what these roles may."""
    first, second = (_person(f"tenant-{uuid4().hex[:8]}", roles) for _ in range(2))
    return first, second


def _person(name: str, roles: Collection[Role]) -> Person:
    tenant = tenant_create(slug=name, name=name)
    member_set(tenant=tenant, username=name, password=None, roles=frozenset(roles))
    membership = Membership.objects.get(tenant=tenant, user__username=name)
    return Person(name, tenant.id, token_create(membership=membership, name="matrix"))


@contextmanager
def running_stage(stack: Stack) -> Iterator[Stage]:
    """Everything started and answering. The processes are ended by the stack's owner."""
    stage = Stage(stack)
    try:
        stage.people += strangers()
        stage.wait_ready()
        yield stage
    finally:
        stage.close()


def durable(stack: Stack, database: str) -> None:
    """Have commits of a database survive a kill of the postmaster; the tests' server is otherwise set for speed."""
    with psycopg.connect(stack.services.cluster.url("postgres"), autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {database} SET synchronous_commit = on".encode())
