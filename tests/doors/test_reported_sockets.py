"""What users reported of live sockets of other systems, tried on a real web server: reconnects, connections, sessions that end."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import httpx
import psycopg
import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from accounts.models import User
from accounts.services import member_set
from accounts.states import Actor
from runs.consumers.hub import CHECK_SECONDS
from runs.models import Run
from runtime.services import run_pause, run_resume, run_stop
from tests.doors.tabs import Site, notify
from tests.doors.world import ALL
from tests.services import Services, cloned_database
from tests.stack import Stack
from tests.waiting import wait_until

pytestmark = pytest.mark.process
POOL = 20  # sessions that a web process may have, see console.environment.database
LISTENER = 1
AT_ONCE = 12  # few enough for a busy machine to answer before it gives up; a session that leaks with each would show all the same


@pytest.fixture(scope="module")
def pooled(
    services: Services, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A web server as production runs it: its sessions come from a pool."""
    with cloned_database(services) as url, django_db_blocker.unblock():
        stack = Stack(services, url, tmp_path_factory.mktemp("sockets"))
        stack.environment["SIGNALBOX_DB_POOL"] = "true"
        try:
            stack.start_web()
            with ExitStack() as opened:
                Site(stack.url, opened).warm_up()
            yield stack
        finally:
            stack.close()


@pytest.fixture
def site(pooled: Stack) -> Iterator[Site]:
    with ExitStack() as opened:
        yield Site(pooled.url, opened)


class Browser:
    """What a tab does without its screen: reads, hears that something changed, reads again; after a lost line it reads as well."""

    def __init__(self, site: Site, run: Run, cookie: str) -> None:
        self.site, self.run, self.cookie = site, run, cookie
        self.shown = ""
        self.lines = 0

    async def live(self, client: httpx.AsyncClient) -> None:
        """Until it shows that the run was cancelled; each line is lost after three messages."""
        while self.shown != "CANCELLED":
            async with open_line(self.site, self.cookie) as line:
                self.lines += 1
                await line.send(json.dumps({"subscribe": [f"run:{self.run.id}"]}))
                await self.read(client)
                await self.hear(line, client)

    async def hear(self, line: ClientConnection, client: httpx.AsyncClient) -> None:
        sequence = 0
        for _ in range(3):
            said = json.loads(await line.recv())
            if "seq" not in said:
                continue
            sequence += 1
            assert said["seq"] == sequence
            await self.read(client)
            if self.shown == "CANCELLED":
                return

    async def read(self, client: httpx.AsyncClient) -> None:
        path = f"{self.site.url}api/v1/runs/{self.run.id}/"
        answer = await client.get(path, headers={"Cookie": f"sessionid={self.cookie}"})
        self.shown = answer.json()["status"]


def open_line(site: Site, cookie: str) -> connect:
    """A socket as the browser with this cookie opens it."""
    return connect(
        site.url.replace("http://", "ws://") + "ws/live/",
        additional_headers={"Cookie": f"sessionid={cookie}"},
        origin=Origin(site.url.rstrip("/")),
        proxy=None,
        open_timeout=60,
        ping_interval=None,
    )


@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.matrix)])
def test_b72_whoever_comes_and_goes_all_the_time_ends_with_what_is_in_the_database(site: Site, count: int) -> None:
    run = site.run()
    actor = Actor(site.tenant.id, site.person.user.username, frozenset(site.person.roles))
    browsers = [Browser(site, run, site.cookie()) for _ in range(count)]

    def change(act: str) -> None:
        if act == "pause":
            run_pause(actor=actor, run_id=run.id, reason="a change")
        elif act == "resume":
            run_resume(actor=actor, run_id=run.id, reason="a change")
        else:
            run_stop(actor=actor, run_id=run.id, reason="a change")
        notify(run)
        connection.close()

    async def come_and_go() -> None:
        async with asyncio.timeout(240), httpx.AsyncClient(timeout=60) as client:
            living = [asyncio.create_task(browser.live(client)) for browser in browsers]
            for act in ("pause", "resume", "pause", "resume", "stop"):
                before = sum(browser.lines for browser in browsers)
                await asyncio.to_thread(change, act)
                while act != "stop" and sum(browser.lines for browser in browsers) < before + count:
                    await asyncio.to_thread(notify_again, run)
            await asyncio.gather(*living)

    asyncio.run(come_and_go())
    assert {browser.shown for browser in browsers} == {"CANCELLED"} == {Run.objects.get(id=run.id).status}
    assert sum(browser.lines for browser in browsers) >= 4 * count


def notify_again(run: Run) -> None:
    notify(run)
    connection.close()


