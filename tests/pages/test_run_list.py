"""The list of runs: filters in the URL, keyset pages, search by id."""

import re
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from console.lists.listing import Asked
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.rows import Story

QUERIES = 11


def some(mo: Member, count: int, title: str = "Pair") -> list[Story]:
    """Queued runs, the newest first."""
    now = timezone.now()
    told = [Story(mo.tenant, now - timedelta(minutes=n), f"{title} {n}") for n in range(count)]
    for one in told:
        one.save(0, "READY_TO_DECIDE", 0, "INIT")
    return told


def rows(html: str) -> list[str]:
    return re.findall(r'id="run-([0-9a-f-]{36})"', html)


def test_filters_by_status_agent_and_text(mo: Member) -> None:
    waiting, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5), "ARKK / ARKW")
    queued = some(mo, 2)
    assert rows(mo.get("/runs/?status=waiting")) == [str(waiting.run.id)]
    assert len(rows(mo.get("/runs/?status=QUEUED&status=WAITING"))) == 3
    assert rows(mo.get("/runs/?q=arkk")) == [str(waiting.run.id)]
    assert rows(mo.get(f"/runs/?q={str(queued[1].run.id)[-6:].upper()}")) == [str(queued[1].run.id)]
    assert rows(mo.get("/runs/?agent=fund_comparison&q=Pair")) == [str(one.run.id) for one in queued]
    assert "No run passes this filter." in mo.get("/runs/?q=nothing+of+that+name")


@pytest.mark.parametrize("name", ["agent", "q", "status", "before", "view", "sort"])
def test_a_nul_in_an_address_is_no_fault_of_ours(mo: Member, name: str) -> None:
    answer = mo.client.get(f"/runs/?{name}=a%00b")
    assert answer.status_code in (200, 400)
    assert answer.status_code == 200 or "The request could not be read" in answer.content.decode()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("status=BROKEN", "There is no “BROKEN” here. Known: QUEUED, RUNNING"),
        ("agent=nobody", "There is no “nobody” here. Known: fund_comparison"),
        ("since=soon", "Give a day (2026-11-30)"),
        ("spend=much", "Give a number, as 2.50."),
        ("unknown=maybe", "It is yes, or left out."),
        ("colour=red", "This list has no filter “colour”."),
        ("sort=colour", "There is no order “colour”. Known: newest, oldest."),
        ("columns=colour", "There is no column “colour”."),
    ],
)
def test_what_can_not_be_read_is_said_and_nothing_is_listed(mo: Member, query: str, said: str) -> None:
    some(mo, 1)
    html = mo.get(f"/runs/?{query}")
    assert said in html
    assert rows(html) == []


def test_pages_by_keyset_lose_and_repeat_nothing(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked.page, "__defaults__", (3,))
    expected = [str(one.run.id) for one in some(mo, 8)]
    seen: list[str] = []
    url = "/runs/?q=Pair"
    for _ in range(4):
        html = mo.get(url)
        seen += rows(html)
        older = re.search(r'href="(\?[^"]+)" rel="next"', html)
        if not older:
            break
        url = "/runs/" + older[1].replace("&amp;", "&")
        assert "q=Pair" in url
    assert seen == expected


@pytest.mark.parametrize("count", [65, pytest.param(500, marks=pytest.mark.matrix)])
def test_b76_runs_of_one_instant_are_each_listed_once_while_others_come_in(
    mo: Member, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(Asked.page, "__defaults__", (20,))
    at = timezone.now()
    expected = {came_in(mo, at) for _ in range(count)}
    seen: list[str] = []
    url: str | None = "/runs/"
    while url is not None:
        html = mo.get(url)
        seen += rows(html)
        for later in (timedelta(0), timedelta(seconds=1)):
            came_in(mo, at + later)
        older = re.search(r'href="(\?[^"]+)" rel="next"', html)
        url = "/runs/" + older[1].replace("&amp;", "&") if older else None
    assert len(seen) == len(set(seen))
    assert expected <= set(seen)


def came_in(mo: Member, at: datetime) -> str:
    """The id of a run that was started then."""
    told = Story(mo.tenant, at, "Came in")
    told.save(0, "READY_TO_DECIDE", 0, "INIT")
    return str(told.run.id)


def test_a_broken_place_is_said(mo: Member) -> None:
    some(mo, 1)
    for bad in ("x", "2026-01-01_y", "\0"):
        html = mo.client.get("/runs/", {"after": bad}).content.decode()
        assert "That place is not one of this list" in html and rows(html) == []


def test_other_tenants_runs_are_not_listed(mo: Member, stranger: Member) -> None:
    some(mo, 2)
    assert rows(stranger.get("/runs/")) == []


def test_search_opens_what_an_id_names(mo: Member, stranger: Member) -> None:
    told, wait = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    for kind, named in (("runs", told.run.id), ("waits", wait.id), ("calls", wait.tool_call_id)):
        assert mo.client.get("/search/", {"q": f" {named} "})["Location"] == f"/{kind}/{named}/"
        assert "Nothing here is called that." in stranger.get(f"/search/?q={named}")


def test_queries_do_not_grow_with_the_list(mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    some(mo, 30)
    with django_assert_max_num_queries(QUERIES):
        mo.get("/runs/")


def test_untrusted_titles_stay_text(mo: Member) -> None:
    some(mo, 1, "<img src=x onerror=alert(1)>\u200b")
    html = mo.get("/runs/")
    assert "<img" not in html
    assert "zero width space" in html
