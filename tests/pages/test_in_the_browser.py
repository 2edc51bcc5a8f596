"""What the scripts do, in a real browser against the real web server: lists that stay put, keys, live panels, gates."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Browser, FilePayload, Page, expect

from accounts.models import Membership, Tenant
from approvals.models import Wait
from runs.live import CHANNEL
from runs.models import Run
from tests.pages import story
from tests.pages.looks.conftest import session_of
from tests.pages.test_handover import forked
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.process]


@pytest.fixture
def stack(common_site: Stack) -> Stack:
    return common_site


@pytest.fixture
def tenant(own: Membership) -> Tenant:
    return own.tenant


@pytest.fixture
def page(stack: Stack, browser: Browser, own: Membership) -> Iterator[Page]:
    """A page of a signed-in person, in a zone that is not the server's. Script errors and CSP violations fail the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, timezone_id="Asia/Kolkata")
    signed = {"name": settings.SESSION_COOKIE_NAME, "value": session_of(own.user.username), "url": stack.url}
    context.add_cookies([signed])  # type: ignore[list-item]
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    yield opened
    context.close()
    assert wrong == []


def hint(run: Run) -> None:
    """The hint that a commit sends. Not through this process's outbox: its connection is to the database of another test."""
    payload = json.dumps({"tenant": str(run.tenant_id), "run": str(run.id)})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s::text, %s::text)", [CHANNEL, payload])


def opened(page: Page, stack: Stack, path: str) -> None:
    """Open a page and wait until its line is live."""
    page.goto(stack.url + path)
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "live", timeout=30_000)


def test_a_list_stays_put_until_it_is_asked(page: Page, stack: Stack, tenant: Tenant) -> None:
    now = timezone.now()
    story.waiting(tenant, now - timedelta(minutes=5), "First")
    opened(page, stack, "inbox/")
    expect(page.locator("[data-row]")).to_have_count(1)

    second, wait = story.waiting(tenant, now - timedelta(minutes=4), "Second")
    hint(second.run)
    expect(page.locator("[data-news]")).to_contain_text("1 new item came in. The list has not moved.")
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.locator("#inbox-count")).to_have_text("2")
    expect(page).to_have_title("(2) Inbox · Signalbox")

    page.keyboard.press("u")
    expect(page.locator("[data-row]")).to_have_count(2)
    expect(page.locator("[data-news]")).to_be_hidden()

    Wait.objects.filter(id=wait.id).update(status="CANCELLED", closed_at=now)
    hint(second.run)
    expect(page.locator(f"#row-wait-{wait.id}")).to_have_class(re.compile("is-gone"))
    expect(page.locator("[data-row]")).to_have_count(2)


def test_keys_move_and_open_and_decide_nothing(page: Page, stack: Stack, tenant: Tenant) -> None:
    now = timezone.now()
    for minutes in (5, 4, 3):
        story.waiting(tenant, now - timedelta(minutes=minutes), f"Pair {minutes}")
    opened(page, stack, "inbox/")
    page.keyboard.press("j")
    expect(page.locator("#inbox-item")).to_contain_text("2 of 3")
    expect(page).to_have_url(re.compile("item=wait-"))
    page.keyboard.press("k")
    expect(page.locator("#inbox-item")).to_contain_text("1 of 3")
    page.keyboard.press("/")
    page.keyboard.type("jja")
    assert page.input_value("#search") == "jja"
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/runs/")
    assert Wait.objects.filter(tenant=tenant, status="OPEN").count() == 3


def test_a_live_panel_changes_and_keeps_what_stayed(page: Page, stack: Stack, tenant: Tenant) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    opened(page, stack, f"runs/{told.run.id}/")
    page.evaluate("window.kept = document.querySelector('h1')")
    told.status("QUEUED")
    told.move(300, "WAITING", "QUEUED", "DECISION", "person:mo.okafor")
    hint(told.run)
    expect(page.locator(".head .chip")).to_have_text("QUEUED")
    assert page.evaluate("window.kept === document.querySelector('h1')")


def test_frozen_pages_count_what_waits(page: Page, stack: Stack, tenant: Tenant) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    opened(page, stack, f"runs/{told.run.id}/")
    page.keyboard.press("f")
    expect(page.locator("[data-frozen]")).to_be_attached()
    told.status("QUEUED")
    hint(told.run)
    state = page.locator("[data-live-state]")
    expect(state).to_contain_text("wait")
    expect(page.locator(".head .chip")).to_have_text("WAITING")
    page.get_by_role("link", name="Follow").click()
    expect(page.locator(".head .chip")).to_have_text("QUEUED")
    expect(state).to_contain_text("Live")


