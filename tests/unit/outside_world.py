"""A real outside world for tests: its own process, its own store."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from console.environment import BASE_DIR
from tests.waiting import wait_until


@dataclass
class OutsideWorld:
    """A running outside world. `folder` keeps its store, so that it can be started again on the same one."""

    url: str
    process: subprocess.Popen[bytes]

    def control(self, **wanted: Any) -> None:
        httpx.post(f"{self.url}/control", json=wanted, trust_env=False).raise_for_status()

    def counts(self) -> dict[str, Any]:
        counts: dict[str, Any] = httpx.get(f"{self.url}/counts", trust_env=False).json()
        return counts

    def executions(self, key: str) -> int:
        executed: int = self.counts()["wiki"]["keys"].get(key, 0)
        return executed

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def outside_world(folder: Path) -> Iterator[OutsideWorld]:
    """Start one with its store in `folder`, wait until it answers, and end it with SIGTERM."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "outside", "--port", "0"]
    command += ["--store", str(folder / "outside.sqlite3"), "--ready-file", str(ready)]
    process = subprocess.Popen(command, cwd=BASE_DIR)
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, "the outside world answers")
        assert process.poll() is None, "the outside world ended at its start"
        yield OutsideWorld(json.loads(ready.read_text())["url"], process)
    finally:
        process.terminate()
        process.wait(timeout=10)
