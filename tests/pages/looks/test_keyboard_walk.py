"""Every page by keyboard alone: what can be clicked can be reached, nothing holds the focus, and `?` tells the keys truly."""

import string
from collections.abc import Iterable, Mapping

import pytest
from playwright.sync_api import Page, expect

from tests.pages.looks.conftest import Furnished, Signed
from tests.pages.looks.places import ANN, Place
from tests.pages.looks.test_by_keyboard import stay
from tests.pages.looks.test_every_page import opened

pytestmark = [pytest.mark.browser, pytest.mark.process]

A_FEW, EVERY = "a few pages", "every page"
FEW = ("wait-open", "inbox", "run-goal", "delegations")
walked = pytest.mark.parametrize("which", [A_FEW, pytest.param(EVERY, marks=pytest.mark.matrix)])

# Everything with the hand on it that no key reaches. Signs on the axis and nodes of a tree are reached by arrows instead, and the
# events of the axis stand in the list below it; the bars of the picture above it lead where the links around it lead as well.
UNREACHED = """() => [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility()).flatMap((one) => {
    const said = `${one.tagName}.${one.getAttribute("class") || ""} ${one.textContent.trim().slice(0, 40)}`;
    if (one.tabIndex > 0) return [`${said}: out of its order`];
    const acts = one.matches("a, button, input, select, textarea, summary, [data-key], :is([hx-get], [hx-post]):not([hx-trigger], form)");
    if (acts && one.tabIndex < 0 && !one.closest("[data-axis], [data-tree], .whole")) return [`${said}: no stop for Tab`];
    const hand = getComputedStyle(one).cursor === "pointer";
    if (hand && !one.closest("a, button, input, select, summary, label")) return [`${said}: only for the mouse`];
    return [];
})"""
# The stops of a page in its order; of a group of radios one.
STOPS = """() => {
    const stops = [...document.querySelectorAll("body *")].filter((one) => one.tabIndex >= 0 && one.checkVisibility()
        && !one.matches(":disabled, a:not([href])"));
    const groups = new Set();
    window.stops = stops.filter((one) => {
        if (one.type !== "radio") return true;
        const key = one.name, group = stops.filter((other) => other.type === "radio" && other.name === key);
        const stop = group.find((other) => other.checked);
        return stop ? one === stop : !groups.has(key) && groups.add(key);
    });
    return window.stops.length;
}"""
HERE = """() => {
    const it = document.activeElement, style = getComputedStyle(it), search = it.closest(".bar__search");
    const inside = [...it.children].some((one) => getComputedStyle(one).outlineStyle !== "none"); // of a node, its own line
    const ring = inside || style.outlineStyle !== "none" || (search && getComputedStyle(search).outlineStyle !== "none");
    const parts = it.type === "date" || it.type === "datetime-local";
    return { at: window.stops.indexOf(it), ring, parts, what: it.outerHTML.slice(0, 120) };
}"""

INSIDE = (
    24  # stops inside of fields for a time: day, month, year, hour, minute and the calendar, of two fields on a page
)
WHAT = "(at) => window.stops[at].outerHTML.slice(0, 160)"


def chosen(furnished: Furnished, which: str) -> Iterable[Place]:
    return [place for place in furnished.places if which == EVERY or place.name in FEW]


@walked
def test_whatever_can_be_clicked_is_a_stop_for_tab_and_each_stop_shows_itself(
    furnished: Furnished, site: str, signed: Signed, which: str
) -> None:
    wrong = {}
    for place, page in opened(chosen(furnished, which), site, signed):
        found = page.evaluate(UNREACHED) + walk(page)
        if found:
            wrong[place.name] = found
    assert not wrong, said(wrong)


def said(wrong: Mapping[str, object]) -> str:
    return "\n".join(f"{place}: {what}" for place, what in wrong.items())


def walk(page: Page) -> list[str]:
    """Tab from the first stop through the whole page: each one in its order, with a ring, and out at the end."""
    count, met, wrong = page.evaluate(STOPS), [0], []
    page.evaluate("window.stops[0].focus()")
    for _ in range(count + INSIDE):
        page.keyboard.press("Tab")
        here = page.evaluate(HERE)
        if here["parts"] and here["at"] == met[-1]:
            continue
        if here["at"] in met or here["at"] < 0:
            break
        met.append(here["at"])
        if not here["ring"]:
            wrong.append(f"no ring: {here['what']}")
    if met != list(range(count)):
        missed = next((at for at in range(count) if at not in met), met[-1])
        wrong.append(f"{len(met)} of {count} stops, missed: {page.evaluate(WHAT, missed)}, before: {met[-3:]}")
    return wrong


