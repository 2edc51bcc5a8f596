"""`make bench-pages`: what each page costs at the size of production, on a database that `manage.py seed_load` has filled.

The first time it makes the database, which takes some minutes; it is kept in the folder for the next time. Each page is asked
for so often of a real web server on this machine, after two that warm it up. What the database took is what it says itself
(`pg_stat_statements`), planning included.
"""

import argparse
import http.client
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from bench.seeded_pages import other_pages, pages_of_lists
from bench.server import SETTINGS, running_cluster
from bench.tables import title
from bench.web import Web, running_web

QUERIES, P95_MS, WEIGHT = 12, 100.0, 100_000
DATABASE_MS = 5.0  # P11: of lists, the inbox and the time axis, at the 95th percentile, from the first page to the last
WARM = 2  # askings before those that count
PASSWORD = "seeded-operator-1"  # noqa: S105  of a database that holds nothing


@dataclass(frozen=True)
class Spread:
    """The least, the median and the 95th percentile of what was measured."""

    least: float
    p50: float
    p95: float

    @classmethod
    def of(cls, found: Sequence[float]) -> "Spread":
        """That of two figures or more."""
        return cls(min(found), statistics.median(found), statistics.quantiles(found, n=20, method="inclusive")[18])


@dataclass(frozen=True)
class Cost:
    """What one page took: statements; milliseconds by the clock, of the web process and of the database; bytes as they travel.
    Where others use the machine, the least time of the process says most.
    """

    name: str
    queries: int
    clock: Spread
    cpu: Spread
    database: Spread
    weight: int
    is_listed: bool

    @property
    def over(self) -> str:
        """Which limits it misses, as marks behind its line."""
        missed = {
            "queries": self.queries > QUERIES,
            "p95": self.clock.p95 > P95_MS,
            "database": self.is_listed and self.database.p95 > DATABASE_MS,
            "weight": self.weight > WEIGHT,
        }
        return " ".join(name for name, is_over in missed.items() if is_over)


class Meter:
    """What the server did for one database, asked from another one, so that asking counts for nothing."""

    def __init__(self, url: str, database: str) -> None:
        self._session = psycopg.connect(url, autocommit=True)
        self._session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self._database = database

    def read(self) -> tuple[int, float]:
        """The statements so far that sessions have sent, and the milliseconds that planning and executing them took."""
        row = self._session.execute(
            "SELECT coalesce(sum(s.calls), 0), coalesce(sum(s.total_exec_time + s.total_plan_time), 0) "
            "FROM pg_stat_statements(false) s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = %s AND s.toplevel",
            [self._database],
        ).fetchone()
        if row is None:
            raise LookupError("the server gave no counts")
        return int(row[0]), float(row[1])


@contextmanager
def seeded(folder: Path, sizes: Mapping[str, int]) -> Iterator[Meter]:
    """A server on the data in `folder`, with Django set up on it. An empty one is migrated and filled first."""
    folder.mkdir(parents=True, exist_ok=True)
    with running_cluster(folder, SETTINGS | {"pg_stat_statements.track_planning": "on"}) as cluster:
        cluster.create_database("signalbox")
        _set_up(cluster.url("signalbox"), folder)
        _fill(sizes)
        yield Meter(cluster.url("postgres"), "signalbox")


def _set_up(url: str, folder: Path) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="console.settings",
        SIGNALBOX_DATABASE_URL=url,
        SIGNALBOX_VAR_DIR=str(folder),
        SIGNALBOX_DB_POOL="true",
        SIGNALBOX_ALLOWED_HOSTS="127.0.0.1,testserver",
        SIGNALBOX_BROKER_URL="memory://",
        SIGNALBOX_LOG_LEVEL="WARNING",
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


@dataclass(frozen=True)
class Asking:
    """One answer, and what it took by each clock, in milliseconds."""

    clock: float
    cpu: float
    database: float
    queries: int
    content: bytes


