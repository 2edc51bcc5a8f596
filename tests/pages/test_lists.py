"""What every list does: filters, pages under inserts, columns, files, and only what one may see."""

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.audit import audit_append
from accounts.models import AuditEvent
from accounts.states import Actor, Role
from console.lists import export, search
from console.lists.cells import formula_safe
from console.lists.fields import Words
from console.lists.listing import Asked, said_count
from console.lists.runs import RUNS
from receipts.models import ToolCall
from tests.pages import story
from tests.pages.conftest import Member, member
from tests.pages.driven import words
from tests.pages.rows import Story

QUERIES = 12


def some(mo: Member, count: int, title: str = "Pair", back: int = 0) -> list[Story]:
    now = timezone.now() - timedelta(hours=back)
    told = [Story(mo.tenant, now - timedelta(minutes=n), f"{title} {n}") for n in range(count)]
    for one in told:
        one.save(0, "READY_TO_DECIDE", 0, "INIT")
    return told


def rows(html: str, of: str = "run") -> list[str]:
    return re.findall(rf'id="{of}-([0-9a-f-]{{36}}|\d+)"', html)


def older(html: str) -> str:
    found = re.search(r'href="(\?[^"]+)" rel="next"', html)
    return found[1].replace("&amp;", "&") if found else ""


def body(answer: Any) -> str:
    return b"".join(answer.streaming_content).decode()


@pytest.mark.parametrize("sort", ["newest", "oldest"])
def test_pages_skip_and_repeat_nothing_while_rows_come_in(
    mo: Member, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    monkeypatch.setattr(Asked.page, "__defaults__", (3,))
    before = {str(one.run.id) for one in some(mo, 8, back=2)}
    url, seen = f"/runs/?sort={sort}", list[str]()
    while url:
        html = mo.get(url)
        seen += rows(html)
        some(mo, 1, back=9)  # one older than all, and one newer than all, between the pages
        some(mo, 1)
        url = "/runs/" + older(html) if older(html) and len(seen) < 40 else ""
    assert before <= set(seen)
    assert len(seen) == len(set(seen))


def test_rows_of_one_instant_are_each_on_one_page(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked.page, "__defaults__", (2,))
    told = some(mo, 5)
    at = timezone.now()
    for one in told:
        type(one.run).objects.filter(id=one.run.id).update(created_at=at)
    url, seen = "/runs/", list[str]()
    while url:
        html = mo.get(url)
        seen += rows(html)
        url = "/runs/" + older(html) if older(html) else ""
    assert sorted(seen) == sorted(str(one.run.id) for one in told)


def test_a_place_holds_for_its_own_filters_only(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked.page, "__defaults__", (1,))
    some(mo, 3)
    place = older(mo.get("/runs/"))
    assert "That place is not one of this list" in mo.get(f"/runs/{place}&status=QUEUED")


def test_columns_are_chosen_in_the_url(mo: Member) -> None:
    some(mo, 1)
    html = mo.get("/runs/?columns=title&columns=thread")
    assert re.findall(r"<th[^>]*>([^<]+)</th>", html) == ["Run", "Thread"]


def test_each_filter_that_is_on_is_said_and_left_out_alone(mo: Member) -> None:
    some(mo, 1, title="Larch")
    html = mo.get("/runs/?q=Larch&status=QUEUED&status=HELD")
    tokens = re.findall(r'class="token" href="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL)
    assert [words(shown) for _, shown in tokens] == ["Title or id Larch", "Status queued, held"]
    assert [where for where, _ in tokens] == ["?status=QUEUED&amp;status=HELD", "?q=Larch"]
    assert 'class="token"' not in mo.get("/runs/")


def test_a_list_goes_along_as_csv_and_json_with_its_filters(mo: Member) -> None:
    some(mo, 2)
    some(mo, 1, '=cmd|"/c calc"!A1')
    answer = mo.client.get("/runs/?format=csv&columns=title&columns=status&q=Pair")
    assert answer["Content-Disposition"].startswith('attachment; filename="runs-')
    assert list(csv.reader(io.StringIO(body(answer)))) == [
        ["Run", "Status"],
        ["Pair 0", "QUEUED"],
        ["Pair 1", "QUEUED"],
    ]
    assert "'=cmd" in body(mo.client.get("/runs/?format=csv"))
    said = json.loads(body(mo.client.get("/runs/?format=json&columns=title&sort=oldest&q=Pair")))
    assert said == {"rows": [{"title": "Pair 1"}, {"title": "Pair 0"}], "more": None}


def test_a_file_is_bounded_and_says_so(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "EXPORT_ROWS", 3)
    monkeypatch.setattr(export, "_CHUNK", 2)
    some(mo, 5)
    lines = list(csv.reader(io.StringIO(body(mo.client.get("/runs/?format=csv")))))
    assert len(lines) == 5 and lines[-1][0].startswith("There are more than")
    said = json.loads(body(mo.client.get("/runs/?format=json")))
    assert len(said["rows"]) == 3 and said["more"].startswith("There are more than")


UNSEEN_FIRST = [f"{first}=1" for first in (" ", "\u00a0", "\u200b", "\u202e", "\ufeff", "\u2003\u2060")]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", *UNSEEN_FIRST])
def test_no_spreadsheet_takes_a_cell_for_a_formula(text: str) -> None:
    assert formula_safe(text) == f"'{text}"
    assert [formula_safe(plain) for plain in ("plain", " plain", "a - b")] == ["plain", " plain", "a - b"]


@pytest.mark.parametrize("text", UNSEEN_FIRST)
def test_no_cell_that_a_spreadsheet_splits_in_two_begins_a_formula(text: str) -> None:
    first, second = formula_safe(f"a;{text}").split(";")
    assert first == "a" and second.endswith("'=1")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a;=1+1", "a;'=1+1"),
        ("a; @SUM(1)", "a; '@SUM(1)"),
        ("a\n+1", "a\n'+1"),
        ("\t=1\n=2", "'\t=1\n'=2"),
        ("=1;=2", "'=1;'=2"),
        ("a\t＝1", "a\t'＝1"),
        ("half; a-b = c", "half; a-b = c"),
    ],
)
def test_no_spreadsheet_that_splits_lines_elsewhere_finds_a_formula_in_a_cell(text: str, safe: str) -> None:
    assert formula_safe(text) == safe


