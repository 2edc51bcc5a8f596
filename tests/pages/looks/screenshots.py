"""`make screenshots`: every page in both themes at three widths, for a person to look at. Not a test.

LOOKS="run- stop" keeps the pages whose names begin with one of these words.
"""

import os

import pytest

from console.environment import BASE_DIR
from tests.pages.looks.conftest import Furnished, Signed

pytestmark = [pytest.mark.browser, pytest.mark.process]

FOLDER = BASE_DIR / "var" / "screenshots"
WIDTHS = {1440: 900, 1024: 768, 390: 844}  # px, and the height of what fits one screen


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_of_every_page(furnished: Furnished, site: str, signed: Signed, theme: str, width: int) -> None:
    wanted = tuple(os.environ.get("LOOKS", "").split()) or ("",)
    folder = FOLDER / f"{theme}-{width}"
    folder.mkdir(parents=True, exist_ok=True)
    size = {"width": width, "height": WIDTHS[width]}
    browsers = {}
    for place in furnished.places:
        if not place.name.startswith(wanted):
            continue
        if place.who not in browsers:
            browsers[place.who] = signed(
                place.who, viewport=size, color_scheme=theme, reduced_motion="reduce"
            ).new_page()
        page = browsers[place.who]
        page.goto(site + place.path.removeprefix("/"))
        page.wait_for_load_state("networkidle")
        page.screenshot(path=folder / f"{place.name}.png", full_page=True, animations="disabled")
