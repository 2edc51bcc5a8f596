"""A form that is sent without leaving its page says when its answer is a failure, and keeps what was typed and chosen."""

import pytest
from playwright.sync_api import expect

from tests.pages.looks.conftest import Signed
from tests.pages.looks.places import ANN

pytestmark = pytest.mark.browser
LONGEST = "\N{GRINNING FACE}" * 255  # more bytes than the head of a part may have


def test_a_new_run_whose_form_can_not_be_read_is_told_which_part_and_keeps_what_was_typed(
    signed: Signed, site: str
) -> None:
    page = signed(ANN).new_page()
    page.goto(f"{site}runs/new/")
    for field, name in (("file-a", "a.csv"), ("file-b", LONGEST)):
        page.locator(f"[name={field}]").set_input_files({"name": name, "mimeType": "text/csv", "buffer": b"x"})
    page.locator("[name=title]").fill("typed at three")
    page.locator("form[hx-post] button").last.click()
    told = page.locator("#new-refusal [role=alert]")
    expect(told.locator("h3")).to_have_text("The request could not be read")
    expect(told).to_contain_text("of the form can’t be read (it comes after")
    expect(told).to_contain_text("This form is as you left it. Sent again, it starts no second run.")
    expect(told).to_be_focused()
    expect(page.locator("main main, #new-refusal h1")).to_have_count(0)
    expect(page.locator("[name=title]")).to_have_value("typed at three")
