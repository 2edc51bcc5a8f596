"""Operations back to back in N processes: rates, latencies, and CPU for each operation on both sides.

Wall-clock on a shared machine says little by itself: only ratios of rounds that ran side by side count, and CPU.
"""

import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

Operation = Callable[[], None]
Opening = Callable[[str], Operation]

_START_SECONDS = 120.0


@dataclass(frozen=True)
class Load:
    """What one round of a contender gave. `client_ms` and `server_ms` are CPU for each operation."""

    per_second: float
    count: int
    client_ms: float
    server_ms: float


@dataclass(frozen=True)
class _Part:
    count: int
    seconds: float
    cpu: float


def closed_loop(opening: Opening, dsn: str, *, workers: int, seconds: float, warm: int, postmaster: int) -> Load:
    """Run a contender's operation in `workers` processes for `seconds` each."""
    forked = multiprocessing.get_context("fork")
    ready, parts = forked.Barrier(workers + 1), forked.Queue()
    processes = [
        forked.Process(target=_work, args=(opening, dsn, seconds, warm, ready, parts), daemon=True)
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    ready.wait(_START_SECONDS)
    before = _server_cpu(postmaster)
    done: list[_Part] = [parts.get(timeout=seconds + _START_SECONDS) for _ in processes]
    server = _server_cpu(postmaster) - before
    for process in processes:
        process.join()
    count = sum(part.count for part in done)
    return Load(
        per_second=sum(part.count / part.seconds for part in done),
        count=count,
        client_ms=1e3 * sum(part.cpu for part in done) / count,
        server_ms=1e3 * server / count,
    )


def _work(opening: Opening, dsn: str, seconds: float, warm: int, ready: Barrier, parts: "Queue[_Part]") -> None:
    try:
        operation = opening(dsn)
        for _ in range(warm):
            operation()
    except BaseException:
        ready.abort()
        raise
    ready.wait(_START_SECONDS)
    cpu, began, count = _own_cpu(), time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        operation()
        count += 1
    parts.put(_Part(count, time.perf_counter() - began, _own_cpu() - cpu))


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _server_cpu(postmaster: int) -> float:
    """CPU seconds of a PostgreSQL server so far: the postmaster, what it has reaped, and its children."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(stat.parent.name) == postmaster:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == postmaster:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")
