"""A browser in which somebody is signed in, on a real web server, beside a run that waits to be decided."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from django.db import connection
from django.test import Client, override_settings
from playwright.sync_api import Browser, BrowserContext, Page, WebSocketRoute, expect
from pytest_django import DjangoDbBlocker

from accounts.models import Tenant, User
from accounts.services import member_set
from approvals.models import Wait
from runs.live import CHANNEL
from tests.pages.conftest import ALL
from tests.pages.driven import Driven, Outside, driving, person, waiting
from tests.services import Services, cloned_database
from tests.stack import Stack

PASSWORD = "a-long-password"
REASON = "Both numbers were checked against the sheet."
AN_HOUR = "01:00:00"
PATIENCE_MS = 30_000
STALE_MS = 5_000  # a page says within this time that it does not know what is now
# A tab that has a fifth of its time left for anything else.
BUSY = "() => { setInterval(() => { const end = performance.now() + 200; while (performance.now() < end); }, 250); }"
# What every page did on the way: each state once, in order, though it lasted a moment only.
NOTED = """() => {
    window.states = [];
    const note = () => {
        const bar = document.querySelector("[data-live-state]");
        const said = bar.dataset.liveState + (document.documentElement.hasAttribute("data-off") ? ", forms off" : "");
        if (window.states.at(-1) !== said) window.states.push(said);
    };
    new MutationObserver(note).observe(document.documentElement, { attributes: true, subtree: true });
}"""


@pytest.fixture(scope="module")
def database(
    services: Services, told_runs: str, outside_process: Outside, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """The libpq URL of a database with ann.moreau and ben.diaz, on which a loop can be driven."""
    driven = override_settings(**driving(outside_process))
    with cloned_database(services, told_runs) as url, django_db_blocker.unblock(), driven:
        for name in ("ann.moreau", "ben.diaz"):
            member_set(tenant=Tenant.objects.get(slug="funds"), username=name, password=PASSWORD, roles=ALL)
        yield url


@pytest.fixture(scope="module")
def site(services: Services, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a web server."""
    stack = Stack(services, database, tmp_path_factory.mktemp("line"))
    expect.set_options(timeout=PATIENCE_MS)
    try:
        stack.start_web()
        yield stack.url
    finally:
        expect.set_options(timeout=None)
        stack.close()


@pytest.fixture
def run(site: str) -> Driven:
    """A new run that waits for its publication to be approved."""
    return waiting(person("ann.moreau"))


@pytest.fixture
def context(browser: Browser, site: str) -> Iterator[BrowserContext]:
    """A browser in which ann.moreau is signed in. Script errors and CSP violations fail the test."""
    opened = browser.new_context(viewport={"width": 1440, "height": 900})
    wrong: list[str] = []
    opened.on("weberror", lambda error: wrong.append(str(error.error)))
    opened.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    sign_in_at_once(opened, site)
    yield opened
    opened.close()
    assert wrong == []


def sign_in_at_once(context: BrowserContext, site: str) -> None:
    """Without the form: a session of ann.moreau's."""
    client = Client()
    client.force_login(User.objects.get(username="ann.moreau"))
    context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": site}])


@dataclass
class Lines:
    """The sockets of a page, which a test can silence: both ends believe in them, and nothing comes through."""

    silent: bool = False
    opened: list[WebSocketRoute] = field(default_factory=list)

    def take(self, socket: WebSocketRoute) -> None:
        self.opened.append(socket)
        server, silenced = socket.connect_to_server(), self.silent
        server.on_message(lambda said: None if silenced or self.silent else socket.send(said))
        socket.on_message(lambda said: None if silenced or self.silent else server.send(said))


def sign_in(page: Page, path: str = "", name: str = "ann.moreau") -> None:
    if path:
        page.goto(path)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def decision(
    context: BrowserContext, site: str, run: Driven, lines: Lines | None = None, *, clock: bool = False
) -> Page:
    """The page of the decision with a reason typed, in a tab of its own whose line is live."""
    page = context.new_page()
    if clock:
        page.clock.install()
    if lines is not None:
        page.route_web_socket("**/ws/live/", lines.take)
    page.goto(f"{site}waits/{run.wait.id}/")
    expect_state(page, "live")
    page.locator("#why-a").fill(REASON)
    page.evaluate(NOTED)
    return page


def expect_state(page: Page, state: str) -> None:
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", state)


def hint(run: Driven) -> None:
    """The hint that a commit of another process sends."""
    payload = json.dumps({"tenant": str(run.actor.tenant_id), "run": str(run.id)})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s::text, %s::text)", [CHANNEL, payload])


def expect_decided_by_ben(page: Page) -> None:
    """The page shows what another person decided, its forms are off with that reason, and what was typed is there."""
    expect(page.locator("#wait-live .notice h2")).to_contain_text("ben.diaz rejected this call")
    expect(page.locator("#off-a")).to_have_text("Off: this wait is closed. What came of it")
    expect(page.locator("#why-a")).to_have_value(REASON)


def expect_back_undecided(page: Page, site: str, run: Driven) -> None:
    """The same page, with the reason in its field and told so, and nothing decided."""
    expect(page).to_have_url(f"{site}waits/{run.wait.id}/")
    expect(page.locator("#why-a")).to_have_value(REASON)
    expect(page.locator("[data-kept-notice]")).to_contain_text("What you typed before is back in its fields.")
    assert Wait.objects.get(id=run.wait.id).status == "OPEN"