def test_a_frozen_page_keeps_no_connection_when_it_asks_whether_the_server_is_there(
    page: Page, stack: Stack, tenant: Tenant
) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    with page.expect_request_finished(lambda request: request.url.endswith("/healthz")):
        page.goto(f"{stack.url}runs/{told.run.id}/?after=1970-01-01T00:00:00.000000Z~0~")
        expect(page.locator("[data-frozen]")).to_be_attached()


def test_events_open_beside_the_axis_with_their_url(page: Page, stack: Stack, tenant: Tenant) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    opened(page, stack, f"runs/{told.run.id}/?at=rev:3")
    page.keyboard.press("l")
    expect(page.locator(".aside h2")).not_to_contain_text("Revision 3")
    page.keyboard.press("h")
    expect(page.locator(".aside h2")).to_contain_text("Revision 3 saved")
    assert "at=rev:3" in page.url
    page.locator(".plot a[href*='at=rev:1']").first.dispatch_event("click")
    expect(page.locator(".aside h2")).to_contain_text("Revision 1 saved")


def test_an_event_that_is_closed_twice_at_once_leaves_the_run_open(page: Page, stack: Stack, tenant: Tenant) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    opened(page, stack, f"runs/{told.run.id}/")
    page.locator(".plot a[href*='at=rev:1']").first.dispatch_event("click")
    expect(page.locator("[data-close]")).to_be_visible()
    page.evaluate("""() => {
        for (let times = 0; times < 2; times += 1) document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    }""")
    expect(page.locator("[data-close]")).to_have_count(0)
    assert page.url == f"{stack.url}runs/{told.run.id}/"


def test_times_read_in_the_readers_zone(page: Page, stack: Stack, tenant: Tenant) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    opened(page, stack, f"runs/{told.run.id}/")
    expect(page.locator("[data-clock] span")).to_have_text("UTC+5:30")
    shown = page.locator(".head__say time").last
    at = shown.get_attribute("datetime") or ""
    expected = page.evaluate("(at) => new Date(at).toTimeString().slice(0, 8)", at)
    assert expected in shown.inner_text()


ZONES = ("Pacific/Pago_Pago", "America/New_York", "UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Kiritimati")


def test_b77_every_moment_is_in_one_labelled_zone_and_exact_on_hover(page: Page, stack: Stack, tenant: Tenant) -> None:
    """From UTC−11 to UTC+14, at the edge of a day, in both seasons: what is of the other one names its own zone."""
    year = timezone.now().year - 1
    told = [story.waiting(tenant, datetime(year, month, 15, 23, 59, 30, tzinfo=UTC))[0] for month in (1, 7)]
    browser = page.context.browser
    assert browser is not None
    for zone in ZONES:
        context = browser.new_context(timezone_id=zone, storage_state=page.context.storage_state())
        away = context.new_page()
        for one in told:
            opened(away, stack, f"runs/{one.run.id}/")
            now = datetime.now(tz=ZoneInfo(zone))
            assert away.locator("[data-clock] span").inner_text() == label(now)
            shown = away.locator('time[data-time="clock"], time[data-time="exact"]').evaluate_all(
                "all => all.map(one => [one.dateTime, one.title, one.dataset.time, one.textContent])"
            )
            assert shown
            for at, title, how, text in shown:
                assert (title, text) == (at, in_zone(datetime.fromisoformat(at).astimezone(ZoneInfo(zone)), now, how))
        context.close()


def label(at: datetime) -> str:
    """The zone as the top bar has it."""
    minutes = int((at.utcoffset() or timedelta()).total_seconds()) // 60
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'−' if minutes < 0 else '+'}{hours}" + (f":{rest:02d}" if rest else "")


def in_zone(at: datetime, now: datetime, how: str) -> str:
    """A moment as the page says it: with its day unless that is today, with its year unless that is this one."""
    elsewhere = "" if at.utcoffset() == now.utcoffset() else f" {label(at)}"
    part = f".{at.microsecond // 1000:03d}" if how == "exact" else ""
    year = "" if at.year == now.year else f"{at.year} "
    day = "" if at.date() == now.date() else f"{at.day} {at:%b} {year}"
    return f"{day}{at:%H:%M:%S}{part}{elsewhere}"


