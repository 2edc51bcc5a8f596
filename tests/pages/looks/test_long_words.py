"""Whatever people, models and tools call things, no page is wider than its window: it is drawn with the text in every free column."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from playwright.sync_api import Page, Route

from tests.pages.looks.conftest import Furnished, Signed
from tests.pages.looks.places import ANN
from tests.pages.looks.test_every_page import WIDE
from tests.pages.looks.test_texts import holding

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.matrix]
WIDTHS = (1440, 1024, 720, 390, 360)  # px
TEXTS = {
    "one word": "Overlap_of_everything_that_both_desks_hold_" * 5,
    "a long sentence": "The overlap of everything that both desks hold, with the lines that nobody could name, " * 4,
    "right to left": "مقارنة الصندوقين أ و ب لكل ما يملكه المكتبان في نهاية الربع الثاني e\u0301\u0302 " * 3,
    "combining": ("Z" + "\u0301\u0302\u0327\u0334" * 8) * 40,
}


def drawn_with(furnished: Furnished, text: str) -> dict[str, str]:
    """A page of each route, by its path, as the server draws it while the text stands everywhere."""
    places = {one.route: one for one in furnished.places if one.who == ANN and one.status == 200}
    client = furnished.client(ANN)
    try:
        with holding(text):
            return {place.path: client.get(place.path).content.decode() for place in places.values()}
    finally:
        connection.close()


def shown_alone(page: Page, html: str) -> None:
    """Styles and pictures come from the server, the page itself from here, and no panel asks for what is stored."""

    def answer(route: Route) -> None:
        kind = route.request.resource_type
        if kind == "document":
            route.fulfill(body=html, content_type="text/html; charset=utf-8")
        elif kind in ("xhr", "fetch"):
            route.abort()
        else:
            route.continue_()

    page.unroute_all()
    page.route("**/*", answer)


@pytest.mark.parametrize("name", TEXTS)
def test_no_page_scrolls_sideways_whatever_things_are_called(
    furnished: Furnished, site: str, signed: Signed, name: str
) -> None:
    with ThreadPoolExecutor(1) as beside:  # in the thread of the browser runs an event loop
        pages = beside.submit(drawn_with, furnished, TEXTS[name]).result()
    wrong, page = {}, signed(ANN).new_page()
    for path, html in pages.items():
        shown_alone(page, html)
        page.goto(site + path.removeprefix("/"))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate(WIDE)
            if wide:
                wrong[f"{path} at {width}"] = wide
    page.close()
    assert wrong == {}