def test_a_file_holds_nothing_of_another_tenant(mo: Member, stranger: Member) -> None:
    some(mo, 2)
    assert json.loads(body(stranger.client.get("/runs/?format=json")))["rows"] == []


def test_waits_are_listed_open_and_closed(mo: Member, stranger: Member) -> None:
    _, wait = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    assert rows(mo.get("/waits/"), "wait") == [str(wait.id)]
    assert rows(mo.get("/waits/?status=open&risk=NORMAL"), "wait") == [str(wait.id)]
    assert rows(mo.get("/waits/?status=CONSUMED"), "wait") == []
    assert rows(mo.get(f"/waits/?run={wait.run_id}"), "wait") == [str(wait.id)]
    assert "Give a whole id" in mo.get("/waits/?run=7")
    assert rows(stranger.get("/waits/"), "wait") == []


def test_calls_are_listed_by_what_became_of_them(mo: Member) -> None:
    _, call = story.unknown(mo.tenant, timezone.now() - timedelta(minutes=31), "unknown")
    assert rows(mo.get("/calls/?unknown=yes"), "call") == [str(call.id)]
    assert rows(mo.get("/calls/?status=UNCERTAIN"), "call") == [str(call.id)]
    assert rows(mo.get("/calls/?status=AWAITING_APPROVAL"), "call") == []
    assert rows(mo.get("/runs/?unknown=yes")) == [str(call.run_id)]


def test_the_audit_is_read_by_auditors_only_and_says_whether_it_is_whole(mo: Member, stranger: Member) -> None:
    auditor = member("audited", "ada", frozenset({Role.AUDITOR}))
    actor = Actor(auditor.tenant.id, "ada")
    for action in ("run.stop", "run.stop.refused", "policy.activate"):
        audit_append(
            actor=actor,
            action=action,
            object_type="run",
            object_id=auditor.tenant.id,
            detail={"code": "X", "hears": ["HELD", "STUCK"], "all": True},
            reason="since the ticket says so" if action == "policy.activate" else "",
        )
    assert mo.client.get("/audit/").status_code == 403
    assert mo.client.get("/audit/verified/").status_code == 403
    assert "This list needs the permission “audit”" in mo.client.get("/audit/").content.decode()
    assert auditor.client.get("/").headers["Location"] == "/audit/"
    doors = auditor.get("/audit/").split('aria-label="Main"')[1].split("</nav>")[0]
    assert doors.count("<a ") == 1 and 'href="/audit/"' in doors
    html = auditor.get("/audit/?person=ada")
    assert "policy.activate" in html and "It ends at event" in html
    assert "all yes, code X, door page, hears (HELD, STUCK)" in html
    assert html.count("since the ticket says so") == 1
    assert len(rows(auditor.get("/audit/?refused=yes"), "event")) == 1
    assert len(rows(auditor.get("/audit/?action=run.stop"), "event")) == 1
    verified = auditor.get("/audit/verified/")
    events = AuditEvent.objects.filter(tenant_id=auditor.tenant.id).order_by("seq")
    assert "The chain is whole." in verified and f"All {len(events)} events were read now" in verified
    assert [event.action for event in events][-3:] == ["run.stop", "run.stop.refused", "policy.activate"]


