"""Questions to people: the run waits, the first answer is the result, and where nobody answers the model is told so."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError

from accounts.errors import NotFound, Refused
from accounts.models import AuditEvent
from approvals.models import Answer, Decision, Vote, Wait
from approvals.services import (
    FILE_BYTES,
    Declined,
    Delegated,
    DelegationWanted,
    FileGiven,
    FormGiven,
    QuestionAnswered,
    delegation_give,
    wait_expire,
)
from receipts.models import Result, ToolCall
from runs.canonical import digest
from runs.models import Artifact, Wakeup
from runtime.contracts import ToolContext, ToolFailed, ToolOutcome
from runtime.loop import drive
from runtime.services import Written as AmendmentWritten
from runtime.services import call_amend
from tests.engine.asking import ROUNDS, answered, asked, code_of, told
from tests.engine.engine import (
    Engine,
    added,
    counts,
    open_wait,
    pass_deadline,
    people,
    phases,
    run_now,
    shown,
    sql,
    watch_requests,
)
from tests.engine.races import together
from tests.scripted import SCRIPT, calls, went_well

# ── one question ─────────────────────────────────────────────────────────────


def test_a_question_parks_its_run_without_a_worker_bound_to_the_head(engine: Engine, question: Wait) -> None:
    run = run_now(question.run_id)
    assert (run.status, phases(run.id)[-1]) == ("WAITING", "AWAITING_INPUT")
    assert (question.kind, question.status, question.tool_call.status) == ("QUESTION", "OPEN", "AWAITING_INPUT")
    assert (question.checkpoint_revision, question.quorum) == (len(phases(run.id)), 1)
    assert not ToolCall.objects.get(run=run).attempts


def test_an_answer_is_the_result_of_the_question_as_said_by_that_person(engine: Engine, question: Wait) -> None:
    differences = watch_requests()
    outcome = answered(engine, question, "the second\none")
    answer = Answer.objects.get(wait=question)
    assert outcome == QuestionAnswered(question.id, "ANSWER", engine.person("ann").label, answer.digest)
    assert b"second" not in bytes(answer.body)
    drive(question.run_id)
    call = ToolCall.objects.get(run_id=question.run_id)
    result = Result.objects.get(tool_call=call)
    assert (call.status, call.attempts) == ("SUCCEEDED", 0)
    assert (result.source, result.ok, result.answered_wait_id) == ("HUMAN", True, question.id)
    (heard,) = told(2)
    assert (heard["ok"], heard["value"]) == (True, {"answered_by": outcome.by, "answer": "the second\none"})
    question.refresh_from_db()
    assert (question.status, run_now(question.run_id).status) == ("CONSUMED", "COMPLETED")
    assert phases(question.run_id)[-3:] == ["READY_TO_DECIDE", "READY_TO_VERIFY", "FINISHED"]
    assert not differences


def test_an_answer_in_words_is_kept_with_the_space_around_it(engine: Engine, question: Wait) -> None:
    answered(engine, question, "    indented:\n      more\n\n")
    drive(question.run_id)
    assert told(2)[0]["value"]["answer"] == "    indented:\n      more\n\n"


def test_what_is_recorded_of_an_answer_is_who_when_and_its_digest_never_its_words(
    engine: Engine, question: Wait
) -> None:
    before = counts()
    outcome = answered(engine, question, "the second one")
    assert added(before)["approvals_answer"] == 1
    event = AuditEvent.objects.get(action="wait.answer")
    assert event.detail["answer_digest"] == outcome.digest
    assert "second" not in str(event.detail)
    decision = Decision.objects.get(wait=question)
    assert (decision.verdict, decision.reason, decision.actor) == ("ANSWER", "", outcome.by)
    assert Wakeup.objects.get(wait_id=question.id).cause == "DECISION"


def test_a_person_may_decline_with_a_reason_and_the_model_is_told(engine: Engine, question: Wait) -> None:
    refused = answered(engine, question, Declined(" "))
    assert (refused.code, refused.facts["field"]) == ("INVALID", "reason")
    assert answered(engine, question, Declined("ask the fund's house")).verdict == "DECLINE"
    drive(question.run_id)
    call = ToolCall.objects.get(run_id=question.run_id)
    assert (call.status, call.error) == ("REJECTED", "a person declined to answer: ask the fund's house")
    (heard,) = told(2)
    assert not heard["ok"] and "ask the fund's house" in heard["value"]["error"]
    assert not Result.objects.filter(tool_call=call).exists()


def test_where_nobody_answers_in_time_the_model_is_told_so_and_nothing_is_invented(
    engine: Engine, question: Wait
) -> None:
    pass_deadline(question)
    late = answered(engine, question, "too late")
    assert (late.code, Answer.objects.count()) == ("EXPIRED", 0)
    assert wait_expire(wait_id=question.id)
    assert answered(engine, question, "still too late").code == "EXPIRED"
    drive(question.run_id)
    (heard,) = told(2)
    assert (heard["ok"], heard["value"]) == (False, {"error": "rejected: nobody answered in time"})
    assert (run_now(question.run_id).status, Decision.objects.count()) == ("COMPLETED", 0)


# ── who may, and on what ─────────────────────────────────────────────────────


def test_the_first_answer_stands_and_the_second_is_told_who_and_when(engine: Engine, question: Wait) -> None:
    answered(engine, question, "one", by="ann")
    second = answered(engine, question, "two", by="abe")
    assert (second.code, second.facts["verdict"]) == ("ALREADY_ANSWERED", "answered")
    assert f"person:{second.facts['by']}" == engine.person("ann").label
    assert second.facts["decided_at"] == Decision.objects.get(wait=question).at.isoformat()
    assert engine.audited()[-1] == ("wait.answer.refused", "person:abe", "ALREADY_ANSWERED")
    assert answered(engine, question, "one", by="ann").sentence.startswith("You answered this question at ")


def test_answers_and_refusals_to_answer_at_once_leave_one(engine: Engine) -> None:
    for _ in range(ROUNDS):
        wait = open_wait(engine.run(calls(asked())))
        outcomes = together(
            *(partial(answered, engine, wait, word, by) for word, by in (("a", "ann"), ("b", "abe"), ("c", "olga"))),
            partial(answered, engine, wait, Declined("not for us"), "rolf"),
        )
        (won,) = [outcome for outcome in outcomes if isinstance(outcome, QuestionAnswered)]
        assert {outcome.code for outcome in outcomes if isinstance(outcome, Refused)} == {"ALREADY_ANSWERED"}
        assert Decision.objects.get(wait=wait).actor == won.by
        assert (Vote.objects.filter(wait=wait).count(), Wakeup.objects.filter(wait_id=wait.id).count()) == (1, 1)
        assert Answer.objects.filter(wait=wait).count() == (won.verdict == "ANSWER")
        drive(wait.run_id)
        assert run_now(wait.run_id).status == "COMPLETED"


def test_an_answer_and_a_stop_at_once_end_in_a_stopped_run_that_says_which_came_first(engine: Engine) -> None:
    for _ in range(ROUNDS):
        wait = open_wait(engine.run(calls(asked())))
        said, _ = together(partial(answered, engine, wait, "a"), partial(engine.stop, wait.run_id))
        drive(wait.run_id)
        wait.refresh_from_db()
        assert (wait.status, run_now(wait.run_id).status) == ("CANCELLED", "CANCELLED")
        assert isinstance(said, QuestionAnswered) or said.code == "RUN_STOPPED"
        assert len(SCRIPT.requests) == 1
        SCRIPT.requests.clear()


def test_whoever_may_not_decide_may_not_answer(engine: Engine, question: Wait) -> None:
    assert [answered(engine, question, "x", by=by).code for by in ("vera", "otto", "rita")] == ["NOT_ALLOWED"] * 3
    stranger = Engine(people("south"))
    with pytest.raises(NotFound):
        answered(stranger, question, "x")
    assert Vote.objects.count() == 0


def test_whoever_started_a_run_may_answer_it_even_where_they_may_not_approve(engine: Engine) -> None:
    sql("UPDATE accounts_tenant SET self_approval = false")
    wait = open_wait(engine.run(calls(asked()), by="olga"))
    assert isinstance(answered(engine, wait, "mine", by="olga"), QuestionAnswered)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"revision": 1}, "STALE_REVISION"),
        ({"digest": "0" * 64}, "STALE_REVISION"),
        ({"args_digest": "0" * 64}, "ARGS_CHANGED"),
    ],
)
def test_an_answer_to_what_was_not_shown_is_refused(
    engine: Engine, question: Wait, changed: dict[str, Any], code: str
) -> None:
    seen = replace(shown(question), **changed)
    assert answered(engine, question, "x", seen=seen).code == code
    assert (Answer.objects.count(), Vote.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write an answer"),
        (" \n", "write an answer"),
        ("x" * 10_001, "at most 10000 characters"),
        ("a\x00b", "NUL"),
        ("AKIAIOSFODNN7EXAMPLE and more", "write it without"),
    ],
)
def test_an_answer_that_can_not_be_stored_is_refused_by_its_field(
    engine: Engine, question: Wait, text: str, why: str
) -> None:
    refused = answered(engine, question, text)
    assert (refused.code, refused.status, list(refused.facts["fields"])) == ("INVALID_ANSWER", 400, ["text"])
    assert why in refused.sentence
    assert (Answer.objects.count(), Vote.objects.count()) == (0, 0)


def test_a_question_is_not_decided_and_a_call_is_not_answered(engine: Engine, question: Wait) -> None:
    assert code_of(engine.decide(question)) == "WRONG_KIND"
    assert code_of(engine.decide(question, "REJECT")) == "WRONG_KIND"
    amended = call_amend(
        actor=engine.person("ann"),
        wait_id=question.id,
        written=AmendmentWritten({"question": "Another?"}, shown(question), "mine is better"),
    )
    assert code_of(amended) == "WRONG_KIND"
    call = open_wait(engine.run(calls(("once", "a"))))
    assert answered(engine, call, "yes").code == "WRONG_KIND"
    assert answered(engine, call, Declined("no")).code == "WRONG_KIND"


def test_the_database_holds_the_same_rules(engine: Engine, question: Wait) -> None:
    with pytest.raises(DatabaseError, match="decided by its decision only"):
        sql("UPDATE approvals_wait SET status = 'ANSWERED' WHERE id = %s", question.id)
    with pytest.raises(DatabaseError, match="Invalid transition"):
        sql("UPDATE approvals_wait SET status = 'CONSUMED' WHERE id = %s", question.id)
    call = open_wait(engine.run(calls(("once", "a"))))
    with pytest.raises(DatabaseError, match="only an open question"):
        sql(
            "INSERT INTO approvals_answer (wait_id, kind, digest, size, body, data_key_id) "
            "VALUES (%s, 'TEXT', repeat('0', 64), 1, 'x', gen_random_uuid())",
            call.id,
        )
    with pytest.raises(DatabaseError, match="a call is decided, and a question is answered"):
        sql(
            "INSERT INTO approvals_decision (wait_id, verdict, seen_revision, seen_digest, seen_args_digest, reason, actor) "
            "VALUES (%s, 'APPROVE', %s, %s, %s, 'x', 'person:x')",
            question.id,
            question.checkpoint_revision,
            question.checkpoint_digest,
            question.args_digest,
        )


# ── forms and files ──────────────────────────────────────────────────────────

FORM = {
    "type": "object",
    "properties": {
        "which": {"type": "string", "enum": ["first", "second"]},
        "weight": {"type": "number", "minimum": 0, "maximum": 100},
        "why": {"type": "string", "default": "as before"},
    },
    "required": ["which"],
}


def test_a_form_is_answered_by_its_fields_and_nothing_is_filled_in(engine: Engine) -> None:
    wait = open_wait(engine.run(calls(asked(answer="form", form=FORM))))
    wrong = answered(engine, wait, FormGiven({"weight": 101, "more": 1}))
    assert (wrong.code, set(wrong.facts["fields"])) == ("INVALID_ANSWER", {"which", "weight", "more"})
    assert answered(engine, wait, "the first").facts["fields"].keys() == {"answer"}
    secret = FormGiven({"which": "first", "why": "AKIAIOSFODNN7EXAMPLE"})
    assert answered(engine, wait, secret).facts["fields"].keys() == {"why"}
    assert isinstance(answered(engine, wait, FormGiven({"which": "second", "weight": 2.5})), QuestionAnswered)
    drive(wait.run_id)
    assert told(2)[0]["value"]["answer"] == {"which": "second", "weight": 2.5}


@pytest.mark.parametrize(
    ("proposed", "why"),
    [
        ({"answer": "form"}, "form: it is given with answer form"),
        ({"form": FORM}, "form: it is given with answer form"),
        ({"answer": "form", "form": {"type": "object"}}, "form.properties: it is needed"),
        ({"answer": "form", "form": FORM | {"anyOf": []}}, "form.anyOf: this keyword is not supported"),
        ({"answer": "speech"}, "answer"),
        ({"question": "Is AKIAIOSFODNN7EXAMPLE right?"}, "Ask without it"),
    ],
)
def test_a_question_that_people_can_not_be_shown_is_refused_to_the_model(
    engine: Engine, proposed: dict[str, Any], why: str
) -> None:
    run_id = engine.run(calls(asked(**proposed)))
    assert not Wait.objects.filter(run_id=run_id).exists()
    assert why in told(2)[0]["value"]["error"]


def test_a_file_is_kept_encrypted_by_digest_and_read_by_a_tool_that_is_told_of_it(engine: Engine) -> None:
    wait = open_wait(engine.run(calls(asked(answer="file"))))
    for given, why in (
        (FileGiven("", b"x"), "no name"),
        (FileGiven("a.csv", b""), "not empty"),
        (FileGiven("a.csv", b"x" * (FILE_BYTES + 1)), "at most"),
    ):
        refused = answered(engine, wait, given)
        assert refused.facts["fields"].keys() == {"file"} and why in refused.sentence
    data = b"line,meaning\n1,cash\n"
    assert isinstance(answered(engine, wait, FileGiven("lines.csv", data)), QuestionAnswered)
    sha256 = digest(data)
    stored = Artifact.objects.get(sha256=sha256)
    assert data not in bytes(stored.body)
    read: dict[str, object] = {}

    def reads(context: ToolContext) -> ToolOutcome:
        read["told"] = context.results[-1].value["answer"]
        read["data"] = context.answered(sha256)
        with pytest.raises(ToolFailed):
            context.answered("0" * 64)
        return went_well("r")

    SCRIPT.do("r", reads)
    SCRIPT.tell(calls(asked(answer="file")), calls(("look", "r")))
    drive(wait.run_id)
    assert read == {"told": {"filename": "lines.csv", "sha256": sha256, "size": len(data)}, "data": data}
    assert run_now(wait.run_id).status == "COMPLETED"


def test_a_person_may_answer_for_somebody_who_has_them_decide(engine: Engine, question: Wait) -> None:
    otto, ann = engine.person("otto"), engine.person("ann")
    until = datetime.now(tz=UTC) + timedelta(hours=1)
    given = delegation_give(actor=ann, wanted=DelegationWanted(taker=otto.name, ends_at=until, reason="away"))
    assert isinstance(given, Delegated), given
    assert isinstance(answered(engine, question, "for ann", by="otto"), QuestionAnswered)
    vote = Vote.objects.get(wait=question)
    assert (vote.actor, vote.voice, vote.verdict) == (otto.label, ann.label, "ANSWER")
    assert AuditEvent.objects.get(action="wait.answer").detail["in_place_of"] == ann.label
