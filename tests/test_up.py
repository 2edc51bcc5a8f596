"""`manage.py up` as a person meets it: started, looked at, killed in parts and as a whole, stopped."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from console.environment import BASE_DIR, PREFIX
from tests.waiting import wait_until

pytestmark = pytest.mark.process
START_SECONDS = 240.0  # a slow machine takes its time for the tables
STOP_SECONDS = 30


@dataclass
class Up:
    """One `up` in a var folder of its own. Every process of it carries that folder in its environment."""

    folder: Path
    process: "subprocess.Popen[str] | None" = None

    @property
    def ready_file(self) -> Path:
        return self.folder / "ready.json"

    @property
    def environment(self) -> dict[str, str]:
        foreign = (PREFIX, "DJANGO_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {**kept, "SIGNALBOX_VAR_DIR": str(self.folder / "var")}

    def manage(self, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(BASE_DIR / "manage.py"), *arguments]
        return subprocess.Popen(
            command,
            cwd=BASE_DIR,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ask(self, code: str) -> str:
        """What a line of Python prints in a second shell that knows nothing but the var folder."""
        return self.manage("shell", "-v0", "-c", code).communicate(timeout=STOP_SECONDS)[0]

    def start(self, *arguments: str) -> dict[str, str]:
        """Start it and wait for the ready file; its content."""
        self.ready_file.unlink(missing_ok=True)
        self.process = self.manage("up", "--port", "0", "--ready-file", str(self.ready_file), *arguments)
        wait_until(lambda: self.ready_file.exists() or self.ended(), "up is ready", START_SECONDS)
        assert not self.ended(), self.output()
        ready: dict[str, str] = json.loads(self.ready_file.read_text())
        return ready

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def output(self) -> str:
        assert self.process is not None
        return self.process.communicate(timeout=STOP_SECONDS)[0]

    def end(self, signum: signal.Signals) -> tuple[int, str]:
        """Send a signal to the supervisor alone; its exit code and all it said."""
        assert self.process is not None
        self.process.send_signal(signum)
        output = self.output()
        return self.process.returncode, output

    def processes(self) -> dict[int, str]:
        """Process id to command line, of everything that this `up` started and that still runs.

        The broker writes its title over its environment, but names the folder there.
        """
        var_dir = str(self.folder / "var").encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                environment = (folder / "environ").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if var_dir in command or b"SIGNALBOX_VAR_DIR=" + var_dir in environment:
                found[int(folder.name)] = command.replace(b"\0", b" ").decode()
        return found

    def has_another(self, what: str, killed: int) -> bool:
        """Whether a process other than the killed one has such a command line, and that one is gone."""
        now = self.processes()
        return killed not in now and any(what in command for command in now.values())

    def main_process(self, what: str) -> int:
        """The process id of the child whose command line holds a text: the oldest, as pool processes look alike."""
        return min(pid for pid, command in self.processes().items() if what in command)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    started = Up(tmp_path)
    yield started
    if not started.ended():
        started.end(signal.SIGTERM)
    wait_until(lambda: not started.processes(), "nothing is left")


def answers(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


PARTS = (
    "console.local.web",
    "celery_process worker",
    "celery_process beat",
    "manage.py watch",
    "bin/postgres",
    "valkey-",
    "-m outside",
)


def test_one_command_starts_everything_and_a_signal_stops_it(up: Up) -> None:
    ready = up.start("--no-tour")
    assert up.ready_file.stat().st_mode & 0o777 == 0o600
    assert ready["username"] == "operator" and len(ready["password"]) >= 12
    assert answers(f"{ready['url']}sign-in/") == 200
    assert answers(f"{ready['url']}healthz") == 200
    assert up.ask("from accounts.models import User; print(User.objects.get().username)") == "operator\n"

    second = up.manage("up", "--port", "0")
    said = second.communicate(timeout=STOP_SECONDS)[0]
    assert second.returncode == 1 and f"as process {up.process.pid if up.process else 0}" in said

    port = ready["url"].rsplit(":", 1)[1].strip("/")
    elsewhere = Up(up.folder / "other").manage("up", "--port", port)
    said = elsewhere.communicate(timeout=STOP_SECONDS)[0]
    assert elsewhere.returncode == 1 and f"port {port}: Address already in use" in said and "--port 0" in said

    code, output = up.end(signal.SIGTERM)
    assert code == 0 and ready["url"] in output and ready["password"] in output
    assert not up.processes()
    assert not up.ready_file.exists()


def test_the_tour_runs_until_it_needs_a_person_and_only_once(up: Up) -> None:
    statuses = "from runs.models import Run; print(*Run.objects.values_list('status', flat=True))"
    up.start("--workers", "1")
    wait_until(lambda: up.ask(statuses) == "WAITING\n", "the tour's run waits for an approval", START_SECONDS)
    assert up.end(signal.SIGINT)[0] == 0
    up.start("--workers", "1")
    assert up.ask(statuses) == "WAITING\n"


def test_killed_parts_come_back_and_a_killed_whole_does_not_hinder_the_next(up: Up) -> None:
    first = up.start("--no-tour", "--workers", "1")
    for part in PARTS:
        killed = up.main_process(part)
        os.kill(killed, signal.SIGKILL)
        wait_until(partial(up.has_another, part, killed), f"{part} is back")
    wait_until(lambda: answers(f"{first['url']}healthz") == 200, "the page answers")

    _, output = up.end(signal.SIGKILL)
    assert output.count("ended (signal SIGKILL). It is started again.") == len(PARTS)
    second = up.start("--no-tour")
    assert second["password"] == first["password"]
    assert answers(f"{second['url']}healthz") == 200
    assert sum("console.local.web" in command for command in up.processes().values()) == 1
