"""`make bench-viewers`: what a change costs one web process with many viewers, and how soon it is on a screen.

A real web server on a server of its own; the viewers are sockets of this process, which are told of a run and read nothing
else. The last part needs a Chromium, and is left out without one.
"""

import argparse
import os
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.latency import COMMIT_TIMES
from bench.server import Server, running_server
from bench.tables import line, title
from bench.tabs import Tabs, opened_tabs
from bench.web import Web, running_web

TARGET_MS, SCREEN_MS = 100.0, 1_000.0
EVENTS, APART_SECONDS, IDLE_SECONDS, CHANGES = 50, 0.25, 10.0, 40
PROBE_SECONDS = 1.5  # as static/js/line.js asks
USER, PASSWORD = "viewer", "a-long-enough-word"  # of a database that is gone with the benchmark


@dataclass(frozen=True)
class House:
    """A web server with one tenant, one person and one run. `cookie` is the person's session."""

    server: Server
    web: Web
    cookie: str
    tenant: Any
    run: Any

    def statements(self) -> int:
        """What the web server has asked of the database so far, its own session checks included."""
        return self.server.counts("viewers").statements

    @property
    def url(self) -> str:
        return self.web.url


@contextmanager
def house() -> Iterator[House]:
    """Everything started; stopped at the end."""
    with running_server(COMMIT_TIMES) as server:
        url = server.fresh("viewers")
        os.environ.update(
            DJANGO_SETTINGS_MODULE="console.settings",
            SIGNALBOX_DATABASE_URL=url,
            SIGNALBOX_BROKER_URL="memory://",
            SIGNALBOX_VAR_DIR=str(server.folder),
            SIGNALBOX_DB_POOL="true",
            SIGNALBOX_LOG_LEVEL="WARNING",
        )
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", interactive=False, verbosity=0)
        with running_web(server.folder) as web:
            tenant, run, cookie = _furnish()
            yield House(server, web, cookie, tenant, run)


def _furnish() -> tuple[Any, Any, str]:
    from django.test import Client

    from accounts.services import member_set, tenant_create
    from accounts.states import Role
    from runs.models import Run
    from runtime.services import StartRequest, Upload, run_start

    tenant = tenant_create(slug="viewers", name="Viewers")
    member = member_set(
        tenant=tenant, username=USER, password=PASSWORD, roles=frozenset({Role.OPERATOR, Role.APPROVER})
    )
    header = "date,fund,company,ticker,shares,market value($),weight(%)\n"
    sheet = (header + "2026-06-30,ALDR,NORTHWIND GRID CO,NWGC,100,6000,100.0\n").encode()
    wanted = StartRequest("fund_comparison", {"a": Upload("a.csv", sheet), "b": Upload("b.csv", sheet)})
    run_start(actor=_actor(), wanted=wanted)
    browser = Client()
    browser.force_login(member.user)
    return tenant, Run.objects.get(), browser.cookies["sessionid"].value


def _actor() -> Any:
    from accounts.selectors import actor_named

    return actor_named(username=USER, door="page")


def change(run: Any, number: int) -> float:
    """Pause or resume the run; when that was committed, by this machine's clock."""
    from django.db import connection

    from runtime.services import run_pause, run_resume

    act = run_resume if number % 2 else run_pause
    act(actor=_actor(), run_id=run.id, reason="a change")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM runs_run WHERE id = %s", [run.id]
        )
        return float(cursor.fetchone()[0])


# ── viewers ──


def viewers(home: House, count: int) -> None:
    """Print latencies and costs with so many viewers of one run."""
    with opened_tabs(home.url, home.cookie, [f"run:{home.run.id}"], count) as tabs:
        tabs.silence()
        _fan_out(home, tabs)
        _idle(home, tabs)


def _fan_out(home: House, tabs: Tabs) -> None:
    lasts, firsts = [], []
    before, worked, began = home.statements(), home.web.cpu_ms, time.monotonic()
    with ThreadPoolExecutor(1) as somebody:
        for number in range(EVENTS):
            committing = somebody.submit(change, home.run, number)
            first, last = tabs.first_and_last()
            committed = committing.result()
            firsts.append((first - committed) * 1000)
            lasts.append((last - committed) * 1000)
            time.sleep(APART_SECONDS)
        somebody.submit(_leave_database).result()
    spent, cpu, seconds = home.statements() - before, home.web.cpu_ms - worked, time.monotonic() - began
    line(f"{len(tabs.all)} viewers, first", _times(firsts))
    line(f"{len(tabs.all)} viewers, last", _times(lasts), f"target p95 {TARGET_MS:.0f} ms")
    line("", f"{cpu / EVENTS:.1f} ms CPU an event", f"{spent} statements here and there in {seconds:.0f} s")


def _leave_database() -> None:
    from django.db import connection

    connection.close()


def _idle(home: House, tabs: Tabs) -> None:
    """Tabs in view that hear nothing: each probes as line.js does."""
    before, worked, began = home.statements(), home.web.cpu_ms, time.monotonic()
    for number, tab in enumerate(cycle(tabs.all)):
        due = began + number * PROBE_SECONDS / len(tabs.all)
        if due > began + IDLE_SECONDS:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        tab.say({"probe": True})
        tab.hear()
    seconds = time.monotonic() - began
    asked, busy = (home.statements() - before) / seconds, (home.web.cpu_ms - worked) / seconds / 10
    line(f"{len(tabs.all)} idle in view", f"{asked:.1f} statements a second", f"{busy:.1f} % of a core")


# ── a screen ──


def screen(home: House) -> None:
    """Print how soon a change is on the screen of one browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = shutil.which("chromium") or playwright.chromium.executable_path
        if not Path(path).exists():
            line("no Chromium here")
            return
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.context.add_cookies([{"name": "sessionid", "value": home.cookie, "url": home.url}])
        page.goto(f"{home.url}runs/{home.run.id}/")
        page.wait_for_selector('[data-live-state="live"]')
        took = [_shown(page, home.run, number) for number in range(CHANGES)]
        line("commit to screen", _times(took), f"target p95 {SCREEN_MS:.0f} ms")
        browser.close()


def _shown(page: Any, run: Any, number: int) -> float:
    word = "QUEUED" if number % 2 else "HELD"
    page.evaluate(
        """word => { window.shown = new Promise(tell => new MutationObserver(() => {
            if (document.querySelector(".head .chip").textContent.includes(word)) requestAnimationFrame(() => tell(Date.now()));
        }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true })); }""",
        word,
    )
    committed = change(run, number)
    return float(page.evaluate("() => window.shown")) - committed * 1000


def _times(milliseconds: Sequence[float]) -> str:
    p95 = statistics.quantiles(milliseconds, n=20, method="inclusive")[18]
    return f"p50 {statistics.median(milliseconds):6.1f}  p95 {p95:6.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, nargs="+", default=[10, 1_000])
    wanted = parser.parse_args()
    with house() as home:
        title("From the commit of a change to whoever looks at its run, all in one web process (P10)")
        for count in wanted.viewers:
            viewers(home, count)
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # Playwright's loop stays in this thread
        screen(home)


if __name__ == "__main__":
    main()