@dataclass(frozen=True)
class Reader:
    """A signed-in browser, as far as a benchmark needs one, at one web server and its database."""

    web: Web
    cookie: str
    meter: Meter

    def ask(self, session: http.client.HTTPConnection, path: str) -> Asking:
        """Ask for a page once. Raises LookupError where it does not answer with itself."""
        sent, served = self.meter.read()
        worked, began = self.web.cpu_ms, time.perf_counter()
        session.request("GET", path, headers={"Cookie": f"sessionid={self.cookie}", "Accept-Encoding": "gzip"})
        answer = session.getresponse()
        content = answer.read()
        clock, cpu = (time.perf_counter() - began) * 1000, self.web.cpu_ms - worked
        if answer.status not in (200, 302):
            raise LookupError(f"{path} answered {answer.status}")
        sent_by_then, served_by_then = self.meter.read()
        return Asking(clock, cpu, served_by_then - served, sent_by_then - sent, content)

    def cost(self, name: str, path: str, times: int, *, is_listed: bool) -> Cost:
        """What a page costs in so many askings."""
        with closing(http.client.HTTPConnection(urlsplit(self.web.url).netloc)) as session:
            found = [self.ask(session, path) for _ in range(times + WARM)][WARM:]
        return Cost(
            name,
            statistics.mode(one.queries for one in found),  # now and then the pool opens a session beside
            Spread.of([one.clock for one in found]),
            Spread.of([one.cpu for one in found]),
            Spread.of([one.database for one in found]),
            len(found[-1].content),
            is_listed,
        )


def slowest(client: Any, path: str) -> list[tuple[float, str]]:
    """The statements of a page with their milliseconds, the slowest first: where to begin mending. Without constant SQL, which
    passes Django's log.
    """
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as asked:
        client.get(path)
    return sorted(((float(one["time"]) * 1000, one["sql"]) for one in asked.captured_queries), reverse=True)


def main() -> None:
    """Print how much there is, a line for each page, and what of it misses a limit. Ends with 1 if one does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("var/bench/pages"), help="where the database is kept")
    parser.add_argument("--times", type=int, default=40, help="how often each page is asked for (%(default)s)")
    parser.add_argument("--only", default="", help="only pages whose name holds this, with their slowest statements")
    for name, size in {"runs": 200_000, "receipts": 2_000_000, "waits": 10_000, "events": 10_000}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    asked = parser.parse_args()
    sizes = {name: getattr(asked, name) for name in ("runs", "receipts", "waits", "events")}
    folder = asked.folder.resolve()
    with seeded(folder, sizes) as meter, running_web(folder) as web:
        raise SystemExit(_report(web, meter, asked.only, asked.times))


def _report(web: Web, meter: Meter, only: str, times: int) -> int:
    from django.test import Client

    from accounts.models import User
    from bench.seeded_pages import counted

    client = Client()
    client.force_login(User.objects.get(username="operator"))
    reader = Reader(web, client.cookies["sessionid"].value, meter)
    print(", ".join(f"{number:,} {what}" for what, number in counted().items()))
    heads = f"{'by the clock':>20}{'its processor':>18}{'database':>22}{'kB':>7}"
    title(f"{'least / median / 95th percentile, ms':36}{'queries':>8}{heads}")
    missed = 0
    for is_listed, found in ((True, pages_of_lists()), (False, other_pages())):
        for name, path in found:
            if only not in name:
                continue
            one = reader.cost(name, path, times, is_listed=is_listed)
            missed += bool(one.over)
            print(_line(one), flush=True)
            if only:
                for ms, sql in slowest(client, path)[:5]:
                    print(f"    {ms:8.1f} ms  {sql[:2000]}")
    return 1 if missed else 0


def _line(one: Cost) -> str:
    times = f"{_said(one.clock, 0):>20}{_said(one.cpu, 0):>18}{_said(one.database, 1):>22}"
    return f"{one.name:36}{one.queries:8}{times}{one.weight / 1000:7.1f}  {one.over}"


def _said(found: Spread, digits: int) -> str:
    return " / ".join(f"{one:.{digits}f}" for one in (found.least, found.p50, found.p95))


if __name__ == "__main__":
    main()
