"""The list of the pages that are looked at is whole."""

from tests.doors.routes import ROUTES
from tests.pages.looks.conftest import Furnished
from tests.pages.looks.places import PARTS


def test_every_page_is_looked_at(furnished: Furnished) -> None:
    """Whoever adds a page adds it to tests/pages/looks/places.py."""
    pages = {name for name, route in ROUTES.items() if route.door == "page"} - PARTS
    looked_at = {place.route for place in furnished.places}
    assert sorted(pages - looked_at) == []
    names = [place.name for place in furnished.places]
    assert len(names) == len(set(names))
