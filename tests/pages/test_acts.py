"""Small acts on a run: consequences first, a reason always, a refusal that keeps what was typed."""

import re
from datetime import timedelta

from django.utils import timezone

from accounts.selectors import actor_named
from checkpoints.models import Commitment, Obligation
from receipts.models import Contradiction, ToolCall
from receipts.states import FollowUp, Verdict
from runs.models import ControlRequest, Run, Wakeup
from runs.services import refusal_record
from runs.states import OPEN_CONTROL, RefusalKind
from runtime.services import Reconciled, VerdictRequest, call_reconcile
from tests.pages import story
from tests.pages.conftest import ALL, Member, member


def refused_run(mo: Member) -> Run:
    start = timezone.now() - timedelta(hours=1)
    return story.held(mo.tenant, start, "RESUME_REFUSED", "Claims", "PIN_UNAVAILABLE: publish_report 1").run


def test_try_again_queues_the_run(mo: Member) -> None:
    run = refused_run(mo)
    assert "Every guard is asked anew." in mo.get(f"/runs/{run.id}/retry/")
    answer = mo.client.post(f"/runs/{run.id}/retry/", {"reason": "The tool is back."}, follow=True)
    assert "The run is queued again." in answer.content.decode()
    run.refresh_from_db()
    assert run.status == "QUEUED"
    assert Wakeup.objects.filter(run=run, cause="RESUME", status="PENDING").exists()


def test_an_act_without_a_reason_changes_nothing(mo: Member) -> None:
    run = refused_run(mo)
    answer = mo.client.post(f"/runs/{run.id}/retry/", {"reason": "  "})
    assert answer.status_code == 400
    assert "Nothing was done. reason:" in answer.content.decode()
    run.refresh_from_db()
    assert run.status == "HELD"


