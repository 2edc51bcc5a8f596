"""The decision page: one call in full, bound to what was shown; decided once; refused in place with what was typed."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from accounts.models import Tenant
from approvals.models import Decision, Wait
from receipts.models import ToolCall
from receipts.selectors import call_arguments
from runtime.services import goal_revise, run_stop
from tests.engine.engine import sql_past_triggers
from tests.pages.conftest import Member
from tests.pages.driven import ALDER, HOSTILE, Driven, Outside, assert_inert, person, told, waiting, words

QUERIES = 30
PANEL_QUERIES = 12


def ready(**how: str) -> Driven:
    """The run that waits, or one of its own kind."""
    return waiting(person("ann.moreau"), **how) if how else told("waiting")


def url(wait: Wait) -> str:
    return f"/waits/{wait.id}/"


def form(wait: Wait, verdict: str, reason: str = "Checked both files.", **changed: Any) -> dict[str, Any]:
    """What the page's form sends."""
    sent = {
        "verdict": verdict,
        "revision": wait.checkpoint_revision,
        "digest": wait.checkpoint_digest,
        "args_digest": wait.args_digest,
        "reason": reason,
    }
    return sent | changed


def refused(member: Member, wait: Wait, status: int, **sent: Any) -> str:
    """The page that answers a decision with this status. The wait is as it was."""
    before = Wait.objects.get(id=wait.id).status
    answer = member.post(url(wait), **sent)
    assert answer.status == status
    assert Wait.objects.get(id=wait.id).status == before
    return answer.html


# ── what is shown ────────────────────────────────────────────────────────────


def test_the_call_is_shown_whole(ann: Member) -> None:
    run = ready()
    wait, call = run.wait, run.publishing
    html = ann.get(url(wait))
    plain = call_arguments(call)
    assert f"5 arguments, {len(plain):,} bytes, shown in full" in html
    assert f"Canonical form, the bytes that were digested ({len(plain):,} bytes)" in html
    for shown in ("publish_report", "NON_IDEMPOTENT", "to the wiki", "15 s", "report_version", "channel"):
        assert shown in html
    for bound in (
        wait.checkpoint_digest,
        wait.args_digest,
        wait.tool_hash,
        f'name="revision" value="{wait.checkpoint_revision}"',
    ):
        assert bound in html
    assert "Rule 4: it leaves a mark outside this system" in html
    assert "The report is complete. I ask to publish it on the wiki." in html
    assert "Nobody has checked it." in html
    assert "Compare the holdings of the two funds" in html
    assert "open; this call fulfils it" in html
    assert "No earlier call of this step is known" in html


def test_it_rests_on_stored_results_and_shows_what_it_would_publish(ann: Member) -> None:
    run = ready()
    html = ann.get(url(run.wait))
    assert "5 stored results, each compared now with what the run read" in html
    assert html.count('data-l="Stored as it was read" class="is-clear"') == 5
    assert "overlap 45" in words(html)
    assert "Report v2, rendered" in html
    assert 'class="receipt" href="/calls/' in html


def test_the_last_call_like_it_stands_beside_it(ann: Member) -> None:
    html = ann.get(url(ready(b=ALDER.replace("ALDR", "CDAR")).wait))
    assert "That call is SUCCEEDED. Calls like it before: 3 approved, 0 rejected." in words(html)
    assert "CDAR" in html and '<tr class="chg">' in html


def test_what_is_asked_again_says_why_the_approval_before_is_void(ann: Member, outside: Outside) -> None:
    """T20: approved, used a day later; the sheet is read again and the publication asked for afresh, with what changed."""
    run = ready(title="next day")
    sheet = ToolCall.objects.get(run_id=run.id, tool="fetch_reference")
    first = run.wait
    run.decide("APPROVE")
    sql_past_triggers(
        "UPDATE receipts_attempt SET dispatched_at = dispatched_at - interval '25 hours' WHERE tool_call_id = %s",
        sheet.id,
    )
    run.go_on()
    again = run.wait
    assert again.id != first.id and again.status == "OPEN"
    assert ToolCall.objects.filter(run_id=run.id, step_name="fetch_reference/sheet~2", status="SUCCEEDED").exists()
    said = words(ann.get(url(again)))
    assert "became void" in said and "it rests on facts that have passed their half-life" in said
    assert "The arguments are others now; the difference stands below." in said  # the body names the reading
    assert "fetch_reference/sheet" in said and "so it was read again" in said
    assert "Every number comes from a tool; none from the model." in said
    assert "Asked again" not in words(ann.get(url(first)))


