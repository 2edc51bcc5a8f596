"""Whatever the console can do is done by keyboard alone, and is in the store then."""

import pytest
from playwright.sync_api import Page

from tests.doors.routes import ROUTES
from tests.pages.keyboard.acts import ACTS, Make
from tests.pages.keyboard.driver import Keyboard
from tests.pages.keyboard.house import House
from tests.waiting import wait_until

FEW = {"amend", "answer_choices", "delegate", "new_run", "verdict", "endpoint_add"}
EVERY = [(route, make) for route, makes in ACTS.items() for make in makes]


def cases() -> list[object]:
    return [
        pytest.param(make, id=f"{route}: {make.__name__}", marks=[] if make.__name__ in FEW else pytest.mark.matrix)
        for route, make in EVERY
    ]


def test_every_act_of_the_pages_is_among_them() -> None:
    acting = {name for name, route in ROUTES.items() if route.door == "page" and route.act is not None}
    assert acting <= set(ACTS)


@pytest.mark.browser
@pytest.mark.process
@pytest.mark.parametrize("make", cases())
def test_it_is_done_without_a_mouse(house: House, by: Keyboard, make: Make) -> None:
    journey = make(house)
    clicked = watched(by.page)
    try:
        by.open(journey.path)
        for step in journey.steps:
            step(by)
        wait_until(journey.done, f"{make.__name__} is stored: {by.page.url}", seconds=10)
        by.is_answered()  # before it is closed: Chromium may never close a page that is on its way to another one
    finally:
        journey.after()
    assert clicked == []


def watched(page: Page) -> list[str]:
    """What a pointer did, which is nothing: a click that a key makes has no place."""
    clicked: list[str] = []
    page.expose_function("clickedByHand", lambda what: clicked.append(what))  # noqa: PLW0108  the method alone is refused
    page.add_init_script(
        "addEventListener('click', (event) => { if (event.detail) clickedByHand(event.target.outerHTML); }, true)"
    )
    return clicked
