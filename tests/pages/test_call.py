"""The call page: what was sent, what is known and who says so; three verdicts of equal weight when nobody knows."""

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from accounts.models import Tenant
from checkpoints.models import Obligation
from receipts.models import Attachment, Probe, Reconciliation, Result, ToolCall
from receipts.services import probe_answer
from receipts.states import Found
from runs.services import refusal_record
from runs.states import RefusalKind
from runtime.services import run_stop
from tests.pages.conftest import Member
from tests.pages.driven import (
    ALDER,
    HOSTILE,
    Driven,
    Outside,
    assert_inert,
    lost,
    person,
    told,
    words,
)

QUERIES = 27


def url(call: ToolCall) -> str:
    return f"/calls/{call.id}/"


def form(verdict: str, evidence: str = "The wiki's list, 08:14: one post.", **changed: Any) -> dict[str, Any]:
    """What the page's form sends."""
    return {"verdict": verdict, "evidence": evidence, "external_ref": "", "then": "", "attempts": 1} | changed


def refused(member: Member, call: ToolCall, status: int, **sent: Any) -> str:
    """The page that answers a verdict with this status. Nothing was stored."""
    before = Reconciliation.objects.count()
    answer = member.post(url(call), **sent)
    assert answer.status == status
    assert Reconciliation.objects.count() == before
    return answer.html


def unknown() -> Driven:
    """The run that is held by a publication that did happen."""
    return told("lost")


def not_executed() -> Driven:
    """The run that is held by a publication that did not happen."""
    return told("lost, not executed")


# ── what is shown ────────────────────────────────────────────────────────────


def test_an_unknown_call_asks_its_question(ann: Member, outside: Outside) -> None:
    call = unknown().publishing
    said = words(html := ann.get(url(call)))
    assert "Was report v2 published on the wiki?" in said
    assert "It may have happened or not. It will not be sent again until a person says what is known." in said
    assert call.idempotency_key[:8] in html and call.intent_key[8:] in html
    assert "NO RESPONSE" in said and "fence 2" in said
    assert "1 tool call held back" in said
    assert "open; depends on this call" in said


def test_where_to_look_comes_before_the_verdict(ann: Member, outside: Outside) -> None:
    call = unknown().publishing
    html = ann.get(url(call))
    assert html.index(f'href="{outside.url}/"') < html.index('id="verdict"')
    assert f"{outside.url}/wiki/posts?key={call.idempotency_key}" in html


def test_nothing_is_chosen_and_all_consequences_are_visible(ann: Member, outside: Outside) -> None:
    html = ann.get(url(unknown().publishing))
    assert html.count('type="radio" name="verdict"') == 3
    assert not re.search(r"<(input|option)[^>]* (checked|selected)", html)
    said = words(html)
    for follows in (
        "marked “said by a person” for ever",
        "Report v2 counts as published on the wiki, on your word.",
        "attempt 2, with the same key and bytes",
        "If attempt 1 lands after all, it is there twice.",
        "The model is told that nobody knows.",
    ):
        assert follows in said


def test_an_answer_that_was_observed_says_so(ann: Member, outside: Outside) -> None:
    said = words(html := ann.get(url(told("published").publishing)))
    assert "Observed: the answer of attempt 1" in said
    assert "Data from a file or from outside" in said
    assert "An effect, by its answer" in said
    assert "SAID BY A PERSON" not in said
    assert 'id="verdict-form"' not in html


def test_a_late_answer_is_evidence_and_no_result(ann: Member, outside: Outside) -> None:
    run = unknown()
    refusal_record(
        tenant_id=ann.tenant.id,
        run_id=run.id,
        kind=RefusalKind.LATE_RESULT,
        fence=1,
        subject_id=run.publishing.id,
        evidence_digest="ab" * 32,
        detail={"attempt": 1},
    )
    said = words(ann.get(url(run.publishing)))
    assert "A late answer, not accepted" in said and "abababababab" in said
    assert "This is evidence to check, not a result." in said
    assert not Result.objects.filter(tool_call=run.publishing).exists()


def test_a_call_that_waits_leads_to_its_decision(ann: Member) -> None:
    run = told("waiting")
    html = ann.get(url(run.publishing))
    assert f'href="/waits/{run.wait.id}/"' in html and "Nothing was sent." in html


def test_what_files_and_people_wrote_is_inert(ann: Member, outside: Outside) -> None:
    run = lost(person("ann.moreau"), outside, a=ALDER.replace("NORTHWIND GRID CO", HOSTILE), title=HOSTILE)
    assert_inert(ann.get(url(run.publishing)))
    reading = ToolCall.objects.filter(run_id=run.id, tool="read_disclosure").first()
    assert reading is not None
    assert_inert(ann.get(url(reading)))
    assert ann.post(url(run.publishing), **form("EXECUTED", HOSTILE, external_ref=HOSTILE)).status == 302
    assert_inert(html := ann.get(url(run.publishing)))
    assert "U+202E" in html


