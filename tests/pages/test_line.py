"""What a page says of its own line: a laptop that slept, a network that was cut, two tabs, a session that ended elsewhere."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client, override_settings
from playwright.sync_api import Browser, BrowserContext, Page, WebSocketRoute, expect
from pytest_django import DjangoDbBlocker

from accounts.models import Tenant, User
from accounts.services import member_set, tenant_create
from accounts.states import Role
from approvals.models import Decision, Wait
from runs.live import CHANNEL
from tests.pages.conftest import ALL
from tests.pages.driven import Driven, Outside, driving, person, waiting
from tests.services import Services, cloned_database
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.process]
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


# ── sleep ──


def test_b75_a_laptop_closed_for_an_hour_says_so_and_then_shows_what_was_decided_meanwhile(
    context: BrowserContext, site: str, run: Driven
) -> None:
    lines = Lines()
    page = decision(context, site, run, lines, clock=True)
    lines.silent = True  # the line died with the sleep, and neither end knows
    run.decide("REJECT", actor=person("ben.diaz"))
    page.clock.fast_forward(AN_HOUR)
    notice = page.locator("[data-off-notice]")
    expect(notice).to_contain_text("This page slept from", timeout=STALE_MS)
    expect(notice).to_contain_text("Nothing you do here is sent until it shows what is now. What you typed is kept.")
    expect_state(page, "catching")
    page.get_by_role("button", name="Approve this call").click()
    lines.silent = False
    expect_decided_by_ben(page)
    expect_state(page, "live")
    expect(notice).to_be_hidden()
    assert len(lines.opened) > 1
    assert Decision.objects.get(wait=run.wait).verdict == "REJECT"


def test_a_page_that_slept_on_a_line_that_held_asks_for_nothing_and_its_decision_is_taken(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run, clock=True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(AN_HOUR)
    page.wait_for_function("window.states.includes('catching, forms off') && window.states.at(-1) === 'live'")
    assert asked == []
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("#wait-live .notice h2")).to_contain_text("ann.moreau approved this call")


def test_b75_a_tab_that_the_browser_froze_shows_what_was_decided_when_it_is_thawed(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run)
    browser = context.new_cdp_session(page)
    browser.send("Page.setWebLifecycleState", {"state": "frozen"})
    run.decide("REJECT", actor=person("ben.diaz"))
    hint(run)
    browser.send("Page.setWebLifecycleState", {"state": "active"})
    expect_decided_by_ben(page)
    expect_state(page, "live")


def test_b75_what_was_typed_on_a_page_of_an_older_revision_is_refused_with_what_moved(
    context: BrowserContext, site: str, run: Driven
) -> None:
    """The page never hears of it: its line is silent, its panels are not answered, and it sends all the same."""
    lines = Lines()
    page = decision(context, site, run, lines)
    lines.silent = True
    page.route("**/waits/**", lambda route: route.abort() if route.request.method == "GET" else route.continue_())
    run.decide("REJECT", actor=person("ben.diaz"))
    page.evaluate("document.getElementById('approve-form').submit()")
    expect(page.locator("#wait-live .notice h2")).to_contain_text("Already decided: ben.diaz rejected this call")
    expect(page.locator("#why-a")).to_have_value(REASON)
    assert Decision.objects.filter(wait=run.wait).count() == 1


# ── the network ──


def test_a_cut_network_is_said_with_its_time_and_what_was_typed_is_sent_once_it_is_back(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run)
    context.set_offline(True)
    expect_state(page, "offline")
    expect(page.locator("[data-live-note]")).to_contain_text("since")
    expect(page.locator("[data-off-notice]")).to_contain_text("Offline since")
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("#why-a")).to_have_value(REASON)
    context.set_offline(False)
    expect_state(page, "live")
    expect(page.locator("[data-off-notice]")).to_be_hidden()
    assert not Decision.objects.filter(wait=run.wait).exists()
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("#wait-live .notice h2")).to_contain_text("ann.moreau approved this call")


def test_what_was_decided_while_the_network_was_cut_is_shown_once_it_is_back(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run)
    context.set_offline(True)
    expect_state(page, "offline")
    run.decide("REJECT", actor=person("ben.diaz"))
    hint(run)
    context.set_offline(False)
    expect_decided_by_ben(page)
    expect_state(page, "live")


def test_a_line_that_went_silent_is_not_called_live_for_longer_than_five_seconds(
    context: BrowserContext, site: str, run: Driven
) -> None:
    lines = Lines()
    page = decision(context, site, run, lines)
    lines.silent = True
    live = page.locator("[data-live-state]")
    expect(live).not_to_have_attribute("data-live-state", "live", timeout=STALE_MS)
    expect(live).to_contain_text("no live line since")
    run.decide("REJECT", actor=person("ben.diaz"))
    expect_decided_by_ben(page)  # it asks every 5 s meanwhile
    lines.silent = False
    expect_state(page, "live")


def test_b73_a_server_that_hears_nothing_says_that_the_page_asks_instead(
    context: BrowserContext, site: str, run: Driven, services: Services, database: str
) -> None:
    page = decision(context, site, run)
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with psycopg.connect(services.cluster.url("postgres"), autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            end_listener()
            expect(page.locator("[data-live-state]")).to_contain_text("the server hears nothing new since")
        finally:
            admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    expect_state(page, "live")
    run.decide("REJECT", actor=person("ben.diaz"))
    hint(run)
    expect_decided_by_ben(page)


def end_listener() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query = 'LISTEN signalbox'"
        )


# ── two tabs ──


def test_the_second_tab_shows_the_decision_of_the_first_and_keeps_what_was_typed(
    context: BrowserContext, site: str, run: Driven
) -> None:
    first, second = decision(context, site, run), decision(context, site, run)
    first.get_by_role("button", name="Approve this call").click()
    expect(first.locator("#wait-live .notice h2")).to_contain_text("ann.moreau approved this call")
    expect(second.locator("#wait-live .notice h2")).to_contain_text("ann.moreau approved this call")
    expect(second.locator("#off-a")).to_have_text("Off: this wait is closed. What came of it")
    expect(second.locator("#why-a")).to_have_value(REASON)
    assert Decision.objects.filter(wait=run.wait).count() == 1


# ── the session ──


def test_a_session_that_ended_in_another_tab_leads_to_sign_in_and_back_with_what_was_typed(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page, other = decision(context, site, run), context.new_page()
    other.goto(site)
    other.locator(".menu--person summary").click()
    other.get_by_role("button", name="Sign out").click()
    expect_state(page, "ended")
    expect(page.locator("[data-off-notice]")).to_contain_text("Your session has ended. Nothing you do here is sent.")
    page.get_by_role("button", name="Approve this call").click()
    page.get_by_role("link", name="Sign in again").click()
    sign_in(page)
    expect_back_undecided(page, site, run)
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("#wait-live .notice h2")).to_contain_text("ann.moreau approved this call")
    page.goto(f"{site}waits/{run.wait.id}/")
    expect(page.locator("[data-kept-notice]")).to_be_hidden()


def test_a_decision_that_is_sent_as_the_session_ends_is_not_taken_and_its_reason_comes_back(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run)
    page.evaluate("window.signalboxLine.end = () => {}")
    page.route("**/ws/live/", lambda route: route.abort())
    Session.objects.all().delete()
    page.evaluate("document.getElementById('approve-form').requestSubmit()")
    page.wait_for_url("**/sign-in/**")
    sign_in(page)
    expect_back_undecided(page, site, run)


def test_what_one_person_typed_is_not_shown_to_another_who_signs_in_in_the_same_tab(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run)
    Session.objects.all().delete()
    expect_state(page, "ended")
    page.get_by_role("link", name="Sign in again").click()
    sign_in(page, name="ben.diaz")
    expect(page.locator("#why-a")).to_have_value("")
    expect(page.locator("[data-kept-notice]")).to_be_hidden()
    assert page.evaluate("sessionStorage.getItem('signalbox-kept')") is None


def test_a_form_whose_proof_is_old_is_not_taken_and_its_page_is_one_click_away_with_what_was_typed(
    context: BrowserContext, site: str, run: Driven
) -> None:
    """Somebody signed in anew in another tab, and the older page is sent."""
    page, other = decision(context, site, run), context.new_page()
    context.clear_cookies()
    sign_in(other, f"{site}sign-in/")
    expect(other.locator("h1")).to_have_text("Overview")
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("h1")).to_have_text("Not allowed")
    page.get_by_role("link", name="Open that page again").click()
    expect_back_undecided(page, site, run)


def expect_back_undecided(page: Page, site: str, run: Driven) -> None:
    """The same page, with the reason in its field and told so, and nothing decided."""
    expect(page).to_have_url(f"{site}waits/{run.wait.id}/")
    expect(page.locator("#why-a")).to_have_value(REASON)
    expect(page.locator("[data-kept-notice]")).to_contain_text("What you typed before is back in its fields.")
    assert Wait.objects.get(id=run.wait.id).status == "OPEN"


# ── a storm ──


def test_b71_a_thousand_events_in_a_second_leave_a_slow_tab_with_what_is_now(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(BUSY)
    with connection.cursor() as cursor:
        for number in range(1_000):
            if number == 500:
                run.decide("REJECT", actor=person("ben.diaz"))
            payload = json.dumps({"tenant": str(run.actor.tenant_id), "run": str(run.id)})
            cursor.execute("SELECT pg_notify(%s::text, %s::text)", [CHANNEL, payload])
    expect_decided_by_ben(page)
    expect_state(page, "live")
    assert len(asked) < 100  # of one topic that changes all the time, a few a second


def test_a_page_that_its_person_may_not_read_any_more_is_not_called_live(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run)
    try:
        funds = Tenant.objects.get(slug="funds")
        member_set(tenant=funds, username="ann.moreau", password=None, roles=frozenset({Role.AUDITOR}))
        expect_state(page, "asking")
        expect(page.locator("[data-live-note]")).to_contain_text("the server does not show what is new since")
        expect(page.locator("#wait-live")).to_contain_text("OPEN")
    finally:
        member_set(tenant=funds, username="ann.moreau", password=None, roles=ALL)
    expect_state(page, "live")


def test_what_was_typed_in_a_form_whose_sending_broke_off_is_back_on_its_page(
    context: BrowserContext, site: str, run: Driven
) -> None:
    """The network breaks as the form is sent: the browser shows a page of its own, and nobody knows whether it was taken."""
    page = decision(context, site, run)
    page.route("**/waits/**", lambda sent: sent.abort() if sent.request.method == "POST" else sent.continue_())
    page.evaluate("document.getElementById('approve-form').requestSubmit()")
    expect(page).to_have_url(re.compile("^chrome-error:"))
    page.goto(site)
    page.goto(f"{site}waits/{run.wait.id}/")
    expect_back_undecided(page, site, run)
    page.unroute("**/waits/**")
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("#wait-live .notice h2")).to_contain_text("ann.moreau approved this call")
    page.goto(f"{site}waits/{run.wait.id}/")
    expect(page.locator("[data-kept-notice]")).to_be_hidden()
    assert page.evaluate("sessionStorage.getItem('signalbox-kept')") is None


# ── another tenant ──


@pytest.fixture
def harbour(run: Driven) -> Iterator[None]:
    """A second tenant, of which ann.moreau is a member for as long as the test runs."""
    elsewhere = tenant_create(slug="harbour", name="Harbour")
    membership = member_set(tenant=elsewhere, username="ann.moreau", password=None, roles=ALL)
    yield
    membership.delete()


def test_a_page_whose_person_acts_in_another_tenant_by_now_says_so_and_keeps_what_was_typed(
    context: BrowserContext, site: str, run: Driven, harbour: None
) -> None:
    """Two tabs of one person. Nothing of the other tenant is shown in the page, and nothing is sent from it into that tenant."""
    other = context.new_page()
    choose(other, site, "funds")
    page = decision(context, site, run)
    draft = context.new_page()
    draft.goto(f"{site}runs/new/?agent=evidence_search")
    draft.locator("#goal").fill(REASON)
    choose(other, site, "harbour")
    for left in (page, draft):
        expect_state(left, "elsewhere")
        expect(left.locator("[data-off-notice]")).to_contain_text(
            "You act in harbour now, and this page is of another tenant."
        )
    expect(page.locator("#wait-live")).to_contain_text("OPEN")
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("#why-a")).to_have_value(REASON)
    page.get_by_role("link", name="Choose the tenant again").click()
    page.locator("button[value=funds]").click()
    expect_back_undecided(page, site, run)
    expect_state(draft, "live")
    expect(draft.locator("#goal")).to_have_value(REASON)


def test_a_form_that_was_sent_into_another_tenant_is_not_taken_and_its_text_is_one_click_away(
    context: BrowserContext, site: str, harbour: None
) -> None:
    """The tenant was changed in another tab a moment before, so the page does not know it yet."""
    other, page = context.new_page(), context.new_page()
    choose(other, site, "funds")
    page.route_web_socket("**/ws/live/", lambda _: None)
    page.goto(f"{site}delegations/")
    page.locator("#reason").fill(REASON)
    choose(other, site, "harbour")
    page.evaluate("window.signalboxLine.actsIn = () => {}")
    page.evaluate("const form = document.querySelector('main form'); form.noValidate = true; form.requestSubmit()")
    expect(page.get_by_role("main")).to_contain_text(
        "Nothing was done. The page was of funds, and you act in harbour now."
    )
    expect(page.get_by_role("main")).to_contain_text("What you typed is kept.")
    page.get_by_role("button", name="Act in funds again").click()
    expect(page).to_have_url(f"{site}delegations/")
    expect(page.locator("#reason")).to_have_value(REASON)


def choose(page: Page, site: str, tenant: str) -> None:
    page.goto(f"{site}tenant/")
    page.locator(f"button[value={tenant}]").click()
    expect(page).to_have_url(site)
