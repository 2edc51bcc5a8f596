"""The questions of the cases in a browser: nothing is sent that nobody chose, and the keys lead to both forms."""

import pytest
from playwright.sync_api import Page, expect

from approvals.models import Answer
from tests.cases.catalogue import CASES
from tests.cases.house import House

pytestmark = [pytest.mark.browser, pytest.mark.process]
NUMBERS = {case.title: number for number, case in CASES.items()}
CLEANING, SECRET = "Archive, cleaning", "Transfer of the evening"
CASES_WANTED = {NUMBERS[CLEANING], NUMBERS[SECRET]}


def opened(house: House, page: Page, site: str, title: str) -> None:
    page.goto(f"{site}waits/{house.wait(house.made[NUMBERS[title]][0]).id}/")


def test_what_the_model_proposes_is_taken_by_a_click_and_never_sent_by_itself(
    prepared: House, page: Page, site: str
) -> None:
    opened(prepared, page, site, CLEANING)
    months, send = page.get_by_label("Older than (months)", exact=True), page.get_by_role("button", name="Send the")
    expect(months).to_have_value("")
    expect(page.locator("#answer input:checked")).to_have_count(0)
    expect(page.locator("#answer")).to_contain_text("Proposed by the model: Yes")
    expect(page.locator("#off-a")).to_have_text(
        "Off until “Older than (months)” is filled in and “Delete the originals as well” is chosen."
    )
    send.dispatch_event("click")
    page.get_by_role("button", name="Take 1 for Older than (months)").click()
    expect(months).to_have_value("1")
    expect(months).to_be_focused()
    months.fill("24")
    page.get_by_label("No", exact=True).check()
    expect(send).not_to_have_attribute("aria-disabled", "true")
    assert Answer.objects.count() == 0
    send.click()
    expect(page.locator("#said dd").filter(has_text="24")).to_have_count(1)
    expect(page.locator("#said dd").filter(has_text="no")).to_have_count(1)


def test_the_keys_lead_to_both_forms_with_their_buttons_in_sight_and_an_answer_is_warned_of_secrets(
    prepared: House, page: Page, site: str
) -> None:
    opened(prepared, page, site, SECRET)
    expect(page.locator("#answer")).to_contain_text("No secrets: no password, no code, no key")
    page.keyboard.press("a")
    expect(page.get_by_label("In your words")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    expect(page.get_by_label("Why not")).to_be_focused()
    decline, bar = page.get_by_role("button", name="Decline to answer"), page.locator("body > .hints")
    button, foot = decline.bounding_box(), bar.bounding_box()
    assert button and foot and button["y"] + button["height"] <= foot["y"]
    expect(decline).to_have_attribute("aria-disabled", "true")
    page.keyboard.type("Codes are never given.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#wait-live .notice h2")).to_contain_text("declined to answer")
