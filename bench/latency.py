"""How long people wait: from a decision to the call that it allows, and from the death of a worker to the next one.

Real worker processes, a real broker, the watcher. Times are those of commits, which the server keeps (COMMIT_TIMES).
"""

import os
import signal
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from bench.contenders import ours
from bench.parked import park
from bench.server import Server
from console.local import programs, valkey
from console.local.children import Child
from console.local.programs import Program
from console.local.readiness import workers_answer

T = TypeVar("T")

COMMIT_TIMES = {"track_commit_timestamp": "on"}
DECISIONS = 30
PARKED = 10_000
KILLS = 12
_PATIENCE_SECONDS = 60.0


def decision_latencies(server: Server, name: str) -> Iterator[tuple[str, str]]:
    """From the commit of a decision to that of the dispatch that it allows, through the queue and a worker. First while few
    runs wait, then while PARKED do; and what those hold of the machine.
    """
    with _stack(server, name) as stack:
        from approvals.models import Wait

        stack.start_worker("w1")
        stack.start_beat()
        runs = [ours.started(agent="asker") for _ in range(2 * DECISIONS + 1)]
        _until(lambda: Wait.objects.filter(status="OPEN").count() == len(runs))
        _until(_nobody_works)
        yield "decision to call", summary([_decided_to_sent(run_id) for run_id in runs[:DECISIONS]])
        before = stack.holds()
        park(stack.dsn, runs[-1], PARKED)
        held = stack.holds()
        yield f"{PARKED:,} parked waits hold", ", ".join(f"{held[kind] - before[kind]} {kind}" for kind in before)
        yield f"decision to call, {PARKED:,} parked", summary([_decided_to_sent(id) for id in runs[DECISIONS:-1]])


def _decided_to_sent(run_id: UUID) -> float:
    from approvals.models import Wait

    _until(_nobody_works)
    wait = Wait.objects.get(run_id=run_id)
    _approve(wait)
    _until(Wait.objects.filter(id=wait.id, status="CONSUMED").exists)
    return _milliseconds(_committed("approvals_decision", wait_id=wait.id), _committed("approvals_wait", id=wait.id))


def _nobody_works() -> bool:
    from runs.models import Lease

    return not Lease.objects.filter(owner__isnull=False).exists()


def takeover_latencies(server: Server, name: str) -> Iterator[tuple[str, str]]:
    """From a kill -9 of the worker that holds a run: to the lease of another process, and to its next step."""
    with _stack(server, name) as stack:
        from receipts.models import Attempt
        from runs.models import RunTransition

        stack.start_watcher()
        workers = [stack.start_worker("w0"), stack.start_worker("w1")]
        leases, steps = [], []
        for number in range(KILLS):
            run_id = ours.started(agent="lingerer")
            victim = _until(partial(_holder, run_id, workers))
            killed = datetime.now(tz=UTC)
            os.killpg(victim.pid, signal.SIGKILL)
            again = _until(Attempt.objects.filter(tool_call__run_id=run_id, attempt_no=2).first)
            took = RunTransition.objects.get(run_id=run_id, cause="TAKEOVER")
            leases.append(_milliseconds(killed, took.at))
            steps.append(_milliseconds(killed, again.dispatched_at))
            workers[workers.index(victim)] = stack.start_worker(f"w{number + 2}")
        yield "kill to lease", summary(leases)
        yield "kill to step", summary(steps)


def summary(taken: list[float]) -> str:
    """Median, 95th percentile and the longest."""
    ordered = sorted(taken)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return (
        f"p50 {statistics.median(ordered):,.1f} ms, p95 {p95:,.1f} ms, longest {ordered[-1]:,.1f} ms (n={len(ordered)})"
    )


class _Stack:
    """Worker processes on one database and one broker."""

    def __init__(self, dsn: str, folder: Path, environment: dict[str, str]) -> None:
        self.dsn = dsn
        self.folder = folder
        self.environment = environment
        self.children: list[Child] = []

    def start(self, program: Program) -> Child:
        child = Child(program, self.folder / f"{program.name}.log")
        child.start()
        self.children.append(child)
        return child

    def start_worker(self, name: str) -> Child:
        node = f"{name}-{os.getpid()}@{socket.gethostname()}"
        child = self.start(programs.worker(name, node, self.environment, concurrency=1))
        _until(lambda: workers_answer(self.environment["SIGNALBOX_BROKER_URL"], [node]))
        return child

    def start_watcher(self) -> Child:
        return self.start(programs.watcher(self.environment))

    def start_beat(self) -> Child:
        return self.start(programs.beat(self.environment))

    def holds(self) -> Counter[str]:
        """How many processes and threads the programs have, and sessions the database."""
        groups = {child.pid for child in self.children}
        threads = [count for group, count in _processes() if group in groups]
        return Counter(processes=len(threads), threads=sum(threads), sessions=_sessions())


@contextmanager
def _stack(server: Server, name: str) -> Iterator[_Stack]:
    dsn = server.fresh(name)
    folder = server.folder / name
    folder.mkdir()
    broker = server.folder / "run" / f"{name}.sock"
    url = valkey.url(broker)
    ours.prepare(dsn, broker=url)
    environment = {**os.environ, "SIGNALBOX_BROKER_URL": url, "SIGNALBOX_VAR_DIR": str(folder)}
    stack = _Stack(dsn, folder, environment)
    stack.start(valkey.program(broker, environment))
    _until(lambda: valkey.answers(broker))
    try:
        yield stack
    finally:
        for child in reversed(stack.children):
            if child.process is not None:
                child.send(signal.SIGKILL)
                child.collect()


def _processes() -> Iterator[tuple[int, int]]:
    """The process group and the number of threads of every process."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            yield int(fields[2]), int(fields[17])


def _sessions() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        found: int = cursor.fetchone()[0]
    return found


def _approve(wait: Any) -> None:
    """Decide a wait, as a page would."""
    from accounts.selectors import actor_named
    from approvals.services import Seen
    from approvals.states import DecisionVerdict
    from runtime.services import wait_decide

    seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
    actor = actor_named(username=ours.PERSON, door="command")
    wait_decide(actor=actor, wait_id=wait.id, verdict=DecisionVerdict.APPROVE, seen=seen, reason="bench")


def _committed(table: str, **key: UUID) -> datetime:
    """When the present version of a row was committed."""
    from django.db import connection

    ((column, id),) = key.items()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_xact_commit_timestamp(xmin) FROM {table} WHERE {column} = %s", [id])
        found: datetime = cursor.fetchone()[0]
    return found


def _milliseconds(since: datetime, until: datetime) -> float:
    return 1e3 * (until - since).total_seconds()


def _holder(run_id: UUID, workers: list[Child]) -> Child | None:
    """The worker whose pool process holds a run that is in the middle of its call."""
    from receipts.models import Attempt
    from runs.models import Lease

    if not Attempt.objects.filter(tool_call__run_id=run_id).exists():
        return None
    owner = Lease.objects.get(run_id=run_id).owner or ""
    pid = int(owner.rsplit("-", 1)[1])
    return next((worker for worker in workers if os.getpgid(pid) == worker.pid), None)


def _until(found: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (value := found()):
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not come")
        time.sleep(0.002)
    return value
