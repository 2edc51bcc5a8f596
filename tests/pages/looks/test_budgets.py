"""What a page may cost: its bytes with all its styles and scripts, and its questions to the database."""

import gzip
import re
from functools import cache
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders

from runs.models import AgentVersion
from runs.selectors import agent_pinned
from tests.pages.looks.conftest import Furnished
from tests.sent import statements

WEIGHT = 100_000  # bytes, compressed, of a page with everything that it loads
QUERIES = 12  # of every kind: those of the session, the person and the mark of the inbox are three or four of them


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


def test_every_page_answers_and_keeps_its_budgets(furnished: Furnished, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in AgentVersion.objects.values_list("id", flat=True):
        agent_pinned(version)  # a process reads each version once, whichever page comes first
    above, heavy = {}, {}
    with statements(monkeypatch) as sent:
        for place in furnished.places:
            client = furnished.client(place.who)
            sent.clear()
            answer = client.get(place.path)
            assert answer.status_code == place.status, (place, answer.status_code)
            if len(sent) > QUERIES:
                above[place.name] = len(sent)
            found = weight(answer.content.decode())
            if found > WEIGHT:
                heavy[place.name] = found
    assert (above, heavy) == ({}, {})
