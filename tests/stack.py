"""The real processes on a database of their own: what a crash test kills, freezes and starts again."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis

from console import settings_test
from console.environment import BASE_DIR
from console.local import programs
from console.local.children import Child
from console.local.programs import Program
from console.local.readiness import page_answers, workers_answer
from tests.services import Services
from tests.waiting import wait_until


@dataclass
class Process:
    """One started program. Signals go to it and to what it forked, as the loss of a machine would."""

    child: Child
    name: str

    def kill(self) -> None:
        """SIGKILL the process alone, as `kill -9` does, and wait until all that it forked is gone with it."""
        self.child.send(signal.SIGKILL)
        self.wait_ended()

    def freeze(self) -> None:
        """SIGSTOP it and all that it forked. It keeps its sockets and its lease."""
        os.killpg(self.child.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT after `freeze`, or after a fault of kind STOP."""
        os.killpg(self.child.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to stop, as `up` does, and wait until it has."""
        self.child.send(self.child.program.stop_signal)
        self.wait_ended()

    def wait_ended(self) -> None:
        """Wait until it and all that it forked are gone."""
        group = self.child.pid
        wait_until(self.child.has_ended, f"{self.name} ends")
        wait_until(lambda: group_size(group) == 0, f"what {self.name} forked ends")
        self.child.collect()

    @property
    def node(self) -> str:
        """The Celery name, of a worker."""
        argv = self.child.program.argv
        return argv[argv.index("worker") + 1]

    def log(self) -> str:
        """What it has written so far."""
        return self.child.log.read_text(errors="replace")


def group_size(group: int) -> int:
    """How many processes of a group run. What has ended and waits to be reaped does not count."""
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        count += int(fields[2]) == group and fields[0] != "Z"
    return count


@dataclass
class Stack:
    """Starts real processes on one database, for one test. The broker is the run's, emptied first.

    `environment` holds what they get beside the settings of the tests; change it before a start.
    """

    services: Services
    database_url: str
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    url: str = ""
    outside_url: str = ""
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fault_dir.mkdir()
        self.environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "SIGNALBOX_DATABASE_URL": self.database_url,
            "SIGNALBOX_FAULT_DIR": str(self.fault_dir),
        }
        with redis.Redis(unix_socket_path=str(settings_test.BROKER_SOCKET)) as broker:
            broker.flushall()

    @property
    def fault_dir(self) -> Path:
        """Where orders to die or freeze at a fault point are put (see runs.faults)."""
        return self.folder / "faults"

    # ── starting ────────────────────────────────────────────────────────────────

    def start_worker(self, name: str = "", concurrency: int = 1, queue: str = "") -> Process:
        """Start a worker, of runs or of another queue, and wait until it answers."""
        return self._answering([self._worker(name or f"worker-{len(self.processes)}", concurrency, queue)])[0]

    def start_workers(self, count: int, concurrency: int) -> list[Process]:
        """Start workers of runs side by side, and wait until each answers."""
        return self._answering([self._worker(f"worker-{len(self.processes)}", concurrency) for _ in range(count)])

    def _worker(self, name: str, concurrency: int, queue: str = "") -> Process:
        node = f"{name}-{os.getpid()}@{socket.gethostname()}"
        return self._start(programs.worker(name, node, self.environment, concurrency, queue))

    def _answering(self, workers: list[Process]) -> list[Process]:
        for worker in workers:
            self._wait(worker, partial(workers_answer, self.environment["SIGNALBOX_BROKER_URL"], [worker.node]))
        return workers

    def start_beat(self) -> Process:
        """Start the clock that makes workers sweep."""
        return self._start(programs.beat(self.environment))

    def start_watcher(self) -> Process:
        """Start the watcher, which ends the leases of workers that die."""
        return self._start(programs.watcher(self.environment))

    def start_web(self) -> Process:
        """Start the web server on a free port and wait until it answers; `url` is its address, with a slash."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            process = self._start(programs.web(listener.fileno(), self.environment))
        self._wait(process, lambda: page_answers(f"{self.url}healthz"))
        return process

    def start_outside(self) -> Process:
        """Start the outside world with an empty store and wait for it; what starts afterwards knows its address."""
        ready_file = self.folder / "outside-ready.json"
        process = self._start(programs.outside(self.folder / "outside.sqlite3", ready_file, self.environment))
        self._wait(process, ready_file.exists)
        self.outside_url = json.loads(ready_file.read_text())["url"]
        self.environment["SIGNALBOX_OUTSIDE_URL"] = self.outside_url
        return process

    def _start(self, program: Program) -> Process:
        child = Child(program, self.folder / f"{program.name}.log")
        child.start()
        process = Process(child, program.name)
        self.processes.append(process)
        return process

    def _wait(self, process: Process, ready: Callable[[], object]) -> None:
        wait_until(lambda: ready() or process.child.has_ended(), f"{process.name} answers", seconds=60)
        assert not process.child.has_ended(), f"{process.name} ended:\n{process.child.last_lines()}"

    # ── acting ──────────────────────────────────────────────────────────────────

    def manage(self, *arguments: str, code: int = 0) -> str:
        """Run a management command in a process of its own; its standard output. Fails on another exit code."""
        done = subprocess.run(
            [sys.executable, str(BASE_DIR / "manage.py"), *arguments],
            cwd=BASE_DIR,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"manage.py {' '.join(arguments)} gave {done.returncode}:\n{done.stderr}"
        return done.stdout

    def manage_json(self, *arguments: str) -> Any:
        """The same with --json, parsed."""
        return json.loads(self.manage(*arguments, "--json"))

    def order(self, action: str, point: str, subject: str = "") -> str:
        """Have the next process that reaches a fault point KILL or STOP itself; the order's name, for `wait_hit`."""
        name = f"{point}@{subject}" if subject else point
        unfinished = self.folder / name
        unfinished.write_text(action)
        unfinished.rename(self.fault_dir / name)
        return name

    def wait_hit(self, name: str, seconds: float = 30.0) -> int:
        """Wait until a process has taken the order; its process id."""
        (hit,) = wait_until(lambda: list(self.fault_dir.glob(f"{name}.hit.*")), f"{name} is reached", seconds)
        return int(hit.name.rsplit(".", 1)[1])

    def close(self) -> None:
        """Kill everything that still runs."""
        for process in self.processes:
            if process.child.process is not None:
                os.killpg(process.child.pid, signal.SIGKILL)
                process.wait_ended()
