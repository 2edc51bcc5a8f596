"""The list of the pages that are looked at is whole."""

from tests.doors.routes import ROUTES
from tests.pages.looks.conftest import Furnished
from tests.pages.looks.places import ANN, PARTS


def test_every_page_is_looked_at(furnished: Furnished) -> None:
    """Whoever adds a page adds it to tests/pages/looks/places.py."""
    pages = {name for name, route in ROUTES.items() if route.door == "page"} - PARTS
    looked_at = {place.route for place in furnished.places}
    assert sorted(pages - looked_at) == []
    names = [place.name for place in furnished.places]
    assert len(names) == len(set(names))


def test_every_help_that_a_page_offers_leads_to_an_entry(furnished: Furnished) -> None:
    """Whatever stands on a page: a code that nobody explains has no link."""
    guide = furnished.client(ANN).get("/design/").content.decode()
    for place in furnished.places:
        html = furnished.client(place.who).get(place.path).content.decode()
        for part in html.split('data-help="')[1:]:
            assert f'id="{part.partition(chr(34))[0]}"' in guide, (place.name, part[:60])
