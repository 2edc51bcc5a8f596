"""Where one hears of things, in a real browser: added, tested, changed, paused and removed; on a phone and without script."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from accounts.models import Endpoint, Membership, Notice
from tests.pages.test_acting_in_the_browser import signed_in
from tests.receiver import Receiver, receiver
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.process]
PHONE = {"width": 360, "height": 740}


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as got:
        yield got


@pytest.fixture
def stack(common_site: Stack) -> Stack:
    """A web server that may tell this machine."""
    return common_site


@pytest.fixture
def name(own: Membership) -> str:
    """Who signs in, in a tenant of their own."""
    return own.user.username


def add(page: Page, site: str, hook: Receiver, name: str = "desk") -> None:
    page.goto(f"{site}settings/notifications/")
    page.get_by_label("What you call it").fill(name)
    page.get_by_label("Address", exact=True).fill(hook.url)
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_text("It is stored. The address is not shown again.")).to_be_visible()


def test_an_endpoint_is_added_tested_and_shows_the_result_by_itself(
    browser: Browser, stack: Stack, name: str, hook: Receiver
) -> None:
    page = signed_in(browser, stack.url, name=name)
    add(page, stack.url, hook)
    page.get_by_role("link", name="Change, test…").click()
    expect(page.get_by_role("heading", name="desk")).to_be_visible()
    page.get_by_role("button", name="Send a test").click()
    told = page.locator("#told")
    expect(told).to_contain_text("on its way")
    telling = stack.start_worker("notices", queue="notices"), stack.start_beat()
    try:
        expect(told.get_by_role("cell", name="told", exact=True)).to_be_visible(timeout=30_000)
    finally:
        for process in telling:
            process.kill()
    assert hook.bodies[0]["kind"] == "TEST"
    assert "s3cr3t" not in page.content()
    page.context.close()


def test_an_endpoint_is_changed_paused_and_removed(browser: Browser, stack: Stack, name: str, hook: Receiver) -> None:
    page = signed_in(browser, stack.url, name=name)
    add(page, stack.url, hook)
    page.get_by_role("link", name="Change, test…").click()
    page.get_by_label("What you call it").fill("night desk")
    page.get_by_label("A secret to sign with").fill("a secret of some length")
    page.get_by_label("a run is held").uncheck()
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_role("heading", name="night desk")).to_be_visible()
    expect(page.locator("dl.facts")).to_contain_text("yes")
    expect(page.get_by_label("a run is held")).not_to_be_checked()
    page.get_by_role("button", name="Pause it").click()
    expect(page.locator(".head__say")).to_contain_text("It is paused since")
    page.get_by_role("button", name="Tell it again").click()
    expect(page.get_by_role("button", name="Pause it")).to_be_visible()
    page.get_by_role("link", name="Remove it…").click()
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_text("Nobody is told anything outside these pages.")).to_be_visible()
    page.context.close()


def test_a_private_address_is_refused_and_what_was_typed_stays(
    browser: Browser, stack: Stack, name: str, hook: Receiver
) -> None:
    page = signed_in(browser, stack.url, name=name)
    page.goto(f"{stack.url}settings/notifications/")
    page.get_by_label("What you call it").fill("inside")
    page.get_by_label("Address", exact=True).fill("https://10.0.0.1/hook")
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("alert")).to_contain_text("10.0.0.1, which is not a public address")
    expect(page.get_by_label("What you call it")).to_have_value("inside")
    expect(page.get_by_label("Address", exact=True)).to_have_value("")
    page.context.close()


def test_without_script_everything_can_be_done(browser: Browser, stack: Stack, name: str, hook: Receiver) -> None:
    page = signed_in(browser, stack.url, name=name, script=False)
    add(page, stack.url, hook, "plain")
    page.get_by_role("link", name="Change, test…").click()
    page.get_by_role("button", name="Send a test").click()
    expect(page.locator("#told")).to_contain_text("on its way")
    page.get_by_role("button", name="Pause it").click()
    expect(page.get_by_role("button", name="Tell it again")).to_be_visible()
    page.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone_nothing_scrolls_sideways(
    browser: Browser, stack: Stack, own: Membership, hook: Receiver, theme: str
) -> None:
    page = signed_in(browser, stack.url, name=own.user.username)
    add(page, stack.url, hook, "a name that is rather long for such a small screen, and goes on")
    endpoint = Endpoint.objects.get(tenant=own.tenant, removed_at=None)
    for number in range(3):
        Notice.objects.create(
            endpoint=endpoint,
            kind="HELD",
            dedupe_key=f"shown:{number}",
            subject="run",
            subject_id=endpoint.id,
            facts={"reason": "BUDGET"},
            gathered=False,
            due_at=endpoint.created_at,
            error="It did not answer in full within 10 s." if number else "",
        )
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    for path in ("settings/notifications/", f"settings/notifications/{endpoint.id}/", "inbox/?whose=mine"):
        page.goto(f"{stack.url}{path}")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path
    page.context.close()
