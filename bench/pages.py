"""`make bench-pages`: what each page costs at the size of production, on a database that `manage.py seed_load` has filled.

The first time it makes the database, which takes some minutes; it is kept in the folder for the next time. Each page is asked
for so often in this process, after one that warms it up: the view, its statements and its template, without the network.
"""

import argparse
import os
import statistics
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.server import SETTINGS, running_cluster
from bench.tables import title

QUERIES, P95_MS, WEIGHT = 12, 100.0, 100_000
PASSWORD = "seeded-operator-1"  # noqa: S105  of a database that holds nothing


@dataclass(frozen=True)
class Cost:
    """What one page took: statements, times in milliseconds (`cpu` of this process alone, which no busy machine changes), bytes
    of its HTML as gzip sends them.
    """

    name: str
    path: str
    queries: int
    cpu: float
    p50: float
    p95: float
    weight: int

    @property
    def over(self) -> str:
        """Which limits it misses, as marks behind its line."""
        missed = {"queries": self.queries > QUERIES, "p95": self.p95 > P95_MS, "weight": self.weight > WEIGHT}
        return " ".join(name for name, is_over in missed.items() if is_over)


@contextmanager
def seeded(folder: Path, sizes: Mapping[str, int]) -> Iterator[None]:
    """A server on the data in `folder`, with Django set up on it. An empty one is migrated and filled first."""
    folder.mkdir(parents=True, exist_ok=True)
    with running_cluster(folder, SETTINGS) as cluster:
        cluster.create_database("signalbox")
        _set_up(cluster.url("signalbox"), folder)
        _fill(sizes)
        yield


def _set_up(url: str, folder: Path) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="console.settings",
        SIGNALBOX_DATABASE_URL=url,
        SIGNALBOX_VAR_DIR=str(folder),
        SIGNALBOX_DB_POOL="true",
        SIGNALBOX_ALLOWED_HOSTS="testserver",
        SIGNALBOX_TOUR_PASSWORD=PASSWORD,
    )
    import django

    django.setup()


def _fill(sizes: Mapping[str, int]) -> None:
    from django.core.management import call_command

    from runs.models import Run

    call_command("migrate", interactive=False, verbosity=0)
    if not Run.objects.exists():
        call_command("seed_load", **sizes)


def pages() -> Iterator[tuple[str, str]]:
    """Each page with a name: lists from their first and a far place, and single things as they are found."""
    from approvals.models import Wait
    from receipts.models import Report, ToolCall
    from runs.models import Run

    long = Run.objects.get(id=Run.objects.filter(status="RUNNING").order_by("-created_at").values("id")[:1])
    ended = Run.objects.filter(status="COMPLETED").order_by("-created_at")[100]
    wait, call = Wait.objects.filter(status="OPEN").order_by("deadline")[50], ToolCall.objects.filter(run=ended).last()
    report = Report.objects.first()
    assert call is not None and report is not None  # noqa: S101, PT018  the seeded database has them
    yield from (("overview", "/"), ("inbox", "/inbox/"), ("inbox, one kind", "/inbox/?kind=approvals"))
    yield from (("runs", "/runs/"), ("runs, one status", "/runs/?status=COMPLETED"))
    yield from (("runs, words", "/runs/?q=larch"), ("search, a tail", f"/search/?q={str(ended.id)[-6:]}"))
    yield from (("waits", "/waits/"), ("calls", "/calls/"), ("calls of unknown outcome", "/calls/?unknown=yes"))
    yield from (
        ("runs, spent over 0.03 $", "/runs/?spend=0.03"),
        ("runs, a thread", f"/runs/?thread={ended.thread_id}"),
    )
    yield from (("run", f"/runs/{ended.id}/"), ("run of 10,000 events", f"/runs/{long.id}/"))
    yield from (("stop", f"/runs/{long.id}/stop/"), ("checkpoint", f"/runs/{ended.id}/checkpoints/1/"))
    yield from (("decision", f"/waits/{wait.id}/"), ("call", f"/calls/{call.id}/"))
    yield from (("reports", "/reports/"), ("report", f"/reports/{report.id}/"))
    yield from (("policies", "/policies/"), ("grants", "/grants/"), ("stops and pauses", "/scopes/"))
    yield from (("workspaces", "/workspaces/"), ("memory", "/memory/"), ("new run", "/runs/new/"))


def cost(client: Any, name: str, path: str, times: int) -> Cost:
    """What a page costs in so many askings. Raises LookupError where it does not answer with itself."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as asked:
        answer = client.get(path)
    queries = len(asked)  # before the next request empties the log
    if answer.status_code not in (200, 302):
        raise LookupError(f"{path} answered {answer.status_code}")
    timed = [_timed(client, path) for _ in range(times)]
    took, cpu = sorted(wall for wall, _ in timed), min(cpu for _, cpu in timed)
    p95 = statistics.quantiles(took, n=20, method="inclusive")[18]
    return Cost(name, path, queries, cpu, statistics.median(took), p95, len(zlib.compress(answer.content, 6)))


def _timed(client: Any, path: str) -> tuple[float, float]:
    began, worked = time.perf_counter(), time.process_time()
    client.get(path)
    return (time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000


def slowest(client: Any, path: str) -> list[tuple[float, str]]:
    """The statements of a page with their milliseconds, the slowest first: where to begin mending."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as asked:
        client.get(path)
    return sorted(((float(one["time"]) * 1000, one["sql"]) for one in asked.captured_queries), reverse=True)


def main() -> None:
    """Print a line for each page, and what of it misses a limit. Ends with 1 if one does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("var/bench/pages"), help="where the database is kept")
    parser.add_argument("--times", type=int, default=20, help="how often each page is asked for (%(default)s)")
    parser.add_argument("--only", default="", help="only pages whose name holds this, with their slowest statements")
    for name, size in {"runs": 200_000, "receipts": 2_000_000, "waits": 10_000, "events": 10_000}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    asked = parser.parse_args()
    sizes = {name: getattr(asked, name) for name in ("runs", "receipts", "waits", "events")}
    with seeded(asked.folder.resolve(), sizes):
        raise SystemExit(_report(asked.only, asked.times))


def _report(only: str, times: int) -> int:
    from django.test import Client

    from accounts.models import User

    client = Client()
    client.force_login(User.objects.get(username="operator"))
    title(f"{'page':28}{'queries':>8}{'cpu ms':>9}{'p50 ms':>9}{'p95 ms':>9}{'kB':>7}")
    missed = 0
    for name, path in pages():
        if only not in name:
            continue
        found = cost(client, name, path, times)
        missed += bool(found.over)
        print(
            f"{name:28}{found.queries:8}{found.cpu:9.1f}{found.p50:9.1f}{found.p95:9.1f}{found.weight / 1000:7.1f}  {found.over}",
            flush=True,
        )
        if only:
            for ms, sql in slowest(client, path)[:5]:
                print(f"    {ms:8.1f} ms  {sql[:2000]}")
    return 1 if missed else 0


if __name__ == "__main__":
    main()
