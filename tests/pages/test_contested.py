"""A call in doubt on its page and on the page of its flag: where to look, what it must not be taken for, and who spoke too early."""

from datetime import timedelta

from django.utils import timezone

from accounts.selectors import actor_named
from receipts.models import Contradiction, ToolCall
from receipts.states import FollowUp, Verdict
from runtime.services import Reconciled, VerdictRequest, call_reconcile
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.driven import Outside, told, words

EARLY, LATE = (
    timedelta(seconds=80),
    timedelta(minutes=5),
)  # since the run began: its call is sent after 50 s and has 60 s


def contested(mo: Member, ago: timedelta) -> tuple[ToolCall, Contradiction]:
    """A call of which one person said that it did not happen, to be sent again, and another one that it did."""
    _, call = story.unknown(mo.tenant, timezone.now() - ago)
    said = VerdictRequest(Verdict.NOT_EXECUTED, "I saw nothing in the book.", "", FollowUp.RETRY)
    actor = actor_named(username=mo.name, door="page")
    assert isinstance(call_reconcile(actor=actor, call_id=call.id, said=said), Reconciled)
    mo.post(f"/calls/{call.id}/contradict/", says="EXECUTED", reason="It is on their account.")
    call.refresh_from_db()
    return call, Contradiction.objects.get(tool_call=call)


def test_the_page_of_a_flag_shows_its_call_where_to_look_and_where_to_say_that_it_happened(mo: Member) -> None:
    call, flag = contested(mo, LATE)
    html = mo.get(f"/contradictions/{flag.id}/close/")
    shown = words(html)
    assert html.count(f'href="/calls/{call.id}/"') >= 2 and call.idempotency_key[:8] in html
    assert "Where to look" in shown and "Its time was up" not in shown
    assert "mo.okafor says: it did not happen, send again" in shown and "I saw nothing in the book." in shown
    assert "If you know that it happened: choose “Do not send it”" in shown
    assert 'href="/inbox/">Inbox</a>' in html
    assert "/inbox/" in mo.get(f"/calls/{call.id}/").split("</ol>")[0]


def test_a_verdict_that_came_before_the_time_of_the_call_was_up_is_marked_wherever_it_stands(mo: Member) -> None:
    call, flag = contested(mo, EARLY)
    for path in (f"/contradictions/{flag.id}/close/", f"/calls/{call.id}/"):
        shown = words(mo.get(path))
        assert shown.count("Said before its time was up") == 1 and "it could still land then." in shown


def test_one_that_came_after_it_is_not(mo: Member) -> None:
    call, flag = contested(mo, LATE)
    for path in (f"/contradictions/{flag.id}/close/", f"/calls/{call.id}/"):
        shown = words(mo.get(path))
        assert "Said before its time was up" not in shown
        assert "That it did not happen counts only if it was read after that." in shown


def test_a_contested_call_says_where_to_look_and_leads_to_its_flag(mo: Member) -> None:
    call, flag = contested(mo, LATE)
    html = mo.get(f"/calls/{call.id}/")
    assert call.status == "RETRY_WAIT" and 'id="look"' in html and 'id="verdict-form"' not in html
    assert f'btn--small" href="/contradictions/{flag.id}/close/"' in html


def test_while_its_time_runs_the_page_says_that_it_may_still_land(mo: Member) -> None:
    _, call = story.unknown(mo.tenant, timezone.now() - EARLY)
    shown = words(mo.get(f"/calls/{call.id}/"))
    assert "Attempt 1 may still land until" in shown and "Only what is read after that" in shown


def test_a_call_in_doubt_is_held_against_the_last_one_of_its_step(ann: Member, outside: Outside) -> None:
    then, now = told("lost").publishing, told("lost, not executed").publishing
    html = ann.get(f"/calls/{now.id}/")
    part = html[html.index('id="before"') : html.index('id="known"')]
    assert f'href="/calls/{then.id}/"' in part and then.idempotency_key[:8] in part
    assert html.index('id="look"') < html.index('id="before"') < html.index("<h2>Attempts</h2>")
    assert 'id="before"' not in ann.get(f"/calls/{told('published').publishing.id}/")


def test_the_reason_is_asked_for_where_nobody_will_ever_know(ann: Member, outside: Outside) -> None:
    html = ann.get(f"/calls/{told('lost').publishing.id}/")
    assert "Why the run goes on without knowing, required" in html
    assert "The console can’t ask by itself: this tool has no way to." in html
