"""Small things that hold on every page: what a hint promises, and what asks by itself."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.pages.looks.conftest import Furnished, Signed
from tests.pages.looks.places import ANN, NEWCOMER

pytestmark = [pytest.mark.browser, pytest.mark.process]

# A page whose test says whether somebody can see it.
COVERABLE = """Object.defineProperty(document, "hidden", { get: () => window.covered === true });
window.cover = (is) => { window.covered = is; document.dispatchEvent(new Event("visibilitychange")); };"""


@pytest.fixture
def newcomer(signed: Signed) -> Iterator[Page]:
    page = signed(NEWCOMER, viewport={"width": 1440, "height": 900}).new_page()
    yield page
    page.close()


def test_a_hint_at_the_foot_is_shown_only_where_its_keys_do_something(newcomer: Page, site: str) -> None:
    newcomer.goto(f"{site}inbox/")
    expect(newcomer.locator("body > .hints li:visible")).to_have_text(["/search"])
    newcomer.goto(site)
    expect(newcomer.locator("body > .hints li:visible").first).to_have_text("giinbox")


def test_the_parts_of_the_overview_are_not_asked_for_while_nobody_can_see_them(signed: Signed, site: str) -> None:
    page = signed(ANN).new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/parts/" in request.url else None)
    page.add_init_script(COVERABLE)
    page.clock.install()
    page.goto(site)
    expect(page.locator("#parts li").first).to_be_visible()
    page.evaluate("cover(true)")
    page.clock.run_for(60_000)
    assert len(asked) == 1
    with page.expect_response(lambda answer: "/parts/" in answer.url):
        page.evaluate("cover(false)")
    with page.expect_response(lambda answer: "/parts/" in answer.url):
        page.clock.run_for(15_000)
    assert len(asked) == 3


@pytest.mark.parametrize("width", [1440, 1240, 1024, 390])
@pytest.mark.parametrize("kind", ["runs/{runs[waiting]}", "runs/{runs[refused]}", "waits/{waits[open]}"])
def test_the_way_to_stop_a_run_stands_at_the_far_right(
    signed: Signed, site: str, furnished: Furnished, kind: str, width: int
) -> None:
    page = signed(ANN, viewport={"width": width, "height": 900}).new_page()
    house = furnished.house
    page.goto(f"{site}{kind.format(runs=house.runs, waits=house.waits)}/")
    head, stop = page.locator(".head").bounding_box(), page.locator(".head .btn--grave").bounding_box()
    assert head and stop
    assert stop["x"] + stop["width"] == pytest.approx(head["x"] + head["width"], abs=1)
    page.close()


def test_on_a_phone_the_menu_says_how_much_needs_a_person_as_the_bar_does(signed: Signed, site: str) -> None:
    page = signed(ANN, viewport={"width": 390, "height": 844}).new_page()
    page.goto(f"{site}runs/")
    counted = page.locator("[data-inbox-count]").text_content()
    expect(page.locator(".menu--all > summary")).to_have_text(f"Menu {counted}")
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "live")
    page.evaluate("""() => {
        document.querySelector("[data-inbox-count]").dataset.inboxCount = "1,000+";
        document.dispatchEvent(new CustomEvent("htmx:afterSettle"));
    }""")
    page.locator(".menu--all > summary").click()
    expect(page.locator(".menu--all [data-inbox-count-too]")).to_have_text(["1,000+", "1,000+"])
    page.close()


@pytest.mark.parametrize("width", [390, 360, 320])
def test_nothing_of_the_bar_stands_over_anything_else(signed: Signed, site: str, width: int) -> None:
    page = signed(ANN, viewport={"width": width, "height": 844}).new_page()
    page.goto(f"{site}runs/")
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "live")
    for state, word in {"live": "Live", "asking": "Asking every 5 s"}.items():
        edges = page.evaluate(
            """([state, word]) => {
                const line = document.querySelector("[data-live-state]");
                line.dataset.liveState = state;
                line.querySelector("[data-live-word]").textContent = word;
                for (const one of document.querySelectorAll("[data-inbox-count-too]")) one.textContent = "1,000+";
                return [".bar__mark", "[data-live-state] a", ".menu--all > summary"]
                    .map((one) => document.querySelector(one).getBoundingClientRect()).flatMap((box) => [box.left, box.right]);
            }""",
            [state, word],
        )
        assert edges == sorted(edges) and edges[-1] <= width, (state, edges)
    page.close()


@pytest.mark.parametrize("width", [1440, 1024, 720, 620])
def test_no_hint_at_the_foot_is_cut_off(signed: Signed, site: str, furnished: Furnished, width: int) -> None:
    page = signed(ANN, viewport={"width": width, "height": 700}).new_page()
    for path in (f"calls/{furnished.house.calls['lost']}/", f"runs/{furnished.house.runs['waiting']}/", "inbox/"):
        page.goto(site + path)
        cut = page.evaluate("""() => {
            const room = document.querySelector(".hints ul").getBoundingClientRect();
            return [...document.querySelectorAll(".hints li")].filter((one) => one.checkVisibility()).filter((one) => {
                const box = one.getBoundingClientRect();
                return box.top < room.bottom - 1 && box.right > room.right + 1;
            }).map((one) => one.textContent);
        }""")
        assert cut == [], path
    page.close()
