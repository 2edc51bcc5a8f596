"""What a page may cost: its bytes with all its styles and scripts, and its questions to the database."""

import gzip
import re
from functools import cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.pages.looks.conftest import Furnished

WEIGHT = 100_000  # bytes, compressed, of a page with everything that it loads
QUERIES = 12
# Routes that ask more often than they should. A number may fall and never rise; a route that keeps the budget leaves.
STILL_ABOVE = {
    "call": 26,
    "checkpoint": 15,
    "checkpoint-fork": 25,
    "run-continue": 16,
    "run-recovery": 14,
    "scope-new": 18,
    "stop": 15,
    "wait": 22,
}


@cache
def compressed(path: str) -> int:
    """The size of a static file as it travels."""
    found = finders.find(path)
    assert isinstance(found, str), path
    return len(gzip.compress(Path(found).read_bytes()))


def weight(html: str) -> int:
    """A page with its styles, scripts and icons."""
    parts = set(re.findall(r'(?:src|href)="/static/([^"#]+)', html))
    return len(gzip.compress(html.encode())) + sum(compressed(part) for part in parts)


def test_no_page_is_heavier_than_its_budget(furnished: Furnished) -> None:
    heavy = {}
    for place in furnished.places:
        found = weight(furnished.client(place.who).get(place.path).content.decode())
        if found > WEIGHT:
            heavy[place.name] = found
    assert heavy == {}


def test_every_page_answers_and_asks_the_database_no_more_often_than_its_budget(furnished: Furnished) -> None:
    most = dict.fromkeys((place.route for place in furnished.places), 0)
    for place in furnished.places:
        client = furnished.client(place.who)
        with CaptureQueriesContext(connection) as asked:
            answer = client.get(place.path)
        assert answer.status_code == place.status, (place, answer.status_code)
        most[place.route] = max(most[place.route], len(asked))
    above = {route: number for route, number in most.items() if number > STILL_ABOVE.get(route, QUERIES)}
    assert above == {}
    kept = [route for route in STILL_ABOVE if most[route] <= QUERIES]
    assert kept == [], "these keep the budget by now"
