"""The page of a question: what is asked as the model's text, a form with labels, errors in their place, and what became of it."""

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from approvals.models import Answer, Wait
from tests.engine.engine import pass_deadline
from tests.pages.conftest import Member
from tests.pages.driven import Driven, asking, person, words
from tests.pages.test_acting_in_the_browser import signed_in
from tests.stack import Stack


@pytest.fixture
def run(ann: Member) -> Driven:
    return asking(person(ann.name), title="asks")


def url(wait: Wait) -> str:
    return f"/waits/{wait.id}/"


def form(wait: Wait, **fields: Any) -> dict[str, Any]:
    seen = {
        "revision": wait.checkpoint_revision,
        "digest": wait.checkpoint_digest,
        "args_digest": wait.args_digest,
    }
    return {"verdict": "ANSWER", **seen, **fields}


def test_a_question_is_listed_and_shown_as_the_models_words_with_its_form(ann: Member, run: Driven) -> None:
    html = words(ann.get("/inbox/?kind=questions"))
    assert "“What are the lines without a ticker" in html and "Open the question" in html
    assert "What are the lines" not in words(ann.get("/inbox/?kind=approvals", panel="inbox-list"))
    page = ann.get(url(run.wait))
    shown = words(page)
    assert "Text from the model. Nobody has checked it." in shown
    assert "The goal Compare the holdings of the two funds" in shown
    assert "They are" in shown and "How sure you are, in percent (may be left open)" in shown
    assert "and not published. A whole number, at least 0, at most 100." in shown
    assert 'type="radio" name="f-meaning" value="some of both"' in page
    assert "Approve this call" not in shown
    assert "left To the answer" in shown, "on a phone a line at the foot says how long and where"


def test_what_does_not_fit_is_said_at_its_field_and_what_was_typed_stays(ann: Member, run: Driven) -> None:
    answer = ann.post(url(run.wait), **form(run.wait, **{"f-sure": "120", "f-remark": "Look at “Fund B”"}))
    assert (answer.status, Answer.objects.count()) == (400, 0)
    assert "INVALID_ANSWER" in answer.html and 'value="120"' in answer.html and "Look at “Fund B”" in answer.html
    shown = words(answer.html)
    assert "an answer is needed" in shown and "less than or equal to 100" in shown


def test_an_answer_is_listed_by_the_labels_that_its_fields_had(ann: Member, run: Driven) -> None:
    ann.post(url(run.wait), **form(run.wait, **{"f-meaning": "some of both", "f-sure": "80"}))
    html = ann.get(url(run.wait))
    listed = html[html.index('id="said"') :]
    assert "They are" in listed and "How sure you are, in percent" in listed
    assert "<dt>" in listed and ">meaning<" not in listed and ">sure<" not in listed


def test_an_answer_is_shown_as_the_word_of_its_person(ann: Member, run: Driven) -> None:
    fields = {"f-meaning": "some of both", "f-sure": "80", "f-remark": ""}
    assert ann.post(url(run.wait), **form(run.wait, **fields)).status == 302
    shown = words(ann.get(url(run.wait)))
    assert "ann.moreau answered" in shown and "A worker takes the run" in shown and "The word of a person." in shown
    wait = run.wait
    run.go_on()
    assert "The question is SUCCEEDED" in words(ann.get(url(wait)))
    assert "The word of a person, given as an answer" in words(ann.get(f"/calls/{wait.tool_call_id}/"))
    assert "ALREADY_ANSWERED" in ann.post(url(wait), **form(wait, **fields)).html


def test_the_other_pages_of_a_run_say_question_and_answered_never_approval_or_rejected(
    ann: Member, run: Driven
) -> None:
    asked = words(ann.get(f"/runs/{run.id}/"))
    assert "Question asked by ask_person/question" in asked and "Open the question" in asked
    assert "Questions" in words(ann.get("/"))
    ann.post(url(run.wait), **form(run.wait, **{"f-meaning": "some of both"}))
    wait = run.wait
    run.go_on()
    told = [words(ann.get(path)) for path in (f"/runs/{run.id}/", f"/runs/{run.id}/stop/", f"/runs/{run.id}/handover/")]
    assert all("ann.moreau answered" in html for html in told)
    assert "ann.moreau answered" in words(ann.get(f"/calls/{wait.tool_call_id}/"))
    assert not any("ann.moreau rejected" in html for html in told)


def test_to_decline_needs_a_reason_and_is_said(ann: Member, run: Driven) -> None:
    refused = ann.post(url(run.wait), **form(run.wait, verdict="DECLINE", reason=" "))
    assert (refused.status, "needs a reason in words" in refused.html) == (400, True)
    wait = run.wait
    assert ann.post(url(wait), **form(wait, verdict="DECLINE", reason="Ask the house.")).status == 302
    assert "ann.moreau declined to answer" in words(ann.get(url(wait)))
    run.go_on()
    assert "a person declined to answer: Ask the house." in words(ann.get(f"/calls/{wait.tool_call_id}/"))


def test_who_may_only_read_sees_why_both_are_off_and_a_late_one_is_told(
    ann: Member, reader: Member, outsider: Member, run: Driven
) -> None:
    assert "Deciding needs the role approver" in words(reader.get(url(run.wait)))
    assert "NOT_ALLOWED" in reader.post(url(run.wait), **form(run.wait, **{"f-meaning": "some of both"})).html
    assert outsider.client.get(url(run.wait)).status_code == 404
    pass_deadline(run.wait)
    assert "EXPIRED" in ann.post(url(run.wait), **form(run.wait, **{"f-meaning": "some of both"})).html
    assert "Nobody answered in time." in words(ann.get(url(run.wait)))


# ── in a browser ─────────────────────────────────────────────────────────────


@pytest.mark.browser
@pytest.mark.process
def test_a_person_answers_a_form_in_the_browser(browser: Browser, told_site: Stack) -> None:
    run = asking(person("ann.moreau"))
    page = signed_in(browser, told_site.url)
    page.goto(f"{told_site.url}inbox/?kind=questions&item=wait-{run.wait.id}")
    page.get_by_role("link", name="Open the question").click()
    send = page.get_by_role("button", name="Send the answer")
    page.get_by_label("How sure you are, in percent").fill("a lot")
    expect(send).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#off-a")).to_have_text("Off until “They are” is chosen.")
    page.get_by_label("some of both").check()
    send.click()
    expect(page.locator("#wait-live .notice")).to_contain_text("INVALID_ANSWER")
    expect(page.get_by_label("How sure you are, in percent")).to_have_value("a lot")
    expect(page.get_by_label("some of both")).to_be_checked()
    page.get_by_label("How sure you are, in percent").fill("80")
    page.get_by_role("button", name="Send the answer").click()
    expect(page.locator("#wait-live .notice h2")).to_contain_text("ann.moreau answered")
    expect(page.locator("#said")).to_contain_text("some of both")
    run.go_on()
    page.evaluate(f"document.body.dispatchEvent(new CustomEvent('live:run-{run.id}'))")
    expect(page.locator("#wait-live")).to_contain_text("The question is SUCCEEDED")
    page.context.close()