def test_a_lost_server_is_said_and_switches_forms_off(page: Page, stack: Stack, tenant: Tenant) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    opened(page, stack, f"runs/{told.run.id}/goal/")
    page.fill("#goal", "Typed before the line was cut.")
    page.fill("#reason", "A reason.")
    stack.processes[-1].kill()
    state = page.locator("[data-live-state]")
    expect(state).to_have_attribute("data-live-state", "offline", timeout=15000)
    expect(page.locator("[data-off-notice]")).to_contain_text("Offline since")
    expect(page.get_by_role("button", name="Revise the goal")).to_be_disabled()
    page.get_by_role("button", name="Revise the goal").click(force=True)
    assert page.input_value("#goal") == "Typed before the line was cut."
    assert page.url.endswith("/goal/")


def test_an_ended_session_is_said(page: Page, stack: Stack, tenant: Tenant) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    opened(page, stack, "inbox/")
    page.context.clear_cookies()
    hint(told.run)
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "ended")
    expect(page.locator("[data-off-notice]")).to_contain_text("Your session has ended.")
    expect(page.locator("[data-row]")).to_have_count(1)


def test_the_theme_is_remembered(page: Page, stack: Stack, tenant: Tenant) -> None:
    opened(page, stack, "")
    page.locator(".menu--person summary").click()
    page.locator('.menu--person [data-theme-choice="dark"]').click()
    page.reload()
    assert page.get_attribute("html", "data-theme") == "dark"
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize("width", [390, 720, 1440])
def test_nothing_scrolls_sideways(page: Page, stack: Stack, tenant: Tenant, width: int) -> None:
    now = timezone.now()
    waiting, _ = story.waiting(tenant, now - timedelta(minutes=5), "A long title " * 12)
    story.unknown(tenant, now - timedelta(minutes=9))
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("", "inbox/", "runs/", "runs/new/", f"runs/{waiting.run.id}/", "design/"):
        page.goto(stack.url + path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_a_refused_upload_keeps_the_chosen_files(page: Page, stack: Stack, tenant: Tenant) -> None:
    opened(page, stack, "runs/new/")
    good: FilePayload = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"date,fund,company,ticker,weight(%)\n"}
    page.set_input_files("#file-a", good)
    page.set_input_files("#file-b", {**good, "name": "b.csv"})
    page.fill("#goal", "My goal.")
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator("#new-refusal")).to_contain_text("No run was started.")
    assert page.evaluate("document.getElementById('file-b').files.length") == 1
    assert page.input_value("#goal") == "My goal."
    assert not Run.objects.filter(tenant=tenant).exists()


def test_the_axis_is_moved_along_by_keyboard_and_closing_goes_back(page: Page, stack: Stack, tenant: Tenant) -> None:
    told, _ = story.waiting(tenant, timezone.now() - timedelta(minutes=5))
    opened(page, stack, f"runs/{told.run.id}/")
    newest = page.locator(".aside h2").inner_text()
    page.locator("[data-axis]").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".aside h2")).not_to_have_text(newest)
    assert "at=" in page.url
    page.keyboard.press("Escape")
    expect(page.locator(".aside h2")).to_have_text(newest)
    assert "at=" not in page.url
    page.locator(".plot a[href*='at=rev:1']").first.dispatch_event("click")
    expect(page.locator(".aside h2")).to_contain_text("Revision 1 saved")
    page.get_by_role("link", name="Close").click()
    expect(page.locator(".aside h2")).to_have_text(newest)
    assert page.url.rstrip("?").endswith(f"{told.run.id}/")


def test_a_lineage_is_a_tree_for_the_keyboard(page: Page, stack: Stack, tenant: Tenant) -> None:
    root = story.completed(tenant, timezone.now() - timedelta(minutes=5)).run
    fork = forked(root)
    below = forked(fork)
    opened(page, stack, f"runs/{fork.id}/lineage/")
    expect(page.get_by_role("treeitem")).to_have_count(3)
    here = page.locator("[data-node][aria-current]")
    here.focus()
    expect(here).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowLeft")
    expect(here).to_have_attribute("aria-expanded", "false")
    expect(page.locator("[data-node]").nth(2)).to_be_hidden()

    Run.objects.filter(id=root.id).update(title="Renamed")
    hint(fork)
    expect(page.locator("[data-node]").first).to_contain_text("Renamed")
    expect(here).to_have_attribute("aria-expanded", "false")
    expect(here).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{below.id}/")