@pytest.mark.parametrize(("requests", "sockets"), [(100, 50), pytest.param(1_000, 500, marks=pytest.mark.matrix)])
def test_b74_many_requests_and_sockets_take_no_more_sessions_than_the_pool_has(
    pooled: Stack, site: Site, requests: int, sockets: int
) -> None:
    cookie, run, most = site.cookie(), site.run(), 0
    watch = psycopg.connect(pooled.database_url, autocommit=True)
    connection.close()

    def sessions() -> int:
        found = watch.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
        assert found is not None
        return int(found[0])

    async def ask(client: httpx.AsyncClient, turn: asyncio.Semaphore) -> None:
        nonlocal most
        async with turn:
            answer = await client.get(f"{site.url}runs/{run.id}/", headers={"Cookie": f"sessionid={cookie}"})
            assert answer.status_code == 200
            most = max(most, sessions())

    async def hear(ready: asyncio.Barrier, turn: asyncio.Semaphore) -> None:
        async with AsyncExitStack() as opened:
            async with turn:
                line = await opened.enter_async_context(open_line(site, cookie))
                await line.send(json.dumps({"subscribe": [f"run:{run.id}"]}))
                while "subscribed" not in json.loads(await line.recv()):
                    pass
            await ready.wait()
            while json.loads(await line.recv()).get("id") != str(run.id):
                pass

    async def all_at_once() -> None:
        ready, turn = asyncio.Barrier(sockets + 1), asyncio.Semaphore(AT_ONCE)
        async with asyncio.timeout(550), httpx.AsyncClient(timeout=120) as client:
            hearing = [asyncio.create_task(hear(ready, turn)) for _ in range(sockets)]
            await ready.wait()
            await asyncio.gather(*(ask(client, turn) for _ in range(requests)))
            await asyncio.to_thread(notify_again, run)
            await asyncio.gather(*hearing)

    with watch:
        asyncio.run(all_at_once())
        assert 0 < most <= POOL + LISTENER


# ── sessions that end ──


@pytest.mark.parametrize("way", ["signs out", "is disabled", "has a new password"])
def test_b78_a_socket_ends_within_two_seconds_of_its_session(site: Site, way: str) -> None:
    """Sessions are looked at every second. Of three, one must do: this machine may be busy with other tests."""
    assert CHECK_SECONDS <= 1
    assert any(seconds_to_close(site, way) <= 2 for _ in range(3))


def seconds_to_close(site: Site, way: str) -> float:
    """From the end of a new person's session to the end of their socket."""
    person = site.member(ALL).user
    cookie = site.cookie(person)

    def end() -> None:
        if way == "signs out":
            sign_out(site, cookie)
        elif way == "is disabled":
            User.objects.filter(pk=person.pk).update(is_active=False)
        else:
            member_set(tenant=site.tenant, username=person.username, password="another pass phrase", roles=ALL)
        connection.close()

    async def until_closed() -> float:
        async with asyncio.timeout(60), open_line(site, cookie) as line:
            await line.send(json.dumps({"subscribe": ["runs"]}))
            await line.recv()
            await asyncio.to_thread(end)
            began = time.monotonic()
            await line.wait_closed()
            assert line.close_code == 4401
            return time.monotonic() - began

    return asyncio.run(until_closed())


def sign_out(site: Site, cookie: str) -> None:
    """As the form in the top bar does, over HTTP."""
    with httpx.Client(base_url=site.url, cookies={"sessionid": cookie}) as browser:
        browser.get("inbox/")
        token = browser.cookies["csrftoken"]
        answer = browser.post("sign-out/", data={"csrfmiddlewaretoken": token})
        assert answer.status_code == 302 and answer.headers["Location"].startswith("/sign-in/")


# ── what viewers cost the database ──


def asked_by_others(log: str) -> list[str]:
    """The statements in a server's log but those of this process, whose hints come over sessions of their own."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        ours = str(cursor.fetchone()[0])
    found = re.findall(r"\[(\d+)\] LOG:  (?:statement|execute [^:]*): (.*)", log)
    return [said for process, said in found if process != ours and "pg_notify" not in said]


@pytest.mark.parametrize("viewers", [1, 60])
def test_no_viewer_costs_a_query_by_hearing_or_looking(stack: Stack, services: Services, viewers: int) -> None:
    """P10: what many tabs hear is read once, by LISTEN, and a tab that nothing happens to asks nothing. The process asks
    every second which sessions have ended, once for all of them, and now and then what time it is.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        cursor.execute(f"ALTER DATABASE {cursor.fetchone()[0]} SET log_statement = 'all'")
    stack.start_web()
    with ExitStack() as opened:
        site = Site(stack.url, opened)
        run, cookie, log = site.run(), site.cookie(), services.database.log
        begin = 0

        async def hear(ready: asyncio.Barrier) -> None:
            async with open_line(site, cookie) as line:
                await line.send(json.dumps({"subscribe": [f"run:{run.id}"]}))
                while "subscribed" not in json.loads(await line.recv()):
                    pass
                await ready.wait()
                for _ in range(3):
                    await line.send('{"probe": true}')
                    while json.loads(await line.recv()).get("heard") is None:
                        pass
                while json.loads(await line.recv()).get("id") != str(run.id):
                    pass
                await ready.wait()

        async def look() -> None:
            nonlocal begin
            ready = asyncio.Barrier(viewers + 1)
            async with asyncio.timeout(120):
                hearing = [asyncio.create_task(hear(ready)) for _ in range(viewers)]
                await ready.wait()
                begin = log.stat().st_size
                checks = checked(log)
                await asyncio.to_thread(wait_until, lambda: checked(log) > checks + 2, "sessions are looked at")
                await asyncio.to_thread(notify_again, run)
                await ready.wait()
                await asyncio.gather(*hearing)

        asyncio.run(look())
        asked = asked_by_others(log.read_bytes()[begin:].decode(errors="replace"))
    clock = [one for one in asked if "SELECT clock_timestamp()" in one]  # of the process, twice a minute
    assert len(clock) <= 1
    asked = [one for one in asked if one not in clock]
    looks = [one for one in asked if "django_session" in one]
    rest = [one for one in asked if not re.search("django_session|accounts_user|accounts_membership|LISTEN", one)]
    assert rest == [] and len(looks) >= 3
    assert len(asked) <= 3 * len(looks) + 1  # three statements, however many look


def checked(log: Path) -> int:
    """How often it was asked which sessions have ended."""
    return log.read_text(errors="replace").count('"django_session"."expire_date" >')
