"""The traps, through what a page says to somebody who reads it: each is named in words at its top, before the call itself."""

import pytest
from playwright.sync_api import Page, expect

from runs.models import Run
from tests.cases.catalogue import CASES
from tests.cases.house import House

pytestmark = [pytest.mark.browser, pytest.mark.process]
NUMBERS = {case.title: number for number, case in CASES.items()}
SAYS = {
    "North gate, terms renewed": [
        "1 of 27 lines of body is not as approved last",
        "https://larkspur-trading.example/form-b",
        "https://larkspur-trading.example.form-b.info/",
        "line 28 of the difference below",
    ],
    "South gate, terms renewed": [
        "and to no other account",
        "or to another account on a driver's word",
        "line 16 of the difference below",
    ],
    "Alder Steel, AS-13": [
        "account is “DE02120300000000220051”: 2 characters have changed places against “DE02120300000000202051”",
        "approved 12 times. This one never was",
    ],
    "Press note, December": [
        "U+0430 cyrillic small letter a",
        "1 character differs against “press@larkspur-trading.example”",
    ],
    "Minutes of 2024": ["Odd character in file: U+202E right-to-left override"],
    "Aspen Tools, AT-5": ["Odd character in account: U+200B zero width space", "approved 4 times. This one never was"],
    "Willow Estates, WE-7": [
        "amount is “18405.00”: 10 times the last one, “1840.50”",
        "the decimal point is not where it was",
    ],
    "Limit of 7702-A, fourth quarter": [
        "8102 more than the last one, which was 9007199254740997",
        "it went by +2 each time",
    ],
    "Juniper Lab, JL-9": [
        "h.lindqvist rejected a call like it in this run",
        "It must not be paid a second time.",
        'reference: "JL-9" → "JL-9 corrected"',
    ],
    "Linden Glass, LG-4": [
        "b.osei rejected the model’s call and wrote this one in its place",
        '"310.00" → "3100.00"',
    ],
    "Sorrel Media, SM-1": ["New here: account “LU280019400644750000”", "payee “Sorrel Media”"],
    "Old exports, week 47": [
        "delete_file was defined anew since it was approved last",
        "Version 1 then, version 2 now",
    ],
}
STALE = "Elm Joinery, EJ-12"
CASES_WANTED = {NUMBERS[title] for title in (*SAYS, STALE, "Haulage, August")}


def opened(house: House, page: Page, site: str, title: str) -> None:
    """Open the page of what is asked about a case by now."""
    page.goto(f"{site}waits/{house.wait(house.made[NUMBERS[title]][0]).id}/")


@pytest.mark.parametrize("title", SAYS)
def test_a_trap_is_named_in_words_before_the_call(prepared: House, page: Page, site: str, title: str) -> None:
    opened(prepared, page, site, title)
    points = page.locator("#points")
    for said in SAYS[title]:
        expect(points).to_contain_text(said)
    box, call = points.bounding_box(), page.get_by_role("heading", name="The call").bounding_box()
    assert box and call and box["y"] + box["height"] <= call["y"] and box["y"] < 900


def test_where_nothing_stands_out_the_page_says_so_and_no_more(prepared: House, page: Page, site: str) -> None:
    opened(prepared, page, site, "Haulage, August")
    expect(page.locator("#points")).to_contain_text("Nothing stands out against the earlier calls like it.")
    expect(page.locator("#points")).to_contain_text("That says nothing of whether the call is right.")


def test_a_page_that_went_stale_while_it_was_read_decides_nothing(prepared: House, page: Page, site: str) -> None:
    opened(prepared, page, site, STALE)
    runs = prepared.made[NUMBERS[STALE]]
    expect(page.locator("[data-live-state]")).to_contain_text("Live")
    page.wait_for_load_state("networkidle")  # nothing tells it of the move after that, as this process sends no hints
    page.get_by_label("Your reason").fill("As ordered.")
    moves = CASES[NUMBERS[STALE]].while_looked_at
    assert moves is not None
    moves(prepared, runs)
    prepared.go_on(runs[0])
    page.get_by_role("button", name="Approve this call").dispatch_event("click")
    expect(page.locator("main")).to_contain_text("b.osei rejected")
    assert Run.objects.get(id=runs[0]).status == "WAITING"
    opened(prepared, page, site, STALE)
    expect(page.locator("#points")).to_contain_text("b.osei rejected the model’s call and wrote this one in its place")
    expect(page.locator("#points")).to_contain_text('"480.00" → "4800.00"')