def test_a_page_costs_a_bounded_number_of_queries(
    ann: Member, outside: Outside, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = unknown()
    for _ in range(80):
        refusal_record(
            tenant_id=ann.tenant.id, run_id=run.id, kind=RefusalKind.STALE_FENCE, subject_id=run.publishing.id
        )
    with django_assert_max_num_queries(QUERIES):
        html = ann.get(url(run.publishing))
    assert html.count("A refused write, STALE_FENCE") == 50
    panel = ann.get(url(run.publishing), panel="call-live")
    assert panel.lstrip().startswith('<div id="call-live"') and "<form" not in panel


# ── verdicts ─────────────────────────────────────────────────────────────────


def test_it_happened_is_a_persons_word_for_ever(ann: Member, outside: Outside) -> None:
    run = unknown()
    before = outside.executions(run.publishing.idempotency_key)
    answer = ann.post(url(run.publishing), **form("EXECUTED", external_ref="post-1", then="RETRY"))
    assert (answer.status, answer.location) == (302, url(run.publishing))
    said = words(ann.get(url(run.publishing)))
    assert "ann.moreau says that it happened. Nobody observed it here." in said
    assert "SAID BY A PERSON" in said and "Said, not observed" in said and "post-1" in said
    assert "Observed" not in said
    run.go_on()
    assert run.run.status == "COMPLETED"
    assert outside.executions(run.publishing.idempotency_key) == before


def test_it_did_not_happen_and_is_sent_again(ann: Member, outside: Outside) -> None:
    run = not_executed()
    before = outside.executions(run.publishing.idempotency_key)
    assert ann.post(url(run.publishing), **form("NOT_EXECUTED", then="RETRY")).status == 302
    run.go_on()
    said = words(ann.get(url(run.publishing)))
    assert "ann.moreau says: it did not happen, send again" in said
    assert "Observed: the answer of attempt 2" in said
    assert outside.executions(run.publishing.idempotency_key) == before + 1


def test_it_did_not_happen_and_fails(ann: Member, outside: Outside) -> None:
    run = not_executed()
    assert ann.post(url(run.publishing), **form("NOT_EXECUTED", then="FAIL")).status == 302
    assert "ann.moreau says that it did not happen." in words(ann.get(url(run.publishing)))
    assert run.publishing.status == "FAILED"


def test_go_on_without_it_leaves_it_unknown_and_takes_a_later_verdict(ann: Member, outside: Outside) -> None:
    run = unknown()
    assert ann.post(url(run.publishing), **form("PROCEED_UNKNOWN")).status == 302
    run.go_on()
    html = ann.get(url(run.publishing))
    assert "ann.moreau said" in words(html) and "still unknown, go on without it. Nothing waits for it." in words(html)
    assert 'value="RETRY" disabled' in html
    assert ann.post(url(run.publishing), **form("EXECUTED", external_ref="post-9")).status == 302
    assert Obligation.objects.get(run_id=run.id, step_name=run.publishing.step_name).status == "FULFILLED"


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (form(""), "choose one of the three"),
        (form("NOT_EXECUTED"), "choose whether it is sent again"),
        (form("EXECUTED", "  "), "evidence: it is empty"),
    ],
)
def test_a_verdict_that_is_not_complete_is_refused_with_what_was_typed(
    ann: Member, outside: Outside, sent: dict[str, Any], says: str
) -> None:
    html = refused(ann, unknown().publishing, 400, **(sent | {"external_ref": "post-77"}))
    assert says in words(html)
    assert 'value="post-77"' in html
    if sent["verdict"]:
        assert f'value="{sent["verdict"]}" checked' in html


def test_a_verdict_on_an_attempt_that_is_not_the_last_is_refused(ann: Member, outside: Outside) -> None:
    run = not_executed()
    ann.post(url(run.publishing), **form("NOT_EXECUTED", then="RETRY"))
    outside.tell(mode="drop", times=1)
    run.go_on()
    html = refused(ann, run.publishing, 409, **form("NOT_EXECUTED", "I read its log.", then="FAIL"))
    assert "You were looking at attempt 1; the call is at attempt 2." in words(html)
    assert ">I read its log.</textarea>" in html


def test_whoever_comes_second_is_told_what_was_said(ann: Member, ben: Member, outside: Outside) -> None:
    run = unknown()
    ben.post(url(run.publishing), **form("EXECUTED", external_ref="post-1"))
    html = refused(ann, run.publishing, 409, **form("NOT_EXECUTED", "My own finding.", then="FAIL"))
    assert "ben.diaz already said EXECUTED" in words(html)
    assert ">My own finding.</textarea>" in html
    assert 'type="button" data-gated aria-disabled="true">Record the verdict' in html


def test_on_an_ended_run_it_is_not_sent_again(ann: Member, outside: Outside) -> None:
    run = unknown()
    run_stop(actor=run.actor, run_id=run.id, reason="Enough.")
    html = ann.get(url(run.publishing))
    assert "Not sent again: The run has ended." in words(html)
    assert "RETRY_ON_ENDED_RUN" in refused(ann, run.publishing, 409, **form("NOT_EXECUTED", then="RETRY"))
    assert ann.post(url(run.publishing), **form("EXECUTED", external_ref="post-1")).status == 302
    assert run.run.status == "CANCELLED"


