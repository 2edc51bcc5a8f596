"""Help in place: each state, refusal code and badge explains itself where it stands, with and without script."""

import pytest
from playwright.sync_api import Page, expect

from tests.pages.looks.conftest import Furnished, Signed
from tests.pages.looks.places import ANN

pytestmark = [pytest.mark.browser, pytest.mark.process]


@pytest.fixture
def page(signed: Signed) -> Page:
    return signed(ANN, viewport={"width": 1024, "height": 768}).new_page()


def test_a_state_explains_itself_on_a_click_and_gives_the_focus_back(
    furnished: Furnished, site: str, page: Page
) -> None:
    page.goto(f"{site}waits/{furnished.house.waits['open']}/")
    chip = page.locator("main .head a.chip").first
    chip.click()
    shown = page.locator("#help")
    expect(shown).to_be_visible()
    expect(shown).to_contain_text("Asked, bound to one revision and its digests.")
    expect(shown).to_contain_text("Acts next")
    expect(shown).to_be_focused()
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    expect(chip).to_be_focused()


def test_the_help_is_reached_and_left_by_keyboard_alone(furnished: Furnished, site: str, page: Page) -> None:
    page.goto(f"{site}runs/{furnished.house.runs['refused']}/")
    code = page.locator("main .head a[data-help='code-PIN_UNAVAILABLE']")
    code.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#help")).to_contain_text("Bring that version back, then ask it to try again")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="In the glossary")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/design/#code-PIN_UNAVAILABLE")


def test_the_help_stays_inside_a_narrow_window(furnished: Furnished, site: str, signed: Signed) -> None:
    page = signed(ANN, viewport={"width": 360, "height": 640}).new_page()
    page.goto(f"{site}calls/{furnished.house.calls['lost']}/")
    page.locator("main a.effect").first.click()
    expect(page.locator("#help")).to_be_visible()
    box = page.locator("#help").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360 and box["y"] + box["height"] <= 641


def test_the_live_state_explains_itself_as_it_is(site: str, page: Page) -> None:
    page.goto(site)
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "live")
    page.locator("[data-live-state] a").click()
    expect(page.locator("#help")).to_contain_text("Changes arrive by themselves")


def test_without_script_the_same_link_opens_the_glossary_there(furnished: Furnished, site: str, signed: Signed) -> None:
    page = signed(ANN, java_script_enabled=False).new_page()
    page.goto(f"{site}waits/{furnished.house.waits['open']}/")
    page.locator("main .head a.chip").first.click()
    page.wait_for_url("**/design/#wait-OPEN")
    expect(page.locator("#wait-OPEN")).to_contain_text("bound to one revision")


def test_without_script_a_page_does_not_say_that_it_connects(site: str, signed: Signed) -> None:
    page = signed(ANN, java_script_enabled=False).new_page()
    page.goto(f"{site}runs/")
    said = page.locator(".bar .live:visible")
    expect(said).to_have_count(1)
    expect(said).to_contain_text("Not live")
    page.get_by_role("link", name="Load again").click()
    page.wait_for_url(f"{site}runs/")


def test_without_script_no_key_is_offered_that_does_nothing(site: str, signed: Signed) -> None:
    page = signed(ANN, java_script_enabled=False).new_page()
    for path in ("", "inbox/", "runs/"):
        page.goto(site + path)
        expect(page.locator(":is(main, .bar) kbd:visible, .hints ul kbd:visible")).to_have_count(0)
