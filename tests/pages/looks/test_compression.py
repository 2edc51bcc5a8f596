"""What a browser gets from a real server is compressed, and a page with all that it loads keeps its budget as it travels."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from tests.pages.looks.conftest import Furnished, session_of
from tests.pages.looks.places import ANN
from tests.pages.looks.test_budgets import WEIGHT

pytestmark = pytest.mark.process

NAMED = 8  # the flag of a gzip header that a name follows: where Django puts its random bytes


@dataclass(frozen=True)
class Sent:
    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(site: str, path: str, **headers: str) -> Sent:
    """One request of somebody who is signed in, answered as it travels."""
    connection = HTTPConnection(urlsplit(site).netloc, timeout=30)
    cookie = f"{settings.SESSION_COOKIE_NAME}={session_of(ANN)}"
    connection.request("GET", path, headers={"Cookie": cookie, **headers})
    answer = connection.getresponse()
    sent = Sent(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    connection.close()
    return sent


def unpacked(body: bytes) -> bytes:
    """What a browser makes of it: it reads one gzip member, and nothing that follows."""
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16)
    read = reader.decompress(body)
    assert reader.eof and not reader.unused_data
    return read


def loaded(html: str) -> set[str]:
    """The styles, scripts and icons of a page."""
    return set(re.findall(r'(?:src|href)="(/static/[^"#]+)', html))


def test_a_page_and_all_that_it_loads_travel_compressed_within_their_budget(furnished: Furnished, site: str) -> None:
    run = furnished.house.runs["published"]
    page = ask(site, f"/runs/{run}/", **{"Accept-Encoding": "gzip"})
    assert (page.status, page.headers["content-encoding"]) == (200, "gzip")
    assert "Accept-Encoding" in page.headers["vary"]
    parts = {part: ask(site, part, **{"Accept-Encoding": "gzip"}) for part in loaded(unpacked(page.body).decode())}
    assert {part for part, sent in parts.items() if sent.headers.get("content-encoding") != "gzip"} == set()
    for part, sent in parts.items():
        found = finders.find(part.removeprefix("/static/"))
        assert isinstance(found, str) and unpacked(sent.body) == Path(found).read_bytes(), part
    assert len(page.body) + sum(len(sent.body) for sent in parts.values()) <= WEIGHT


def test_the_length_of_a_page_holds_random_bytes(furnished: Furnished, site: str) -> None:
    page = ask(site, "/inbox/", **{"Accept-Encoding": "gzip"})
    assert page.body[3] & NAMED


def test_who_takes_no_compression_gets_none_and_what_is_unchanged_is_not_sent_again(site: str) -> None:
    plain = ask(site, "/static/css/base.css")
    assert (plain.status, plain.headers.get("content-encoding")) == (200, None)
    packed = ask(site, "/static/css/base.css", **{"Accept-Encoding": "gzip"})
    assert unpacked(packed.body) == plain.body
    again = ask(site, "/static/css/base.css", **{"Accept-Encoding": "gzip", "If-None-Match": packed.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_a_part_of_a_file_is_sent_as_it_is(site: str) -> None:
    part = ask(site, "/static/css/base.css", **{"Accept-Encoding": "gzip", "Range": "bytes=0-9"})
    assert (part.status, part.headers.get("content-encoding"), len(part.body)) == (206, None, 10)
