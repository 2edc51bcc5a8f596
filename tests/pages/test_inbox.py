"""The inbox: ranked, counted, previewed, and only the tenant's own."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from approvals.models import Wait
from console.pages.inbox import items
from console.pages.overview.needs import needs
from receipts.models import Reconciliation, ToolCall
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.driven import person, words

QUERIES = 12


def full(mo: Member) -> tuple[Wait, Wait, ToolCall]:
    """Two waits (one due soon), one unknown call, one held run, and a run that is held by the unknown call."""
    now = timezone.now()
    _, late = story.waiting(mo.tenant, now - timedelta(minutes=5), "late")
    _, soon = story.waiting(mo.tenant, now - timedelta(minutes=4), "soon")
    Wait.objects.filter(id=soon.id).update(deadline=now + timedelta(minutes=9))
    _, call = story.unknown(mo.tenant, now - timedelta(minutes=31), "unknown")
    story.held(mo.tenant, now - timedelta(minutes=52), "BUDGET", "spent", "model_calls 40 of 40")
    return late, soon, call


def test_rank_unknown_then_soon_then_held_then_later(mo: Member) -> None:
    late, soon, call = full(mo)
    html = mo.get("/inbox/")
    order = [html.index(f'id="row-{key}"') for key in (f"call-{call.id}", f"wait-{soon.id}", f"wait-{late.id}")]
    assert order == sorted(order)
    assert order[1] < html.index("The budget is spent") < order[2]


def test_counts_in_title_and_nav(mo: Member) -> None:
    full(mo)
    html = mo.get("/inbox/")
    assert "<title>(4) Inbox · Signalbox</title>" in html
    assert 'data-inbox-count="4"' in html
    assert 'data-inbox-count="4"' in mo.get("/inbox/count/")


def test_a_run_held_by_its_unknown_call_counts_once(mo: Member) -> None:
    full(mo)
    assert mo.get("/inbox/").count("data-row-link") == 4


def test_a_row_that_is_picked_does_not_queue_behind_the_list_that_asks_for_itself(mo: Member) -> None:
    """A queue keeps only the last of those that wait: a hint would take the place of what a person picked."""
    full(mo)
    html = mo.get("/inbox/")
    rows = html[html.index('<div class="inbox__rows"') : html.index('id="picked"')]
    assert rows.count('hx-trigger="preview"') == 4
    assert re.findall('hx-sync="([^"]*)"', rows) == ["#inbox-item:queue last"], "said once, for all rows"


def test_kinds_filter(mo: Member) -> None:
    _, _, call = full(mo)
    html = mo.get("/inbox/?kind=unknown")
    assert html.count("data-row-link") == 1
    assert f"row-call-{call.id}" in html


def test_preview_names_what_to_look_at(mo: Member) -> None:
    late, _, _ = full(mo)
    html = mo.get(f"/inbox/?item=wait-{late.id}", panel="inbox-item")
    assert "<html" not in html
    assert "zero width space" in html
    assert f'href="/waits/{late.id}/#approve"' in html
    assert "Rule 4" in html


def test_preview_of_an_unknown_call_asks_the_question(mo: Member) -> None:
    _, _, call = full(mo)
    html = mo.get(f"/inbox/?item=call-{call.id}", panel="inbox-item")
    assert "It may have happened or not." in html
    assert call.idempotency_key[8:] in html


def test_a_viewer_sees_everything_and_may_decide_nothing(mo: Member, viewer: Member) -> None:
    late, _, _ = full(mo)
    html = viewer.get(f"/inbox/?item=wait-{late.id}")
    assert "Open the decision" in html
    assert "#approve" not in html


def test_foreign_and_broken_items_show_nothing(mo: Member, stranger: Member) -> None:
    late, _, _ = full(mo)
    for item in (f"wait-{late.id}", "wait-nonsense", "user-1", "call-"):
        assert "Nothing is selected." in stranger.get(f"/inbox/?item={item}")


def test_empty(mo: Member) -> None:
    html = mo.get("/inbox/")
    assert "Nothing needs you." in html
    assert "<title>Inbox · Signalbox</title>" in html


def test_what_somebody_has_let_go_stands_last_says_who_said_so_and_counts_nowhere(mo: Member) -> None:
    late, _, call = full(mo)
    said = {"verdict": "PROCEED_UNKNOWN", "follow_up": "NONE", "method": "HUMAN", "seen_attempts": call.attempts}
    Reconciliation.objects.create(tool_call=call, evidence="The fax is lost.", actor="person:h.lindqvist", **said)
    html = mo.get("/inbox/")
    assert html.index(f'id="row-wait-{late.id}"') < html.index(f'id="row-call-{call.id}"')
    assert "Gone on without knowing" in html and "Outcome unknown <" not in html
    assert "h.lindqvist said: still unknown, go on without it" in words(html)
    assert 'data-inbox-count="3"' in html
    preview = words(mo.get(f"/inbox/?item=call-{call.id}", panel="inbox-item"))
    assert "h.lindqvist said" in preview and "Nothing waits for it." in preview and "The fax is lost." in preview
    assert "until a person says what is known" not in preview
    assert [need.count for need in needs(person(mo.name)) if need.word == "Unknown calls"] == [0]
    assert "(3) Overview" in words(mo.get("/"))


def test_unknown_reads_are_nobodys_business(mo: Member) -> None:
    reading, _ = story.unknown(mo.tenant, timezone.now() - timedelta(minutes=31))
    lost = [(70.0, 10.0, 2, "NO_RESPONSE")]
    call = reading.call(69, "fetch_reference/sheet", "READ_ONLY", "UNCERTAIN", lost)
    assert f"row-call-{call.id}" not in mo.get("/inbox/")


def test_a_call_that_its_run_went_on_without_stays(mo: Member) -> None:
    _, _, call = full(mo)
    ToolCall.objects.filter(id=call.id).update(blocking=False)
    assert f"row-call-{call.id}" in mo.get("/inbox/")


def test_queries_do_not_grow_with_the_items(mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    full(mo)
    full(mo)
    with django_assert_max_num_queries(QUERIES):
        mo.get("/inbox/")


def test_no_flood_hides_what_is_of_high_risk_and_the_rest_is_a_link_away(
    mo: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "KIND_LIMIT", 2)
    now = timezone.now()
    waits = [story.waiting(mo.tenant, now - timedelta(minutes=9 - n), f"{n}")[1] for n in range(5)]
    with connection.cursor() as cursor:  # what a wait demands is frozen; a policy would have demanded it
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE approvals_wait DISABLE TRIGGER USER")
    Wait.objects.filter(id=waits[-1].id).update(risk="HIGH", deadline=now + timedelta(days=3))
    html = mo.get("/inbox/")
    assert html.index("High risk") < html.index(f'id="row-wait-{waits[-1].id}"')
    assert html.count('id="row-wait-') == 3
    assert "2 more open waits" in html and 'href="/waits/?status=OPEN"' in html


def test_a_count_says_where_it_was_not_counted_to_its_end() -> None:
    assert items.Counts(unknown=1, approvals=1000, questions=2, held=0, flags=0).said == "1,003"
    assert items.Counts(unknown=57, approvals=1001, questions=0, held=0, flags=0).said == "1,057+"
