"""The run page: one axis and one list of the same events, live, bounded, and inert against what agents write."""

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from datetime import timedelta
from html import unescape
from itertools import combinations
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.keys import new_id
from checkpoints.models import SaveAttempt
from console.pages.run.look import BEGINNING
from console.pages.run.window import SIZE
from receipts.models import Attempt, ToolCall
from runs.models import ControlRequest, Refusal, Run, RunTransition
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.driven import words
from tests.pages.rows import Story

QUERIES = 12


def told(mo: Member, tell: Callable[..., Any], **how: Any) -> Run:
    start = timezone.now() - timedelta(minutes=18)
    result = tell(mo.tenant, start, **how)
    told_story: Story = result[0] if isinstance(result, tuple) else result
    return told_story.run


@pytest.mark.parametrize(
    ("tell", "says"),
    [
        (story.waiting, "Waits for a person"),
        (story.sending, "was sent"),
        (story.unknown, "A call may have happened"),
        (story.stopping, "Nothing new starts"),
        (story.completed, "Everything promised is done."),
    ],
)
def test_every_state_is_said_in_words(mo: Member, tell: Callable[..., Any], says: str) -> None:
    run = told(mo, tell)
    html = mo.get(f"/runs/{run.id}/")
    assert says in html
    assert run.status.replace("_", " ") in html


def test_each_attempt_is_a_bar_and_an_event(mo: Member) -> None:
    run = told(mo, story.waiting)
    html = mo.get(f"/runs/{run.id}/")
    assert "read_disclosure/b, attempt 1: no answer" in html
    assert "read_disclosure/b, attempt 2: answered" in html
    assert html.count('class="bar--unknown bar"') == 1
    assert "took over from a worker that fell silent" in html
    assert "Refused: a write under an older fence" in html


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ("UNKNOWN", "Nobody knows yet whether revision 2 was saved"),
        ("SAVED", "Revision 2 was saved, though its acknowledgement was lost"),
        ("NOT_SAVED", "Revision 2 was not saved: the connection was lost before"),
    ],
)
def test_a_save_whose_acknowledgement_was_lost_says_what_was_found(mo: Member, status: str, says: str) -> None:
    run = told(mo, story.waiting)
    save_id = uuid4()
    SaveAttempt.objects.create(
        save_id=save_id,
        tenant=run.tenant,
        run=run,
        trigger="CURSOR",
        expected_revision=1,
        fence=1,
        status="UNKNOWN",
    )
    if status != "UNKNOWN":
        SaveAttempt.objects.update(status=status, resolved_at=timezone.now(), resolved_fence=2)
    assert says in mo.get(f"/runs/{run.id}/")
    assert str(save_id)[:8] in mo.get(f"/runs/{run.id}/?at=save:{save_id}")


def test_a_held_run_leads_to_what_helps(mo: Member) -> None:
    html = mo.get(f"/runs/{told(mo, story.unknown).id}/")
    assert re.search(r'href="/calls/[0-9a-f-]{36}/#verdict">Say what is known…</a>', html)


def test_a_waiting_run_leads_to_the_decision(mo: Member) -> None:
    html = mo.get(f"/runs/{told(mo, story.waiting).id}/")
    assert re.search(r'<a class="btn" href="/waits/[0-9a-f-]{36}/">Open the decision</a>', html)
    assert "Say what is known…" not in html


def test_an_event_has_a_stable_url(mo: Member) -> None:
    run = told(mo, story.waiting)
    html = mo.get(f"/runs/{run.id}/?at=rev:3")
    assert "Revision 3 saved, awaiting tool result</bdi></h2>" in html
    assert f'href="/runs/{run.id}/checkpoints/3/"' in html


def test_the_panel_alone_is_what_htmx_gets(mo: Member) -> None:
    run = told(mo, story.waiting)
    html = mo.get(f"/runs/{run.id}/", panel="run-live")
    assert html.lstrip().startswith('<div id="run-live"')
    assert "<html" not in html
    assert f'hx-trigger="live:run-{run.id} from:body"' in html


