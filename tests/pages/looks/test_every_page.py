"""Every page, in a real browser: usable without good eyes, no wider than its window, and light."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page

from tests.journey.inspection import ASK_AXE, AXE, COLOUR_ONLY, EVERY_RULE
from tests.pages.looks.conftest import Furnished, Signed
from tests.pages.looks.places import Place

pytestmark = [pytest.mark.browser, pytest.mark.process]

# px. 720 is what a page at 200 % of 1440 has, 360 a small phone, 320 the narrowest that WCAG 2.2 asks for.
WIDTHS = (1440, 1024, 720, 390, 360, 320)
# The elements that stick out, if the page can be scrolled to them.
WIDE = """() => document.documentElement.scrollWidth > innerWidth
    ? [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
        .slice(0, 3).map((one) => `${one.tagName}.${one.getAttribute("class") || ""}`) : []"""
# How many rows of a list are to be seen.
ROWS = '() => [...document.querySelectorAll("main [data-row]")].filter((row) => row.checkVisibility()).length'
A4 = 794  # px
# On how many edges the facts of a page begin. On a phone they stand below each other.
EDGES = '() => new Set([...document.querySelectorAll(".facts > div")].map((one) => Math.round(one.getBoundingClientRect().left))).size'

# Each rule of drawing with what breaks it, at one width.
BROKEN = {
    "a label reaches into the next line": (
        390,
        """() => [...document.querySelectorAll(".table--stack td[data-l]")]
            .filter((one) => one.checkVisibility() && one.scrollHeight > one.clientHeight + 1).map((one) => one.dataset.l)""",
    ),
    "a line begins with the dot that parts things on one line": (
        390,
        """() => [...document.querySelectorAll(".table .second, .table .why")].filter((one) => one.checkVisibility()
            && getComputedStyle(one, "::before").content.includes("·") && one.previousElementSibling
            && one.getClientRects()[0].left < one.parentElement.getBoundingClientRect().left + 1
            && [one.previousElementSibling, one.previousElementSibling.firstElementChild]
                .some((near) => near && !getComputedStyle(near).display.startsWith("inline")))
            .map((one) => one.textContent)""",
    ),
    "what stands under a heading begins lower than its place": (
        1440,
        """() => [...document.querySelectorAll("form.stack, form.stop-form, .sect__body")].filter((form) => {
            const first = [...form.children].find((one) => one.checkVisibility());
            return first && first.getBoundingClientRect().top > form.getBoundingClientRect().top + 1;
        }).map((form) => form.textContent.trim().slice(0, 40))""",
    ),
    "the name of a step breaks inside a word where there is room": (
        1024,
        """() => [...document.querySelectorAll(".table td.k-step")].filter((one) => one.checkVisibility()
            && one.textContent.trim().length < 23 && [...one.querySelectorAll("a, bdi")].some((name) => name.getClientRects().length > 1))
            .map((one) => one.textContent)""",
    ),
    "the act of a row is not at its end": (
        1440,
        """() => [...document.querySelectorAll(".table td:last-child > .btn")].filter((one) =>
            one.getBoundingClientRect().right < one.closest("table").getBoundingClientRect().right - 1).map((one) => one.textContent)""",
    ),
    "the first of several columns begins farther in than its heading": (
        1440,
        """() => [...document.querySelectorAll(".verdicts, .three, .facts")].filter((one) => {
            const first = [...one.children].find((part) => part.matches("div, section"));
            const inner = first && first.firstElementChild.getBoundingClientRect().left;
            return first && inner > one.closest(".cols__main, .page, .sect__body, .verdict, .inbox__read").getBoundingClientRect().left
                + parseFloat(getComputedStyle(one.closest(".cols__main, .page, .sect__body, .verdict, .inbox__read")).paddingLeft) + 1;
        }).map((one) => one.className)""",
    ),
    "a sign without the colours of a state": (
        1440,
        """() => [...document.querySelectorAll("main .chip")]
            .filter((one) => !getComputedStyle(one).getPropertyValue("--word")).map((one) => one.textContent)""",
    ),
}


TAGS, CLASSES = re.compile(r"<(\w+)([^>]*)>"), re.compile(r'class="([^"]*)"')

# Off by itself in axe. What a bar at the foot covers is not small, so the window is as tall as the page.
TARGETS = {"runOnly": ["target-size"], "rules": {"target-size": {"enabled": True}}}
TALL = 6000


@dataclass
class Found:
    """By the name of a page."""

    by_axe: dict[str, list[str]] = field(default_factory=dict)
    too_small: dict[str, list[str]] = field(default_factory=dict)
    too_wide: dict[str, list[str]] = field(default_factory=dict)
    off_paper: dict[str, str] = field(default_factory=dict)
    ragged: dict[str, int] = field(default_factory=dict)
    ill_drawn: dict[str, dict[str, list[str]]] = field(default_factory=dict)


EACH_PART, EVERY = "each part that a page has", "every page"


@pytest.fixture(scope="module", params=[EACH_PART, pytest.param(EVERY, marks=pytest.mark.matrix)])
def walk(request: pytest.FixtureRequest, furnished: Furnished, site: str, signed: Signed) -> Found:
    """What is wrong with which page: by axe in both themes, and by its width."""
    found, routes = Found(), set[str]()
    places = furnished.places if request.param == EVERY else few(furnished)
    for place, page in opened(places, site, signed):
        wrong = ask_axe(page, dark=place.route not in routes)
        wide, small = too_wide(page), too_small(page)
        routes.add(place.route)
        if wrong:
            found.by_axe[place.name] = wrong
        if small:
            found.too_small[place.name] = small
        if wide:
            found.too_wide[place.name] = wide
        if lost := off_paper(page):
            found.off_paper[place.name] = lost
        if (edges := facts_edges(page)) > 2:
            found.ragged[place.name] = edges
        if broken := rules_broken(page):
            found.ill_drawn[place.name] = broken
    return found


def few(furnished: Furnished) -> list[Place]:
    """Of a page of each route those among which each of their parts is seen: who has most, then who adds most to it."""
    of_each = {one.route: one for one in reversed(furnished.places)}.values()
    has = {one: parts(furnished.client(one.who).get(one.path).content.decode()) for one in of_each}
    left, chosen = set().union(*has.values()), list[Place]()
    while left:
        chosen.append(max(has, key=lambda one: len(has[one] & left)))
        left -= has[chosen[-1]]
    return chosen


def parts(html: str) -> set[tuple[str, str]]:
    """Each element with its classes: what a page is built of, and what styles tell apart."""
    return {(tag, "".join(CLASSES.findall(rest))) for tag, rest in TAGS.findall(html)}


def ask_axe(page: Page, *, dark: bool) -> list[str]:
    """What axe finds; in the dark theme only colours can be wrong that are right in the other one."""
    page.evaluate(AXE)
    wrong: list[str] = page.evaluate(ASK_AXE, EVERY_RULE)
    if dark:
        page.emulate_media(color_scheme="dark")
        wrong += [f"dark: {one}" for one in page.evaluate(ASK_AXE, COLOUR_ONLY)]
        page.emulate_media(color_scheme="light")
    return wrong


def too_wide(page: Page) -> list[str]:
    wrong = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wrong += [f"{width} px: {one}" for one in page.evaluate(WIDE)]
    page.set_viewport_size({"width": 1440, "height": 900})
    return wrong


def too_small(page: Page) -> list[str]:
    """What a finger or a shaking hand misses: less than 24 px, with something else near it."""
    wrong = []
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": TALL})
        wrong += [f"{width} px: {one}" for one in page.evaluate(ASK_AXE, TARGETS)]
    page.set_viewport_size({"width": 1440, "height": 900})
    return wrong


def off_paper(page: Page) -> str:
    """What a page lists on a screen that is as wide as paper, and not on paper."""
    page.set_viewport_size({"width": A4, "height": 1123})
    listed = page.evaluate(ROWS)
    page.emulate_media(media="print")
    printed = page.evaluate(ROWS)
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1440, "height": 900})
    return f"{printed} of {listed}" if printed < listed else ""


def facts_edges(page: Page) -> int:
    page.set_viewport_size({"width": 390, "height": 844})
    edges: int = page.evaluate(EDGES)
    page.set_viewport_size({"width": 1440, "height": 900})
    return edges


def rules_broken(page: Page) -> dict[str, list[str]]:
    """What breaks which rule of drawing."""
    broken = {}
    for rule, (width, ask) in BROKEN.items():
        page.set_viewport_size({"width": width, "height": 900})
        if found := page.evaluate(ask):
            broken[rule] = found
    page.set_viewport_size({"width": 1440, "height": 900})
    return broken


def test_labels_lines_forms_and_signs_stand_where_they_belong(walk: Found) -> None:
    assert walk.ill_drawn == {}


def test_what_a_page_lists_is_on_paper_too(walk: Found) -> None:
    assert walk.off_paper == {}


def test_the_facts_of_a_page_stand_below_each_other_on_a_phone(walk: Found) -> None:
    assert walk.ragged == {}


def test_axe_finds_nothing_on_any_page_in_either_theme(walk: Found) -> None:
    assert walk.by_axe == {}


def test_no_target_is_too_small(walk: Found) -> None:
    assert walk.too_small == {}


def test_no_page_scrolls_sideways_at_any_width(walk: Found) -> None:
    assert walk.too_wide == {}


def opened(places: Iterable[Place], site: str, signed: Signed) -> Iterator[tuple[Place, Page]]:
    """Each place with a page that shows it."""
    pages: dict[str, Page] = {}
    for place in places:
        if place.who not in pages:
            context = signed(place.who, viewport={"width": 1440, "height": 900}, color_scheme="light")
            pages[place.who] = context.new_page()
        pages[place.who].goto(site + place.path.removeprefix("/"))
        yield place, pages[place.who]