# ── who may ──────────────────────────────────────────────────────────────────


def test_a_viewer_sees_why_the_form_is_off(reader: Member, outside: Outside) -> None:
    call = unknown().publishing
    html = reader.get(url(call))
    assert "A verdict needs the role reconciler" in words(html)
    assert "<fieldset" in html and 'data-gate="one of the three is chosen" disabled' in html
    assert "NOT_ALLOWED" in refused(reader, call, 403, **form("EXECUTED"))


def test_nobody_else_sees_it(outsider: Member, outside: Outside) -> None:
    call = unknown().publishing
    assert outsider.client.get(url(call)).status_code == 404
    assert outsider.post(url(call), **form("EXECUTED")).status == 404


def test_bytes_that_were_changed_in_the_store_are_not_shown_as_if_they_were_the_recorded_ones(ann: Member) -> None:
    run = told("waiting")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE receipts_toolcall SET args = args || '\\x00' WHERE id = %s", [run.publishing.id])
    assert "The stored arguments can't be read." in words(ann.get(url(run.publishing)))


# ── a probe that a person asks for ───────────────────────────────────────────


def test_a_tool_that_can_not_be_asked_says_so_and_offers_no_probe(ann: Member) -> None:
    call = unknown().publishing
    html = ann.get(url(call))
    assert "The console can’t ask by itself: this tool has no way to." in words(html)
    assert 'value="probe"' not in html
    answer = ann.post(url(call), how="probe", attempts=1)
    assert answer.status == 409 and "NOTHING_TO_PROBE" in answer.html


def test_what_a_probe_has_found_looks_like_no_verdict(ann: Member) -> None:
    call = unknown().publishing
    asked = Probe.objects.create(
        tenant_id=call.tenant_id, tool_call=call, attempt_no=1, asked_by=f"person:{HOSTILE}"[:200]
    )
    assert "Asked, not answered yet" in words(ann.get(url(call)))
    probe_answer(asked.id, found=Found.THERE, how="the probe found the key", external_ref="post-7", early=False)
    html = ann.get(url(call))
    said = words(html)
    assert "Observed by a probe: it is there" in said and "Reference post-7." in said
    assert "Nobody has accepted it; a verdict is still a person’s." in said
    assert "SAID BY A PERSON" not in html and "Your verdict on attempt 1" in said
    assert_inert(html)


# ── a file beside a call ─────────────────────────────────────────────────────


def test_a_file_is_put_beside_a_call_and_can_only_be_saved(ann: Member, outsider: Member) -> None:
    call = unknown().publishing
    seen = SimpleUploadedFile("<b>list</b>.html", b"<script>alert(1)</script>", "text/html")
    answer = ann.post(url(call), how="attach", file=seen, note="One post, 08:14.")
    assert (answer.status, answer.location) == (302, url(call))
    html = ann.get(url(call))
    assert "One post, 08:14." in words(html) and "It is saved, never shown here." in words(html)
    assert "<b>list</b>" not in html
    path = f"{url(call)}attachments/{Attachment.objects.get().id}/"
    saved = ann.client.get(path)
    assert saved.content == b"<script>alert(1)</script>"
    assert saved.headers["Content-Type"] == "application/octet-stream"
    assert (
        saved.headers["Content-Disposition"].startswith("attachment")
        and saved.headers["X-Content-Type-Options"] == "nosniff"
    )
    assert outsider.client.get(path).status_code == 404
    assert ann.post(url(call), how="attach").status == 400
    big = SimpleUploadedFile("big.bin", b"x" * (1024 * 1024 + 1))
    assert ann.post(url(call), how="attach", file=big).status == 413


# ── a second person ──────────────────────────────────────────────────────────


def test_where_two_have_to_say_the_same_the_page_says_who_said_what_and_that_it_settles_nothing(
    ann: Member, ben: Member
) -> None:
    Tenant.objects.filter(id=ann.tenant.id).update(two_for_verdicts=True)
    call = unknown().publishing
    assert "Two people have to say the same before it counts as known." in words(ann.get(url(call)))
    assert ann.post(url(call), **form("EXECUTED", external_ref="post-7")).status == 302
    html = ben.get(url(call))
    said = words(html)
    mine = words(ann.get(url(call)))
    assert "Your word is stored" in mine
    assert "You say that it happened. Somebody else has to say the same; saying it again settles nothing." in mine
    assert "ann.moreau says that it happened. If you say the same, it is settled." in said
    assert "A second person has to say the same; until then nothing is settled." in said
    assert "SAID BY A PERSON" not in html and not Reconciliation.objects.filter(tool_call=call).exists()
    assert ben.post(url(call), **form("EXECUTED", external_ref="post-7")).status == 302
    html = ben.get(url(call))
    assert "SAID BY A PERSON" in html and "A second person said the same." in words(html)