# What a key did: it clicked something, moved the focus, or went somewhere in the page.
WATCH = """() => {
    window.did = [];
    const note = (event) => { if (!event.target.closest("[data-keys]")) window.did.push(event.type); };
    document.addEventListener("click", note, true);
    document.addEventListener("focusin", note, true);
    window.addEventListener("hashchange", () => window.did.push("hash"));
}"""
LISTED = """[...document.querySelectorAll("#help dt")].map((one) => one.textContent)"""


@walked
def test_the_question_mark_lists_the_keys_that_do_something_here_and_no_others(
    furnished: Furnished, site: str, signed: Signed, which: str
) -> None:
    wrong = {}
    for place, page in opened(chosen(furnished, which), site, signed):
        if place.who != ANN or place.status != 200 or place.route == "tenant":
            continue
        page.keyboard.press("?")
        listed = page.evaluate(LISTED)
        page.keyboard.press("Escape")
        page.route("**/*", stay)
        page.evaluate(WATCH)
        acting = {key for key in [*string.ascii_lowercase, *string.digits, *"[]+-/"] if pressed(page, key)}
        page.unroute("**/*", stay)
        single = {key for key in listed if len(key) == 1} - {"?"}
        if acting != single:
            wrong[place.name] = f"said and idle: {sorted(single - acting)}, unsaid: {sorted(acting - single)}"
    assert not wrong, said(wrong)


# Asked once the page has come to rest: that it went somewhere in itself is told a moment after, and is not the next key's doing.
DID = "() => new Promise((told) => requestAnimationFrame(() => setTimeout(() => told(window.did.length), 0)))"
# Where a key is pressed: on the title, or, to pick a row, on the first one that can be picked.
FROM = (
    "document.querySelector('h1').focus()",
    "(document.querySelector('[data-row]:has(.check) [data-row-link]') || document.querySelector('h1')).focus()",
)


def pressed(page: Page, key: str) -> bool:
    """Whether a key does something here."""
    page.evaluate(FROM[key == "x"])
    if key == "g":
        return False  # it waits for a second one
    page.evaluate("window.did = []")
    page.keyboard.press(key)
    did = bool(page.evaluate(DID))
    page.keyboard.press("Escape")
    return did


def test_escape_closes_the_menu_that_it_opened_and_gives_the_focus_back(site: str, signed: Signed) -> None:
    page = signed(ANN, viewport={"width": 1280, "height": 800}).new_page()
    page.goto(f"{site}runs/")
    summary = page.locator(".menu--person > summary")
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator(".menu--person")).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(page.locator(".menu--person")).not_to_have_attribute("open", "")
    expect(summary).to_be_focused()


def test_escape_closes_the_event_that_is_looked_at(furnished: Furnished, site: str, signed: Signed) -> None:
    page = signed(ANN, viewport={"width": 1280, "height": 800}).new_page()
    page.goto(f"{site}runs/{furnished.house.runs['published']}/?at=rev:2&fold=0")
    expect(page.locator("[data-close]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("[data-close]")).to_be_hidden()


def test_control_and_enter_sends_the_form_it_is_in_and_no_other(
    furnished: Furnished, site: str, signed: Signed
) -> None:
    page = signed(ANN, viewport={"width": 1280, "height": 800}).new_page()
    page.goto(f"{site}waits/{furnished.house.waits['open']}/")
    page.evaluate("""() => {
        window.sent = [];
        window.addEventListener("submit", (event) => {
            event.preventDefault();
            window.sent.push(event.target.querySelector("[name=verdict]").value);
        }, true);
    }""")
    page.locator("#reject textarea").fill("Not this pair.")
    page.keyboard.press("Control+Enter")
    assert page.evaluate("window.sent") == ["REJECT"]
    page.locator("h1").focus()
    page.keyboard.press("Control+Enter")
    assert page.evaluate("window.sent") == ["REJECT"]


def test_a_refusal_describes_the_field_that_it_names(furnished: Furnished, site: str, signed: Signed) -> None:
    page = signed(ANN, viewport={"width": 1280, "height": 800}).new_page()
    page.goto(f"{site}runs/{furnished.house.runs['waiting']}/budget/")
    page.locator("#cap").fill("many")
    page.locator("#reason").fill("It needs more.")
    page.keyboard.press("Control+Enter")
    refused = page.locator("#refused")
    expect(refused).to_be_focused()
    expect(page.locator("#cap")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#cap")).to_have_attribute("aria-describedby", "refused")
    expect(page.locator("#cap")).to_have_accessible_description(refused.inner_text().replace("\n", " "))
