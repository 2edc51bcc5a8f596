"""The live socket on a real web server: hints, their limits, sessions that end, a listener that is lost, a clean end."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from time import monotonic
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker
from websockets.exceptions import InvalidStatus

from accounts.keys import new_id
from accounts.models import Membership, Tenant, User
from accounts.services import member_set, tenant_create
from accounts.states import Actor, Role
from runs.consumers.hub import MEMORY_SECONDS, Hub
from runs.consumers.live import MAX_TOPICS
from runs.models import Run
from runtime.services import StopState, run_stop
from tests.doors.tabs import SECONDS, Site, Tab, notify
from tests.doors.world import ALL
from tests.services import Services, cloned_database
from tests.stack import Stack
from tests.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def web(
    services: Services, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a web server that listens."""
    with cloned_database(services) as url, django_db_blocker.unblock():
        stack = Stack(services, url, tmp_path_factory.mktemp("live"))
        try:
            stack.start_web()
            with ExitStack() as opened:
                Site(stack.url, opened).warm_up()
            yield stack.url
        finally:
            stack.close()


@pytest.fixture
def site(web: str) -> Iterator[Site]:
    with ExitStack() as opened:
        yield Site(web, opened)


# ── a tab that goes away ──


def test_b59_a_tab_that_is_closed_changes_nothing_of_its_run(site: Site) -> None:
    """Only a stop stops a run; the browser's own end is nobody's wish."""
    run = site.run()
    before = run.transitions.count()
    tab = site.open()
    tab.subscribe(f"run:{run.id}")
    tab.socket.close()
    later = site.open()
    later.subscribe(f"run:{run.id}")
    notify(run)
    assert later.topic() == f"run:{run.id}"
    run.refresh_from_db()
    assert (run.status, run.transitions.count(), run.controls.exists()) == ("QUEUED", before, False)
    actor = Actor(site.tenant.id, site.person.user.username, frozenset(site.person.roles))
    assert isinstance(run_stop(actor=actor, run_id=run.id, reason="enough"), StopState)
    run.refresh_from_db()
    assert run.status == "CANCELLED"


# ── hints ──


def test_a_tab_hears_what_it_named_and_nothing_else(site: Site) -> None:
    run, other = site.run(), site.run()
    tab = site.open()
    tab.subscribe(f"run:{run.id}", "inbox")
    notify(other)
    assert tab.topic() == "inbox"
    notify(run)
    assert {tab.topic(), tab.topic()} == {"inbox", f"run:{run.id}"}
    assert tab.subscribe("runs") == {"subscribed": ["runs"], "refused": []}
    notify(run)
    assert tab.topic() == "runs"


def test_a_foreign_run_is_refused_like_a_missing_one(site: Site) -> None:
    foreign, own = Site(site.url, site.opened).run(), site.run()
    tab = site.open()
    named = [f"run:{foreign.id}", f"run:{uuid4()}", "run:x", "run:", "wait:1", "", f"run:{str(own.id).upper()}"]
    answer = tab.subscribe(f"run:{own.id}", *named)
    assert answer == {"subscribed": [f"run:{own.id}"], "refused": sorted(named)}
    notify(foreign)
    notify(own)
    assert tab.topic() == f"run:{own.id}"


def test_somebody_who_may_not_read_hears_nothing(site: Site) -> None:
    auditor, run = site.member(frozenset({Role.AUDITOR})), site.run()
    tab = site.open(site.cookie(auditor.user))
    topics = ["inbox", f"run:{run.id}", "runs"]
    assert tab.subscribe(*topics) == {"subscribed": [], "refused": topics}


@pytest.mark.parametrize(
    "message",
    [
        *("", "x", "[]", "{}", '{"subscribe": "runs"}', '{"subscribe": [1]}', '{"subscribe": [], "subscribe": []}'),
        json.dumps({"subscribe": ["runs"] * (MAX_TOPICS + 1)}),
        json.dumps({"subscribe": ["x" * 20_000]}),
    ],
)
def test_what_is_not_understood_closes_the_socket(site: Site, message: str) -> None:
    tab = site.open()
    tab.socket.send(message)
    assert tab.closed() == 4400