def test_search_finds_by_tails_keys_references_titles_and_names(mo: Member, stranger: Member) -> None:
    told, wait = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5), "ARKK / ARKW")
    call = wait.tool_call
    for text, url in (
        ("…" + str(told.run.id)[-6:], f"/runs/{told.run.id}/"),
        (str(wait.id)[-6:].upper(), f"/waits/{wait.id}/"),
        (str(call.id)[-8:], f"/calls/{call.id}/"),
        (call.idempotency_key, f"/calls/{call.id}/"),
        ("arkk /", f"/runs/{told.run.id}/"),
        (told.run.thread.key[:12], f"/runs/?thread={told.run.thread_id}"),
        ("fund_comp", "/runs/?agent=fund_comparison"),
    ):
        assert f'href="{url}"' in mo.client.get("/search/", {"q": text}).content.decode(), text
        assert url not in stranger.client.get("/search/", {"q": text}).content.decode()


@pytest.mark.parametrize(("text", "said"), [("x" * 201, "It has 201 characters"), ("a\0b", "It holds a NUL")])
def test_a_search_that_nothing_can_answer_says_so_and_looks_for_nothing_shorter(
    mo: Member, text: str, said: str
) -> None:
    story.waiting(mo.tenant, timezone.now(), "x" * 200)
    html = mo.client.get("/search/", {"q": text}).content.decode()
    assert said in html and "Nothing was looked for." in html and "data-row" not in html
    assert f'value="{text}"' in html and 'aria-describedby="unfit"' in html


def test_a_search_for_the_end_of_an_id_says_which_calls_it_looked_through(
    mo: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That an older call is not among them is no proof that there is none."""
    monkeypatch.setattr(search, "NEWEST_CALLS", 1)
    story.waiting(mo.tenant, timezone.now() - timedelta(minutes=9))
    older, *_, newer = ToolCall.objects.filter(tenant=mo.tenant).order_by("id")
    assert f'href="/calls/{newer.id}/"' in mo.get(f"/search/?q={str(newer.id)[-8:]}")
    html = mo.get(f"/search/?q={str(older.id)[-8:]}")
    assert f'href="/calls/{older.id}/"' not in html and "Nothing that was looked through ends so." in html
    assert "Of calls, the newest 10,000 are looked through" in words(html)
    assert "looked through" not in mo.get("/search/?q=nothing+so")


@pytest.mark.parametrize("path", ["/runs/", "/waits/", "/calls/", "/search/?q=f04c3c", "/settings/notifications/told/"])
def test_queries_stay_within_their_number(
    mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries, path: str
) -> None:
    for n in range(6):
        story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5 + n))
    with django_assert_max_num_queries(QUERIES):
        mo.get(path)


@pytest.mark.parametrize("path", ["/runs/", "/waits/", "/calls/", "/settings/notifications/told/"])
def test_an_empty_list_says_what_to_do_first(mo: Member, path: str) -> None:
    html = mo.get(path)
    assert 'class="empty"' in html
    assert re.search("No(thing| run) passes this filter.", mo.get(f"{path}?since=1+h"))


def test_counts_are_bounded_in_words() -> None:
    assert [said_count(number) for number in (0, 1000, 1001)] == ["0", "1,000", "1,000+"]


@pytest.mark.parametrize(("filter", "said"), [("q=Pair", "2+"), ("agent=fund_comparison", "4")])
def test_a_typed_text_is_counted_less_far_than_what_an_index_finds(
    mo: Member, monkeypatch: pytest.MonkeyPatch, filter: str, said: str
) -> None:
    monkeypatch.setattr(Asked.page, "__defaults__", (3,))
    monkeypatch.setattr(Words, "counted", 2)
    some(mo, 4)
    assert f"{said} pass the filter" in words(mo.get(f"/runs/?{filter}"))


def test_a_list_of_runs_joins_only_what_its_columns_look_into(
    mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    some(mo, 4)
    every = "&".join(f"columns={column.key}" for column in RUNS.columns)
    with django_assert_max_num_queries(QUERIES) as asked:
        mo.get("/runs/?columns=title&columns=status")
    assert not any("checkpoints_head" in one["sql"] for one in asked.captured_queries)
    with django_assert_max_num_queries(QUERIES):
        mo.get(f"/runs/?{every}")