def test_a_run_that_is_not_held_cannot_be_tried_again(mo: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    html = mo.get(f"/runs/{told.run.id}/retry/")
    assert 'aria-disabled="true">Try again' in html
    assert "The run is WAITING" in html
    answer = mo.client.post(f"/runs/{told.run.id}/retry/", {"reason": "because I <b>want</b>"})
    assert answer.status_code == 409
    assert "<b>want" not in answer.content.decode()


def test_releasing_a_promise(mo: Member, viewer: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    promise = Obligation.objects.get(run=told.run, status="OPEN")
    url = f"/obligations/{promise.id}/release/"
    assert "This needs the role " in viewer.get(url)
    assert viewer.client.post(url, {"reason": "x"}).status_code == 403
    assert mo.client.post(url, {"reason": "Not needed any more."})["Location"] == f"/runs/{told.run.id}/"
    promise.refresh_from_db()
    assert (promise.status, promise.released_by) == ("RELEASED", "person:mo.okafor")
    assert "Not needed any more." in mo.get(f"/runs/{told.run.id}/")


def test_a_refused_resume_says_what_helps(mo: Member) -> None:
    run = refused_run(mo)
    refusal_record(tenant_id=run.tenant_id, run_id=run.id, kind=RefusalKind.PIN_UNAVAILABLE)
    html = mo.get(f"/runs/{run.id}/")
    assert "The agent is not the one that it started with" in html
    assert "Bring that version back, then ask it to try again." in html


def test_settling_names_what_stays(mo: Member, viewer: Member) -> None:
    told, _ = story.unknown(mo.tenant, timezone.now() - timedelta(minutes=5))
    url = f"/runs/{told.run.id}/settle/"
    html = mo.get(url)
    assert "One call of unknown outcome stays unknown, and still wants a verdict." in html
    assert "What it still owes stays visible: " in html and "Publish the report on the wiki." in html
    assert "This needs the role " in viewer.get(url)
    assert viewer.client.post(url, {"reason": "x"}).status_code == 403
    assert f'href="{url}"' in mo.get(f"/runs/{told.run.id}/")
    assert mo.client.post(url, {"reason": "Nobody needs it."})["Location"] == f"/runs/{told.run.id}/"
    told.run.refresh_from_db()
    assert told.run.status == "SETTLED"
    assert "It can be settled only while no worker holds it" in mo.get(url)


def test_withdrawing_a_constraint(mo: Member, viewer: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    term = Commitment.objects.create(
        tenant=mo.tenant,
        run=told.run,
        kind="CONSTRAINT",
        statement="Be <b>brief</b>.",
        source_kind="PERSON",
        source_ref="person:mo.okafor",
        source_version="start",
        accepted_revision=1,
    )
    url = f"/commitments/{term.id}/withdraw/"
    assert "This needs the role " in viewer.get(url)
    assert viewer.client.post(url, {"reason": "x"}).status_code == 403
    assert "Be &lt;b&gt;brief&lt;/b&gt;." in mo.get(url)
    assert mo.client.post(url, {"reason": "Nobody asks for it."})["Location"] == f"/runs/{told.run.id}/"
    assert "It is withdrawn already." in mo.get(url)
    html = mo.get(f"/runs/{told.run.id}/")
    assert "Nobody asks for it." in html
    assert "Withdraw…" not in html


def test_terms_that_the_agent_does_not_declare_any_more_are_shown_beside_those_that_it_does(mo: Member) -> None:
    """C-005: what the run accepted holds; the page shows the difference."""
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    for statement in ("Be <b>brief</b>.", "Every number comes from a tool; none from the model."):
        Commitment.objects.create(
            tenant=mo.tenant,
            run=told.run,
            kind="CONSTRAINT",
            statement=statement,
            source_kind="AGENT",
            source_ref="fund_comparison",
            source_version="0",
            accepted_revision=1,
        )
    html = mo.get(f"/runs/{told.run.id}/")
    assert "What the run accepted holds." in html
    assert "Kept by this run, not declared any more: <" in html and "Be &lt;b&gt;brief&lt;/b&gt;." in html
    assert "Declared now, never accepted by this run: " in html and "unchanged." in html
    kept = html.split("Kept by this run")[1:]
    assert len(kept) == 1 and len(html.split("Declared now")) == 2


def test_binding_a_run_keeps_what_was_typed(mo: Member, viewer: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    url = f"/runs/{told.run.id}/bind/"
    assert 'name="deny" value="publish_report"' in mo.get(url)
    answer = mo.client.post(url, {"constraints": "Be <b>brief</b>.", "deny": ["publish_report"], "reason": ""})
    html = answer.content.decode()
    assert answer.status_code == 400
    assert "Be &lt;b&gt;brief&lt;/b&gt;.</textarea>" in html
    assert 'value="publish_report" checked' in html
    assert "This needs the role " in viewer.get(url)
    assert viewer.client.post(url, {"constraints": "x", "reason": "x"}).status_code == 403


def test_revising_the_goal_shows_the_old_one_and_keeps_the_new_one(mo: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    url = f"/runs/{told.run.id}/goal/"
    assert "Compare the holdings of ARKK and ARKW" in mo.get(url)
    answer = mo.client.post(url, {"goal": "Compare, but do not publish.", "reason": ""})
    assert answer.status_code == 400
    assert "Compare, but do not publish.</textarea>" in answer.content.decode()


def test_acts_on_foreign_objects_are_not_there(mo: Member, stranger: Member) -> None:
    run = refused_run(mo)
    promise = Obligation.objects.filter(run=run, status="OPEN").get()
    for url in (f"/runs/{run.id}/retry/", f"/runs/{run.id}/goal/", f"/obligations/{promise.id}/release/"):
        assert stranger.client.get(url).status_code == 404
        assert stranger.client.post(url, {"reason": "mine"}).status_code == 404


def test_an_act_needs_a_post_with_its_token(mo: Member) -> None:
    run = refused_run(mo)
    mo.client.handler.enforce_csrf_checks = True
    answer = mo.client.post(f"/runs/{run.id}/retry/", {"reason": "forged"})
    assert answer.status_code == 403
    assert "lost its proof of origin" in answer.content.decode()


def test_pausing_and_resuming_from_the_run_page(mo: Member, viewer: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    page, act = f"/runs/{told.run.id}/", f"/runs/{told.run.id}/pause/"
    assert "Pause…" in mo.get(page) and "Pause…" not in viewer.get(page)
    assert "Waits stay open" in mo.get(act)
    assert viewer.client.post(act, {"reason": "x"}).status_code == 403
    assert mo.client.post(act, {"reason": "Not tonight."})["Location"] == page
    html = mo.get(page)
    assert "A person has paused it" in html and "Not tonight." in html and "Resume…" in html and "Pause…" not in html
    (pause,) = re.findall(r'name="pause" value="([^"]+)"', mo.get(f"/runs/{told.run.id}/retry/"))
    mo.client.post(f"/runs/{told.run.id}/retry/", {"pause": pause, "reason": "Morning."})
    told.run.refresh_from_db()
    assert told.run.status == "WAITING"
    assert "Pause settled" in mo.get(page)


def test_trying_again_takes_back_no_pause_that_the_page_did_not_show(mo: Member, viewer: Member) -> None:
    """Somebody pauses the run while another one reads the page that would try it again."""
    run = refused_run(mo)
    drawn = re.findall(r'name="pause" value="([^"]*)"', mo.get(f"/runs/{run.id}/retry/"))
    mo.client.post(f"/runs/{run.id}/pause/", {"reason": "It pays twice."})
    answer = mo.client.post(f"/runs/{run.id}/retry/", {"pause": drawn[0], "reason": "The tool is back."})
    assert drawn == [""] and answer.status_code == 409
    assert "paused this run at" in answer.content.decode() and "It pays twice." in answer.content.decode()
    assert "The tool is back.</textarea>" in answer.content.decode()
    assert run.controls.get(kind="PAUSE").status in OPEN_CONTROL


def test_who_pauses_a_moment_after_somebody_else_is_told_whose_pause_it_is(mo: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    act, late = f"/runs/{told.run.id}/pause/", member("funds", "li.wei", ALL)
    late.get(act)
    mo.client.post(act, {"reason": "Not tonight."})
    html = late.client.post(act, {"reason": "Not before the audit."}, follow=True).content.decode()
    assert "It was paused already: mo.okafor paused it at" in html and "The pause is accepted." not in html
    assert ControlRequest.objects.get().reason == "Not tonight."


def test_what_is_let_go_after_the_end_of_a_run_is_not_said_to_hold_or_to_queue_it(mo: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    promise = Obligation.objects.get(run=told.run, status="OPEN")
    term = Commitment.objects.create(
        tenant=mo.tenant,
        run=told.run,
        kind="CONSTRAINT",
        statement="Publish nothing.",
        source_kind="PERSON",
        source_ref="person:mo.okafor",
        source_version="start",
        accepted_revision=1,
    )
    Run.objects.filter(id=told.run.id).update(status="CANCELLED", ended_at=timezone.now())
    for url in (f"/obligations/{promise.id}/release/", f"/commitments/{term.id}/withdraw/"):
        drawn = mo.get(url)
        assert (
            "The run has ended" in drawn
            and "held" not in drawn.partition('<ol class="steps">')[2].partition("</ol>")[0]
        )
        html = mo.client.post(url, {"reason": "It is over."}, follow=True).content.decode()
        assert "The run has ended, and stays as it ended." in html


def test_raising_a_cap_from_the_run_page(mo: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    budget = told.run.budgets.filter(cap__isnull=False).order_by("unit").first()
    assert budget is not None
    page, act = f"/runs/{told.run.id}/", f"/runs/{told.run.id}/budget/"
    assert "What it may use" in mo.get(page) and "Raise a cap…" in mo.get(page)
    assert f'<option value="{budget.unit}"' in mo.get(act)
    seen = f"seen_{budget.unit}"
    assert f'name="{seen}" value="{budget.cap}"' in mo.get(act)
    sent = {"unit": budget.unit, "reason": "More.", seen: budget.cap}
    for wrong in ("much", "-1", "0", str(budget.cap)):
        answer = mo.client.post(act, {**sent, "cap": wrong})
        assert answer.status_code in (400, 409) and "Nothing was" in answer.content.decode()
    assert mo.client.post(act, {**sent, "cap": "987654"})["Location"] == page
    late = mo.client.post(act, {**sent, "cap": "1987654"})  # from a page that was drawn before
    assert late.status_code == 409 and "is 987654 by now, raised by mo" in late.content.decode()
    assert f'name="{seen}" value="987654"' in late.content.decode()
    budget.refresh_from_db()
    assert budget.cap == 987654
    assert "987,654" in mo.get(page)


# ── evidence against what was accepted ───────────────────────────────────────


def said(mo: Member, verdict: Verdict, then: FollowUp = FollowUp.NONE) -> ToolCall:
    """A call of unknown outcome with a verdict of the person."""
    _, call = story.unknown(mo.tenant, timezone.now() - timedelta(minutes=5))
    actor = actor_named(username=mo.name, door="page")
    given = VerdictRequest(verdict, "I looked", "post-1" if verdict == Verdict.EXECUTED else "", then)
    assert isinstance(call_reconcile(actor=actor, call_id=call.id, said=given), Reconciled)
    return call


def test_evidence_is_given_from_the_call_and_stands_in_the_inbox(mo: Member, viewer: Member) -> None:
    call = said(mo, Verdict.NOT_EXECUTED, FollowUp.RETRY)
    url = f"/calls/{call.id}/contradict/"
    assert url in mo.get(f"/calls/{call.id}/")
    assert url not in viewer.get(f"/calls/{call.id}/")
    assert "choose whether it happened" in mo.post(url, reason="It is on the wiki.").html
    assert viewer.post(url, says="EXECUTED", reason="It is <b>there</b>.").status == 403
    assert mo.post(url, says="EXECUTED", reason="It is <b>there</b>.", external_ref="post-7").status == 302
    flag = Contradiction.objects.get()
    inbox = mo.get(f"/inbox/?kind=flags&item=flag-{flag.id}")
    assert "Said otherwise" in inbox and "It is &lt;b&gt;there&lt;/b&gt;." in inbox and "a retry waits" in inbox
    shown = mo.get(f"/calls/{call.id}/")
    assert "A person says otherwise: it happened" in shown and f"/contradictions/{flag.id}/close/" in shown


def test_a_flag_is_closed_with_a_choice_and_a_reason(mo: Member, viewer: Member) -> None:
    call = said(mo, Verdict.NOT_EXECUTED, FollowUp.RETRY)
    mo.post(f"/calls/{call.id}/contradict/", says="EXECUTED", reason="It is there.")
    flag = Contradiction.objects.get()
    url = f"/contradictions/{flag.id}/close/"
    page = mo.get(url)
    assert "Send it again" in page and "Do not send it" in page and "checked" not in page.split("<form")[-1]
    assert "This needs the role " in viewer.get(url)
    assert "none is chosen for you" in mo.post(url, reason="I looked again.").html
    assert mo.post(url, closing="DO_NOT_SEND", reason="I looked again.").status == 302
    assert "The flag is closed. The retry is not sent:" in mo.get(f"/runs/{call.run_id}/")
    flag.refresh_from_db()
    assert (flag.closing, flag.closed_by, flag.closing_reason) == ("DO_NOT_SEND", "person:mo.okafor", "I looked again.")
    call.refresh_from_db()
    assert (call.status, call.blocking) == ("UNCERTAIN", False)
    assert "It is closed already" in mo.get(url)
    shown = mo.get(f"/calls/{call.id}/")
    assert "I looked again." in shown and "Your verdict on attempt" not in shown
    assert f"call-{call.id}" not in mo.get("/inbox/")


def test_without_a_retry_a_flag_is_noted(mo: Member) -> None:
    call = said(mo, Verdict.EXECUTED)
    mo.post(f"/calls/{call.id}/contradict/", says="NOT_EXECUTED", reason="It is not there.")
    url = f"/contradictions/{Contradiction.objects.get().id}/close/"
    assert "Nothing waits to be sent" in mo.get(url)
    assert mo.post(url, closing="NOTED", reason="A new run corrects it.").status == 302
    call.refresh_from_db()
    assert call.status == "SUCCEEDED"
