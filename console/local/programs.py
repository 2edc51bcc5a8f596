"""The programs that make up Signalbox on one machine: their command lines, and how each of them is stopped."""

import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from console.environment import BASE_DIR

# A worker lets the calls in flight answer or time out; the longest of the tour's tools is given up after this time.
DRAIN_SECONDS = 20.0

# Waves of stopping: what uses a service goes before the service.
OURS, SERVICES, DATABASE = range(3)


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Program:
    """How to run one process. `before_start` runs in the parent before every start, `in_child` in the fork before exec.

    `death_signal` is what the kernel sends it when the supervisor dies; `user` is the uid to run as (None: our own);
    `attempts` is how often it may end by itself while everything is being started.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    wave: int = OURS
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGKILL
    stop_seconds: float = 6.0
    attempts: int = 1
    user: int | None = None
    inherited: tuple[int, ...] = ()
    before_start: Callable[[], None] = _nothing
    in_child: Callable[[], None] = _nothing


def management(name: str, *arguments: str, environment: Mapping[str, str]) -> Program:
    """A management command that runs to its end, such as `migrate`."""
    return Program(name, (sys.executable, str(BASE_DIR / "manage.py"), *arguments), environment)


def web(descriptor: int, environment: Mapping[str, str]) -> Program:
    """The web server on a listening socket that the supervisor keeps, so a restart refuses no connection."""
    argv = (sys.executable, "-m", "console.local.web", str(descriptor))
    return Program("web", argv, environment, inherited=(descriptor,))


def worker(name: str, node: str, environment: Mapping[str, str], concurrency: int = 2, queue: str = "") -> Program:
    """One Celery worker with a pool of `concurrency` processes. `node` is its unique Celery name, `NAME@HOST`. Without a
    `queue` it takes runs.
    """
    module = (sys.executable, "-m", "console.local.celery_process")
    argv = (*module, "worker", node, str(concurrency), *([queue] if queue else []))
    # Django's system checks load every page and serializer, which a worker does not need; `make check` runs them.
    return Program(name, argv, {**environment, "CELERY_SKIP_CHECKS": "1"}, stop_seconds=DRAIN_SECONDS)


def beat(environment: Mapping[str, str]) -> Program:
    """The clock that makes workers sweep, which re-sends hints."""
    return Program("beat", (sys.executable, "-m", "console.local.celery_process", "beat"), environment)


def watcher(environment: Mapping[str, str]) -> Program:
    """The watcher, which has the runs of a worker that dies taken over at once."""
    return management("watcher", "watch", environment=environment)


def outside(store: Path, ready_file: Path, environment: Mapping[str, str], port: int = 0) -> Program:
    """The tour's outside world. It writes {"url": ...} to `ready_file` when it answers; port 0 is any free one."""
    argv = (
        *(sys.executable, "-m", "outside", "--port", str(port)),
        *("--store", str(store), "--ready-file", str(ready_file)),
    )
    forget = partial(ready_file.unlink, missing_ok=True)
    return Program("outside", argv, environment, wave=SERVICES, before_start=forget)