def test_what_agents_files_and_people_wrote_is_inert(ann: Member) -> None:
    run = ready(a=ALDER.replace("NORTHWIND GRID CO", HOSTILE), goal=f"Compare {HOSTILE}", title=f"Run {HOSTILE}")
    html = ann.get(url(run.wait))
    assert_inert(html)
    assert "U+202E" in html and "U+200B" in html
    run.decide("REJECT", reason=HOSTILE)
    assert_inert(ann.get(url(run.wait)))


def test_a_page_and_a_panel_cost_a_bounded_number_of_queries(
    ann: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = ready()
    with django_assert_max_num_queries(QUERIES):
        ann.get(url(run.wait))
    with django_assert_max_num_queries(PANEL_QUERIES):
        html = ann.get(url(run.wait), panel="wait-live")
    assert html.lstrip().startswith('<div id="wait-live"') and "<html" not in html
    assert f'hx-trigger="live:run-{run.id} from:body"' in html


def test_what_stands_beside_the_forms_follows_the_wait(ann: Member) -> None:
    run = ready()
    html = ann.get(url(run.wait), panel="wait-facts")
    assert "Time left" in html and "You may." in html and "<form" not in html
    run.decide("REJECT")
    html = ann.get(url(run.wait), panel="wait-facts")
    assert "Time left" not in html and "ann.moreau rejected" in words(html)


# ── deciding ─────────────────────────────────────────────────────────────────


def test_an_approval_leads_back_and_says_what_happens(ann: Member, outside: Outside) -> None:
    run = ready()
    wait, key = run.wait, run.publishing.idempotency_key
    before = outside.executions(key)
    answer = ann.post(url(wait), **form(wait, "APPROVE"))
    assert (answer.status, answer.location) == (302, url(wait))
    html = ann.get(url(wait))
    assert "ann.moreau approved this call" in words(html)
    assert "A worker takes the run" in html and "Checked both files." in html
    assert 'id="approve-form"' not in html
    run.go_on()
    html = ann.get(url(wait))
    assert "Attempt 1 was sent" in html and "Answered, and the answer is stored." in html
    assert "its run COMPLETED" in html
    assert outside.executions(key) == before + 1


def test_a_rejection_sends_nothing_and_stays_readable(ann: Member, outside: Outside) -> None:
    run = ready()
    wait, key = run.wait, run.publishing.idempotency_key
    before = outside.executions(key)
    assert ann.post(url(wait), **form(wait, "REJECT", "The title is wrong.")).status == 302
    run.go_on()
    html = ann.get(url(wait))
    assert "The call ended as REJECTED, with no attempt" in html
    assert "The title is wrong." in html
    assert outside.executions(key) == before


def test_approve_needs_a_mark_for_each_odd_argument(ann: Member) -> None:
    run = ready(a=ALDER.replace("NORTHWIND GRID CO", HOSTILE))
    wait = run.wait
    html = refused(ann, wait, 400, **form(wait, "APPROVE", "I looked."))
    assert "INCOMPLETE_VIEW" in html
    assert ">I looked.</textarea>" in html
    assert 'name="marked" value="0"' in html
    html = refused(ann, wait, 400, **form(wait, "APPROVE", "", marked=["0"]))
    assert 'name="marked" value="0" checked' in html
    assert ann.post(url(wait), **form(wait, "APPROVE", marked=["0"])).status == 302


def test_rejecting_needs_no_marks(ann: Member) -> None:
    wait = ready(a=ALDER.replace("NORTHWIND GRID CO", HOSTILE)).wait
    assert ann.post(url(wait), **form(wait, "REJECT")).status == 302


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_a_decision_needs_a_reason(ann: Member, verdict: str) -> None:
    wait = ready().wait
    assert "a decision needs a reason in words" in refused(ann, wait, 400, **form(wait, verdict, "  "))


def test_there_are_two_verdicts(ann: Member) -> None:
    wait = ready().wait
    assert "UNKNOWN_VERDICT" in refused(ann, wait, 400, **form(wait, "MAYBE"))


# ── refused in place ─────────────────────────────────────────────────────────


def test_a_page_that_is_out_of_date_decides_nothing(ann: Member, ben: Member) -> None:
    run = ready()
    old = run.wait
    goal_revise(actor=person("ben.diaz"), run_id=run.id, goal="Compare them, with plain titles.", reason="Odd titles.")
    run.go_on()
    html = refused(ann, old, 409, **form(old, "APPROVE", "It took me long to write this."))
    assert "Out of date. Nothing was decided." in html and "STALE_REVISION" in html
    assert "was replaced at <time " in html and f"Decide wait {run.wait.id}" not in html
    assert "It took me long to write this." in html
    assert "Compare them, with plain titles." in html and "version 2" in html
    assert f'href="{url(run.wait)}"' in html
    assert 'type="button" aria-disabled="true">Approve this call' in html
    assert not Decision.objects.filter(wait__run_id=run.id).exists()
    assert "Out of date. Nothing was decided." in ann.get(url(old))


def test_a_refusal_stays_until_the_reader_acts(ann: Member) -> None:
    wait = ready().wait
    html = refused(ann, wait, 400, **form(wait, "APPROVE", ""))
    assert '<div id="wait-live">' in html and 'href="#approve">Back to the form' in html


def test_revising_the_goal_names_the_wait_that_it_takes_back(ann: Member) -> None:
    run = ready()
    said = words(ann.get(f"/runs/{run.id}/goal/"))
    assert f"The wait publish_report/overlap-v2, open at revision {run.wait.checkpoint_revision}, is taken back" in said


def test_what_was_shown_must_be_what_is_bound(ann: Member) -> None:
    wait = ready().wait
    html = refused(ann, wait, 409, **form(wait, "APPROVE", digest="0" * 64))
    assert "STALE_REVISION" in html and "000000000000" in html
    html = refused(ann, wait, 409, **form(wait, "APPROVE", args_digest="f" * 64))
    assert "ARGS_CHANGED" in html and "ffffffffffff" in html
    assert "STALE_REVISION" in refused(ann, wait, 409, **form(wait, "APPROVE", revision="nine"))


def test_whoever_comes_second_is_told_who_decided_what_and_when(ann: Member, ben: Member) -> None:
    run = ready()
    wait = run.wait
    run.decide("REJECT", actor=person("ben.diaz"))
    html = refused(ann, wait, 409, **form(wait, "APPROVE", "My own reason."))
    assert "Already decided: ben.diaz rejected this call at" in html
    assert "Your decision was not stored." in html
    assert "My own reason." in html


def test_a_stopped_run_is_not_decided_about(ann: Member) -> None:
    run = ready()
    wait = run.wait
    run_stop(actor=run.actor, run_id=run.id, reason="Wrong files.")
    assert "RUN_STOPPED" in refused(ann, wait, 409, **form(wait, "APPROVE"))
    assert "The call was not sent on this wait." in ann.get(url(wait))


def test_after_the_deadline_nothing_is_decided(ann: Member) -> None:
    wait = ready().wait
    with connection.cursor() as cursor:
        cursor.execute("UPDATE approvals_wait SET deadline = clock_timestamp() - interval '4 seconds'")
    assert "EXPIRED" in refused(ann, wait, 409, **form(wait, "APPROVE"))
    assert "Nobody decided in time." in ann.get(url(wait))


def test_arguments_that_were_changed_in_the_store_can_only_be_rejected(ann: Member) -> None:
    run = ready()
    wait = run.wait
    with connection.cursor() as cursor:
        cursor.execute("UPDATE receipts_toolcall SET args = args || '\\x00' WHERE id = %s", [run.publishing.id])
    assert "The stored arguments can't be read." in words(ann.get(url(wait)))
    assert "ARGS_CHANGED" in refused(ann, wait, 409, **form(wait, "APPROVE"))


# ── who may ──────────────────────────────────────────────────────────────────


def test_a_viewer_sees_why_the_forms_are_off(reader: Member) -> None:
    wait = ready().wait
    html = reader.get(url(wait))
    assert "Deciding needs the role approver" in html
    assert html.count('type="button" aria-disabled="true"') == 2
    assert "NOT_ALLOWED" in refused(reader, wait, 403, **form(wait, "APPROVE"))


def test_a_tenant_may_forbid_deciding_about_ones_own_run(ann: Member, ben: Member) -> None:
    Tenant.objects.update(self_approval=False)
    wait = ready().wait
    assert "does not let the starter decide" in ann.get(url(wait))
    assert "SELF_APPROVAL" in refused(ann, wait, 403, **form(wait, "APPROVE"))
    assert ben.post(url(wait), **form(wait, "APPROVE")).status == 302


def test_nobody_else_sees_it(outsider: Member, ann: Member) -> None:
    wait = ready().wait
    assert outsider.client.get(url(wait)).status_code == 404
    assert outsider.post(url(wait), **form(wait, "APPROVE")).status == 404
    assert ann.client.get(f"/waits/{uuid4()}/").status_code == 404
    ann.client.logout()
    assert ann.client.get(url(wait)).headers["Location"].startswith("/sign-in/")
