"""What lists only some says so: nobody takes the first of many for all there is."""

from datetime import timedelta

import pytest
from django.utils import timezone

from console.lists import search
from console.pages.few import Few
from console.pages.overview import stuck
from console.pages.stop import forecast
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.driven import words


def test_there_are_more_where_one_more_was_found() -> None:
    assert [(list(few), few.more, few.said) for few in (Few([1, 2], 2), Few([1, 2, 3], 2), Few([], 2))] == [
        ([1, 2], False, "2"),
        ([1, 2], True, "2+"),
        ([], False, "0"),
    ]


def test_the_overview_says_that_more_runs_stand_than_it_names(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        story.held(mo.tenant, timezone.now() - timedelta(minutes=9 + n), "PAUSED", f"Pair {n}")
    assert "More runs" not in words(mo.get("/"))
    monkeypatch.setattr(stuck, "STUCK_LIMIT", 2)
    assert "More runs" in words(mo.get("/"))


def test_a_search_says_of_each_kind_that_it_found_more(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "EACH", 1)
    for n in range(2):
        story.waiting(mo.tenant, timezone.now() - timedelta(minutes=9 - n), f"Pair {n}")
    said = words(mo.get("/search/?q=pair"))
    assert "Runs 1, and more" in said and "There are more. All of them, as a list" in said


def test_a_stop_counts_no_more_than_it_read(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    told, _ = story.sending(mo.tenant, timezone.now() - timedelta(minutes=2))
    url = f"/runs/{told.run.id}/stop/"
    whole = words(mo.get(url))
    assert "1 may still land" in whole and "There are more" not in whole
    monkeypatch.setattr(forecast, "SHOWN", 0)
    cut = words(mo.get(url))
    assert "0+ may still land" in cut and "There are more than are listed." in cut
