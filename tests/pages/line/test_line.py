"""What a page says of its own line: a laptop that slept, a network that was cut, two tabs, a session that ended elsewhere."""

import json
import re

import psycopg
import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from playwright.sync_api import BrowserContext, expect

from accounts.models import Tenant
from accounts.services import member_set
from accounts.states import Role
from approvals.models import Decision
from runs.live import CHANNEL
from tests.pages.conftest import ALL
from tests.pages.driven import Driven, person
from tests.pages.line.conftest import (
    AN_HOUR,
    BUSY,
    REASON,
    STALE_MS,
    Lines,
    decision,
    expect_back_undecided,
    expect_decided_by_ben,
    expect_state,
    hint,
    sign_in,
)
from tests.services import Services

pytestmark = [pytest.mark.browser, pytest.mark.process]


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
    page.get_by_role("button", name="Approve this call").click(force=True)
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
    page.wait_for_function("() => window.states.includes('catching, forms off') && window.states.at(-1) === 'live'")
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


# ── the browser's clock ──

# Only what the clock of the computer says is another; time passes as before.
SETTABLE = "{ const real = Date.now; window.set = 0; Date.now = () => real() + window.set; }"
A_DAY = 24 * 60 * 60 * 1000
TELLS_THE_TIME = """() => {
    const shown = Date.parse(document.querySelector("[data-clock]").dateTime);
    return Math.abs(shown - performance.timeOrigin - performance.now()) < 5000;
}"""


@pytest.mark.parametrize("by", [-A_DAY, A_DAY], ids=["back", "ahead"])
def test_a_clock_of_the_browser_that_is_set_moves_no_age_and_hides_no_dead_line(
    context: BrowserContext, site: str, run: Driven, by: int
) -> None:
    context.add_init_script(SETTABLE)
    lines = Lines()
    page = decision(context, site, run, lines)
    page.evaluate("(by) => { window.set = by; window.was = document.querySelector('[data-clock]').dateTime; }", by)
    page.wait_for_function("() => document.querySelector('[data-clock]').dateTime !== window.was")
    page.wait_for_function(TELLS_THE_TIME)
    expect_state(page, "live")
    lines.silent = True
    expect_state(page, "asking")


# ── the network ──


def test_a_cut_network_is_said_with_its_time_and_what_was_typed_is_sent_once_it_is_back(
    context: BrowserContext, site: str, run: Driven
) -> None:
    page = decision(context, site, run)
    context.set_offline(True)
    expect_state(page, "offline")
    expect(page.locator("[data-live-note]")).to_contain_text("since")
    expect(page.locator("[data-off-notice]")).to_contain_text("Offline since")
    button = page.get_by_role("button", name="Approve this call")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(re.compile("Off: nothing is sent from this page now."))
    expect(page.get_by_role("button", name="I look at it")).to_be_disabled()
    button.click(force=True)
    expect(page.locator("#why-a")).to_have_value(REASON)
    context.set_offline(False)
    expect_state(page, "live")
    expect(page.locator("[data-off-notice]")).to_be_hidden()
    expect(button).to_be_enabled()
    expect(button).to_have_accessible_description("")
    expect(page.get_by_role("button", name="I look at it")).to_be_enabled()
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
    page.get_by_role("button", name="Approve this call").click(force=True)
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