def test_queries_do_not_grow_with_the_run(mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    run = told(mo, story.waiting)
    for number in range(60):
        Refusal.objects.create(tenant=mo.tenant, run=run, kind="STALE_FENCE", fence=number)
    with django_assert_max_num_queries(QUERIES):
        mo.get(f"/runs/{run.id}/")


def test_events_come_in_windows(mo: Member) -> None:
    run = told(mo, story.waiting)
    for number in range(250):
        at = timezone.now() - timedelta(seconds=250 - number)
        Refusal.objects.create(tenant=mo.tenant, run=run, kind="STALE_FENCE", fence=number, at=at)
    html = mo.get(f"/runs/{run.id}/")
    assert html.count("data-row") - html.count("data-row-link") == SIZE
    oldest = mo.get(f"/runs/{run.id}/{led(html, 'Oldest')}")
    assert "Run admitted" in oldest and "Newest</a>" in oldest and "Earlier events" not in oldest


def led(html: str, words: str) -> str:
    """Where the button of a window leads, empty if there is none."""
    found = re.search(rf'href="([^"]+)"(?: rel="\w+")?>(?:<svg[^>]*><use[^>]*></svg>)?{words}<', html)
    return unescape(found[1]) if found else ""


def keys(mo: Member, run: Run, query: str) -> list[str]:
    """The events that a page lists, the oldest first."""
    return [event.key for event in mo.client.get(f"/runs/{run.id}/{query}").context["events"]][::-1]


def test_turning_pages_neither_skips_nor_repeats_an_event(mo: Member) -> None:
    """Most things happen at one instant, in several tables, and new ones come in meanwhile."""
    run = told(mo, story.waiting)
    at = timezone.now() - timedelta(seconds=90)
    many = [Refusal(tenant=mo.tenant, run=run, kind="STALE_FENCE", at=at) for _ in range(130)]
    Refusal.objects.bulk_create(many)
    RunTransition.objects.bulk_create(
        RunTransition(run=run, from_status="WAITING", to_status="QUEUED", cause="DECISION", actor="person:mo", at=at)
        for _ in range(70)
    )
    html, backward = mo.get(f"/runs/{run.id}/?size=25"), [keys(mo, run, "?size=25")]
    while earlier := led(html, "Earlier events"):
        Refusal.objects.create(tenant=mo.tenant, run=run, kind="STALE_FENCE", at=timezone.now())
        html = mo.get(f"/runs/{run.id}/{earlier}")
        backward.insert(0, keys(mo, run, earlier))
    listed = [key for window in backward for key in window]
    assert len(listed) == len(set(listed)) > 200
    forward: list[str] = []
    query = led(html, "Oldest") or "?size=25&after=1970-01-01T00:00:00.000000Z~0~"
    while query:
        forward += [key for key in keys(mo, run, query) if key not in set(forward)]
        query = led(mo.get(f"/runs/{run.id}/{query}"), "Later events")
    assert forward[: len(listed)] == listed


def test_an_event_far_back_opens_in_the_window_around_it(mo: Member) -> None:
    run = told(mo, story.waiting)
    call = ToolCall.objects.get(run=run, step_name="read_disclosure/b")
    Refusal.objects.bulk_create(
        Refusal(tenant=mo.tenant, run=run, kind="STALE_FENCE", at=timezone.now()) for _ in range(300)
    )
    html = mo.get(f"/runs/{run.id}/?at=call:{call.id}")
    assert "read_disclosure/b, attempt 2: answered</bdi></h2>" in html
    assert "Frozen" in html and "data-frozen" in html
    assert "read_disclosure/b, attempt 1: no answer</bdi></h2>" in mo.get(f"/runs/{run.id}/?at=call:{call.id}:1")


@pytest.mark.parametrize(
    "asked", ["call:nonsense", "rev:999999999999", "rev:", "nothing:1", "move:-1", "\x00", "rev:x:y"]
)
def test_a_name_that_no_event_has_is_said(mo: Member, asked: str) -> None:
    run = told(mo, story.waiting)
    assert "No event of this run has that name." in mo.get(f"/runs/{run.id}/?{urlencode({'at': asked})}")


def test_zoom_follow_and_freeze_are_links(mo: Member) -> None:
    run = told(mo, story.waiting)
    following = mo.get(f"/runs/{run.id}/?at=rev:3")
    assert "size=50&amp;at=" not in following and 'href="?at=rev:3&amp;size=25"' not in following
    frozen = re.search(r'href="(\?at=rev:3&amp;upto=[^"]+)"[^>]*data-key="f"', following)
    assert frozen
    before = keys(mo, run, unescape(frozen[1]))
    Refusal.objects.create(tenant=mo.tenant, run=run, kind="STALE_FENCE", at=timezone.now())
    assert keys(mo, run, unescape(frozen[1])) == before
    assert len(keys(mo, run, "")) == len(before) + 1
    assert len(keys(mo, run, "?size=25")) == min(25, len(before) + 1)
    assert len(keys(mo, run, "?size=7")) == len(before) + 1


def ten_thousand(mo: Member) -> Run:
    """A run with more than 10,000 events, most of them attempts, in bursts with pauses between them."""
    run = told(mo, story.waiting)
    one = ToolCall.objects.filter(run=run, status="SUCCEEDED").order_by("ordinal").first()
    assert one is not None
    start = timezone.now() - timedelta(hours=30)
    calls = []
    for number in range(5000):
        call = copy(one)
        call.pk, call.ordinal = new_id(), 1000 + number
        call.idempotency_key, call.intent_key = f"{number:064x}", f"{number:064x}"
        call.step_name = f"read_disclosure/{number}"
        calls.append(call)
    with triggers_off():
        ToolCall.objects.bulk_create(calls, batch_size=1000)
        Attempt.objects.bulk_create(
            Attempt(
                tool_call=call,
                attempt_no=1,
                fence=1,
                dispatched_at=start + timedelta(seconds=number * 20),
                finished_at=start + timedelta(seconds=number * 20 + 3),
                outcome="OK",
                authorised_by="policy:builtin-1",
            )
            for number, call in enumerate(calls)
        )
    Refusal.objects.bulk_create(
        Refusal(tenant=mo.tenant, run=run, kind="STALE_FENCE", at=start + timedelta(seconds=number * 20))
        for number in range(5000)
    )
    return run


@contextmanager
def triggers_off() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = origin")


def test_ten_thousand_events_are_never_all_in_the_page(
    mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = ten_thousand(mo)
    for query in ("", "?size=200", f"?size=200&after={BEGINNING}", "?at=refusal:1", "?fold=0"):
        with django_assert_max_num_queries(QUERIES):
            html = mo.get(f"/runs/{run.id}/{query}")
        assert len(gzip.compress(html.encode())) < 60_000, query
        assert html.count("data-row") - html.count("data-row-link") <= 200
        assert re.search(r" of 10,0\d\d event", html), query
    shown = mo.client.get(f"/runs/{run.id}/").context["picture"]
    counts = [int(bar.title.split()[0].replace(",", "")) for bar in shown.bars]
    assert sum(counts) == shown.whole.total
    middle = shown.bars[len(shown.bars) // 2]
    assert keys(mo, run, middle.url)[-1].startswith(("call:", "refusal:"))


def test_what_agents_and_files_say_stays_text(mo: Member) -> None:
    attack = "<script>alert(1)</script>\u202e{{ 7 }}"
    run = told(mo, story.waiting, title=attack)
    html = mo.get(f"/runs/{run.id}/")
    assert "<script>alert" not in html
    assert 'title="U+202E right-to-left override"' in html
    assert "\u202e" not in html.split("<main")[0].split("</title>")[0]


def test_a_foreign_run_is_not_there(mo: Member, stranger: Member) -> None:
    run = told(mo, story.waiting)
    assert stranger.client.get(f"/runs/{run.id}/").status_code == 404
    assert mo.client.get(f"/runs/{uuid4()}/").status_code == 404


def test_acts_follow_roles_and_states(mo: Member, viewer: Member) -> None:
    waiting, done = told(mo, story.waiting), told(mo, story.completed)
    assert "Stop this run…" in mo.get(f"/runs/{waiting.id}/")
    assert "Stop this run…" not in viewer.get(f"/runs/{waiting.id}/")
    assert "Stop this run…" not in mo.get(f"/runs/{done.id}/")
    stopping = mo.get(f"/runs/{told(mo, story.stopping).id}/")
    assert "Stop this run…" not in stopping
    assert "Stop adopted" in stopping


def test_a_place_that_cannot_be_read_asks_for_the_newest(mo: Member) -> None:
    run = told(mo, story.waiting)
    many = f"2026-08-06T00:00:00.000000Z~{2**31}~x"
    for bad in ("2026-13-45T99:00:00.000000Z~0~", "yesterday", "2026-08-06T00:00:00.000000Z~x~", "~~", many):
        assert "Run admitted" in mo.get(f"/runs/{run.id}/?upto={bad}&after={bad}")


@pytest.mark.parametrize("tell", [story.waiting, story.sending, story.unknown, story.stopping, story.completed])
@pytest.mark.parametrize("fold", ["", "?fold=0"])
def test_labels_on_the_axis_stay_in_the_plot_and_off_each_other(
    mo: Member, tell: Callable[..., Any], fold: str
) -> None:
    run = told(mo, tell)
    Refusal.objects.create(tenant=mo.tenant, run=run, kind="UNCERTAIN_CALL", fence=1, detail={})
    axis = mo.client.get(f"/runs/{run.id}/{fold}").context["axis"]
    for lane in axis.lanes:
        for label in lane.labels:
            assert label.end <= 102, (lane.name, label)
        for one, other in combinations(lane.labels, 2):
            assert one.y != other.y or one.end <= other.start or other.end <= one.start, (lane.name, one, other)


def test_a_pause_is_called_a_pause(mo: Member) -> None:
    run = told(mo, story.waiting)
    now = timezone.now()
    ControlRequest.objects.create(
        tenant=mo.tenant, run=run, kind="PAUSE", requested_by="person:mo.okafor", reason="shift", accepted_at=now
    )
    html = mo.get(f"/runs/{run.id}/")
    assert "Pause accepted, asked by mo.okafor" in html and "stop accepted</text>" not in html


def test_a_held_run_names_the_code_under_which_the_runbook_has_it(mo: Member) -> None:
    start = timezone.now() - timedelta(minutes=18)
    run = story.held(mo.tenant, start, "RESUME_REFUSED", "Claims", "PIN_UNAVAILABLE: publish_report 1").run
    html = mo.get(f"/runs/{run.id}/")
    assert "RESUME_REFUSED, PIN_UNAVAILABLE" in words(html)
    assert "The agent is not the one that it started with: publish_report 1." in html
    assert "Pin it anew…" in html and "Migrate…" not in html


def test_trying_again_is_not_offered_where_it_can_only_be_refused(mo: Member) -> None:
    start = timezone.now() - timedelta(minutes=18)
    run = story.held(mo.tenant, start, "RESUME_REFUSED", "Claims", "WITHDRAWN: the assumption “A”").run
    html = mo.get(f"/runs/{run.id}/")
    assert "Try again…" not in html and "Settle it…" in html
