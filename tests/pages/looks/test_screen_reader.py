"""Every page as a screen reader has it: the tree that Chromium hands to one, on all places of the gallery."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.pages.looks.conftest import Furnished, Signed
from tests.pages.looks.places import ANN, Place
from tests.pages.looks.test_every_page import EVERY, opened

pytestmark = [pytest.mark.browser, pytest.mark.process]

A_THIRD = "a third of the routes"
# What somebody can act on: each needs a name.
CONTROLS = {
    "button",
    "checkbox",
    "combobox",
    "DisclosureTriangle",
    "link",
    "listbox",
    "menuitem",
    "option",
    "radio",
    "searchbox",
    "slider",
    "spinbutton",
    "switch",
    "tab",
    "textbox",
    "treeitem",
}
NAMED = {"image", "graphics-document", "table", "dialog", "region", "tree"}


@dataclass(frozen=True)
class Node:
    """One thing that is read out. `within`: the roles around it, the outermost first."""

    role: str
    name: str
    level: int
    within: tuple[str, ...]


def tree(page: Page) -> list[Node]:
    """What a screen reader gets of a page, in its order."""
    session = page.context.new_cdp_session(page)
    found: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    by_id = {one["nodeId"]: one for one in found}
    return list(_walk(by_id, found[0], ()))


def _walk(by_id: dict[str, Any], one: dict[str, Any], within: tuple[str, ...]) -> Iterator[Node]:
    role = one.get("role", {}).get("value", "")
    if not one["ignored"]:
        level = next((p["value"]["value"] for p in one.get("properties", []) if p["name"] == "level"), 0)
        yield Node(role, str(one.get("name", {}).get("value", "")).strip(), level, within)
        within = (*within, role)
    for child in one.get("childIds", []):
        if child in by_id:
            yield from _walk(by_id, by_id[child], within)


# ── what can be wrong ────────────────────────────────────────────────────────


def faults(page: Page) -> list[str]:
    """What a screen reader's user would miss on a page, in words."""
    nodes = tree(page)
    return [
        *_headings([node for node in nodes if node.role == "heading"]),
        *_landmarks(nodes),
        *(f"{node.role} without a name in {' > '.join(node.within[-3:])}" for node in nodes if _nameless(node)),
        *_tables(page),
        *_of_the_document(page),
    ]


def _nameless(node: Node) -> bool:
    return node.role in CONTROLS | NAMED and not node.name


def _headings(found: list[Node]) -> list[str]:
    levels = [node.level for node in found]
    wrong = [] if levels.count(1) == 1 else [f"{levels.count(1)} headings of the first level"]
    for before, after, node in zip(levels, levels[1:], found[1:], strict=False):
        if after > before + 1:
            wrong.append(f"“{node.name}” is a heading {after} below a heading {before}")
    return wrong + [f"an empty heading {node.level}" for node in found if not node.name]


def _landmarks(nodes: list[Node]) -> list[str]:
    roles = [node.role for node in nodes]
    wrong = [] if roles.count("main") == 1 else [f"{roles.count('main')} main landmarks"]
    inside_the_room = "banner" in roles
    if inside_the_room and "navigation" not in roles:
        wrong.append("no navigation")
    around = {node.name: node.within for node in nodes if node.role == "heading" and node.level == 1}
    return wrong + [f"the title “{name}” is not in main" for name, within in around.items() if "main" not in within]


# Tables that hold data say what they hold and what each column is; a chart says its figures in words.
TABLES = """() => [...document.querySelectorAll("main table")].filter((one) => one.checkVisibility()).flatMap((one) => {
    const rows = [...one.tBodies].flatMap((body) => [...body.rows]).length;
    const heads = [...one.querySelectorAll("th")];
    const empty = heads.filter((head) => !head.textContent.trim()).length;
    return [rows && !heads.length && "no head", empty && `${empty} empty heads`].filter(Boolean)
        .map((said) => `a table with ${said}: ${one.textContent.trim().replace(/\\s+/g, " ").slice(0, 60)}`);
})"""
CHARTS = """() => [...document.querySelectorAll("svg:not(svg svg)")].filter((one) => one.checkVisibility())
    .filter((one) => !one.closest("[aria-hidden=true]"))
    .filter((one) => !one.getAttribute("aria-label") && !one.getAttribute("aria-labelledby") && !one.querySelector(":scope > title"))
    .map((one) => `a drawing without words: ${one.getAttribute("class")}`)"""
TIED = """() => [...document.querySelectorAll("[aria-describedby], [aria-labelledby], [aria-controls]")].filter((one) => one.checkVisibility()).flatMap((one) =>
    ["aria-describedby", "aria-labelledby", "aria-controls"].flatMap((name) => (one.getAttribute(name) || "").split(" "))
        .filter((id) => id && !document.getElementById(id)).map((id) => `${one.id || one.tagName} points at ${id}, which is not there`))"""


def _tables(page: Page) -> list[str]:
    found: list[str] = page.evaluate(TABLES) + page.evaluate(CHARTS) + page.evaluate(TIED)
    return found


def _of_the_document(page: Page) -> list[str]:
    wrong = [] if page.get_attribute("html", "lang") == "en" else ["no language"]
    if " · Signalbox" not in page.title() and page.title() != "Signalbox":
        wrong.append(f"the title of the document is “{page.title()}”")
    focused = page.evaluate("document.activeElement.tagName + (document.activeElement.getAttribute('role') || '')")
    if focused == "BODY":
        wrong.append("nothing has the focus")
    return wrong


def some(furnished: Furnished) -> list[Place]:
    """A page of every third route."""
    return list({one.route: one for one in reversed(furnished.places)}.values())[::3]


@pytest.mark.parametrize("which", [A_THIRD, pytest.param(EVERY, marks=pytest.mark.matrix)])
def test_a_screen_reader_finds_its_way_on_every_page(
    furnished: Furnished, site: str, signed: Signed, which: str
) -> None:
    places = furnished.places if which == EVERY else some(furnished)
    wrong = {place.name: found for place, page in opened(places, site, signed) if (found := faults(page))}
    assert not wrong, "\n".join(f"{place}: {what}" for place, what in wrong.items())


def test_a_state_that_has_changed_is_said_aloud(furnished: Furnished, site: str, signed: Signed) -> None:
    page = signed(ANN).new_page()
    page.goto(f"{site}runs/{furnished.house.runs['waiting']}/")
    said = page.locator("[data-said]")
    expect(said).to_have_text("")
    page.evaluate("""() => {
        document.querySelector("main .head .chip").textContent = "COMPLETED";
        document.dispatchEvent(new CustomEvent("htmx:afterSettle"));
    }""")
    expect(said).to_contain_text("Now: COMPLETED")
    assert [node.role for node in tree(page)].count("status") >= 1


# What the signs of the axis lead to, and what the rest of the page does.
SIGNS = """() => {
    const links = [...document.querySelectorAll("main a[href*='at=']")];
    const led = (inside) => links.filter((one) => Boolean(one.closest("[data-axis]")) === inside)
        .map((one) => new URL(one.getAttribute("href"), location.href).searchParams.get("at")).filter(Boolean);
    return [led(true), led(false)];
}"""


def test_each_event_of_the_axis_is_read_out_in_the_list_below_it(
    furnished: Furnished, site: str, signed: Signed
) -> None:
    page = signed(ANN).new_page()
    page.goto(f"{site}runs/{furnished.house.runs['published']}/?fold=0")
    drawn, listed = page.evaluate(SIGNS)
    assert drawn and set(drawn) <= set(listed)