def test_a_message_that_nobody_would_read_is_not_kept(site: Site) -> None:
    tab = site.open()
    tab.socket.send("x" * 100_000)
    assert tab.closed() == 1009


def test_bytes_close_the_socket(site: Site) -> None:
    tab = site.open()
    tab.socket.send(b"\x00")
    assert tab.closed() == 4400


# ── who may listen ──


def test_nobody_is_refused_before_the_handshake_ends(site: Site) -> None:
    ended = site.cookie()
    Session.objects.filter(session_key=ended).delete()
    for cookie in ("", "nonsense", ended):
        with pytest.raises(InvalidStatus) as refused:
            site.open(cookie)
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize("cookie", ['"\\000\\000aaaaaaaaaaaa"', '"\\377\\330aaaaaaaaaaaa"', "x" * 5_000, "a" * 32])
def test_a_cookie_that_names_no_session_is_nobody_s(site: Site, cookie: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        site.open(cookie=cookie)
    assert refused.value.response.status_code == 403


def test_another_origin_is_refused(site: Site) -> None:
    cookie = site.cookie()
    for origin in ("http://evil.example", site.url.replace("http", "https").rstrip("/"), None):
        with pytest.raises(InvalidStatus):
            site.connect(cookie, origin)


def test_sockets_end_with_their_session_their_person_and_their_roles(site: Site) -> None:
    leaving = site.person
    first, second = site.cookie(leaving.user), site.cookie(leaving.user)
    gone, kept = site.open(first), site.open(second)
    Session.objects.filter(session_key=first).delete()
    assert gone.closed() == 4401
    kept.subscribe("runs")
    Membership.objects.filter(id=leaving.id).update(roles=[Role.VIEWER])
    assert kept.closed() == 4403
    again = site.open(second)
    assert again.subscribe("runs")["subscribed"] == ["runs"]
    member_set(tenant=site.tenant, username=leaving.user.username, password="another pass phrase", roles=ALL)
    assert again.closed() == 4401
    last = site.open(site.cookie(leaving.user))
    User.objects.filter(id=leaving.user_id).update(is_active=False)
    assert last.closed() == 4401


# ── who asks without end, or for what stands still ──


@contextmanager
def runs_locked() -> Iterator[None]:
    """Nobody reads a run meanwhile."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE runs_run IN ACCESS EXCLUSIVE MODE")
        yield


def test_a_socket_ends_with_its_session_also_while_what_others_ask_for_stands_still(site: Site) -> None:
    run, leaving = site.run(), site.cookie()
    asking, gone = site.open(), site.open(leaving)
    with runs_locked(), ThreadPoolExecutor(1) as aside:
        asking.socket.send(json.dumps({"subscribe": [f"run:{run.id}"]}))
        wait_until(lambda: waits_for_the_runs() > 0, "it asks for what stands still")
        began = monotonic()
        assert gone.subscribe("runs", "inbox")["subscribed"] == ["inbox", "runs"]
        aside.submit(session_ends, leaving).result()
        assert gone.closed() == 4401
        assert monotonic() - began < settings.ANSWER_SECONDS / 2


def session_ends(key: str) -> None:
    Session.objects.filter(session_key=key).delete()
    connection.close()


def test_many_sockets_of_one_session_that_ask_without_end_delay_nobody_else(site: Site) -> None:
    run, greedy = site.run(), site.cookie()
    other = site.open()
    many = [site.open(greedy) for _ in range(12)]
    asks = json.dumps({"subscribe": [f"run:{run.id}"]})
    answered: list[Tab] = []

    def answer(tab: Tab) -> None:
        while "subscribed" not in tab.receive():
            pass
        answered.append(tab)

    with ThreadPoolExecutor(len(many) + 1) as readers, runs_locked():
        for tab in [*many, other]:
            tab.socket.send(asks)
        for tab in [*many, other]:
            readers.submit(answer, tab)
        wait_until(lambda: waits_for_the_runs() > 0, "the first of them asks")
    assert answered.index(other) < 4, "who asked last waited for all of them"


def waits_for_the_runs() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE relation = 'runs_run'::regclass AND NOT granted")
        return int(cursor.fetchone()[0])


# ── what is lost ──


def test_a_lost_listener_makes_every_tab_ask_again(site: Site) -> None:
    run = site.run()
    tabs = [site.open(), site.open()]
    for tab in tabs:
        tab.subscribe("runs")
    notify(run)
    assert [tab.topic() for tab in tabs] == ["runs", "runs"]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query = 'LISTEN signalbox'"
        )
        assert cursor.fetchall() == [(True,)]
    for hears in (False, True):
        for tab in tabs:
            said = tab.receive()
            assert (said["kind"], said["hears"]) == ("resync", hears)
    notify(run)
    assert [tab.topic() for tab in tabs] == ["runs", "runs"]


def test_a_probe_is_answered_with_what_was_sent_last_and_whether_the_server_hears(site: Site) -> None:
    run = site.run()
    tab = site.open()
    tab.subscribe("runs")
    notify(run)
    assert tab.topic() == "runs"
    tab.socket.send('{"probe": true}')
    assert tab.receive() == {"heard": tab.sequence, "hears": True}


def test_hints_that_cannot_be_read_do_no_harm(site: Site) -> None:
    run = site.run()
    tab = site.open()
    tab.subscribe("runs")
    with connection.cursor() as cursor:
        for payload in ("", "x", "[]", "{}", '{"tenant": "x"}'):
            cursor.execute("SELECT pg_notify('signalbox', %s)", [payload])
    notify(run)
    assert tab.topic() == "runs"


def test_a_tab_that_does_not_read_delays_nobody(site: Site) -> None:
    run = site.run()
    lazy, tab = site.open(), site.open()
    lazy.subscribe("runs", "inbox", f"run:{run.id}")
    tab.subscribe("runs")
    for _ in range(500):
        notify(run)
    assert tab.topic() == "runs"
    last = site.run()
    assert lazy.subscribe(f"run:{last.id}")["subscribed"] == [f"run:{last.id}"]


def test_the_web_server_ends_at_once_with_tabs_open(stack: Stack) -> None:
    server = stack.start_web()
    with ExitStack() as opened:
        site = Site(stack.url, opened)
        tabs = [site.open() for _ in range(5)]
        for tab in tabs:
            tab.subscribe("runs")
        server.stop()
        assert {tab.closed() for tab in tabs} == {1012}
    assert "Traceback" not in server.child.last_lines()


def test_one_connection_listens_for_many_tabs(site: Site) -> None:
    for _ in range(30):
        site.open().subscribe("runs")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE query = 'LISTEN signalbox'), count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        listening, connected = cursor.fetchone()
    assert listening == 1 and connected <= 10


# ── the hub by itself ──


class Ear:
    """A socket that only notes what it is told."""

    def __init__(self, tenant: Tenant) -> None:
        self.session_key = "none"
        self.actor = Actor(tenant.id, "ear")
        self.told: asyncio.Queue[str] = asyncio.Queue()

    def changed(self, run_id: str) -> None:
        self.told.put_nowait(run_id)

    def ask_again(self) -> None:
        self.told.put_nowait("resync")

    def end(self, code: int) -> None:
        self.told.put_nowait(str(code))


def test_a_page_hears_what_it_missed_while_it_was_drawn(live_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = tenant_create(slug="hub", name="Hub")
    moment = [1000.0]
    monkeypatch.setattr("runs.consumers.hub.monotonic", lambda: moment[0])
    run = Run(id=new_id(), tenant=tenant)

    async def listen() -> None:
        hub, ear = Hub(), Ear(tenant)
        hub.join(ear)
        assert hub.recent(ear.actor) is None
        await told(ear, "resync")
        assert hub.recent(ear.actor) is None, "it has not listened long enough to know"
        moment[0] += MEMORY_SECONDS
        assert hub.recent(ear.actor) == []
        await asyncio.to_thread(notify_alone, run)
        await told(ear, str(run.id))
        assert hub.recent(ear.actor) == [str(run.id)]
        moment[0] += MEMORY_SECONDS
        assert hub.recent(ear.actor) == []
        await told(ear, "4401")

    asyncio.run(listen())


def notify_alone(run: Run) -> None:
    notify(run)
    connection.close()


async def told(ear: Ear, wanted: str) -> None:
    async with asyncio.timeout(SECONDS):
        while await ear.told.get() != wanted:
            pass
