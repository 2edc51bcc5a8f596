"""Questions to people: the run waits, the first answer is the result, and where nobody answers the model is told so."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

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
    Given,
    Looked,
    QuestionAnswered,
    Seen,
    TextGiven,
    delegation_give,
    question_answer,
    wait_assign,
    wait_claim,
    wait_escalate,
    wait_expire,
    wait_remind,
)
from receipts.models import Result, ToolCall
from runs.canonical import digest
from runs.models import Artifact, Wakeup
from runtime.contracts import ToolContext, ToolFailed, ToolOutcome
from runtime.loop import drive
from runtime.policy import IN_FORCE
from runtime.services import Written as AmendmentWritten
from runtime.services import call_amend, run_pause
from runtime.tasks import sweep
from tests.agents import SCRIPT, calls, went_well
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    added,
    counts,
    expire_lease,
    kill,
    open_wait,
    pass_deadline,
    people,
    phases,
    run_now,
    shown,
    sql,
    sql_past_triggers,
    watch_requests,
)
from tests.engine.governed import govern, rule
from tests.engine.races import together

ASKS = {"question": "Which of the two lines is the bond?", "why": "The sheet names both."}
ROUNDS = 10


def asked(**differently: Any) -> tuple[str, dict[str, Any]]:
    """A proposal that asks."""
    return "ask_person", ASKS | differently


def answered(engine: Engine, wait: Wait, given: Given | str, by: str = "ann", seen: Seen | None = None) -> Any:
    said = TextGiven(given) if isinstance(given, str) else given
    return question_answer(actor=engine.person(by), wait_id=wait.id, seen=seen or shown(wait), given=said)


def code_of(outcome: object) -> str:
    """The code of a refusal."""
    assert isinstance(outcome, Refused), outcome
    return outcome.code


def told(turn: int) -> list[dict[str, Any]]:
    """What the model was told of its calls in the request of a turn."""
    request = next(request for request in SCRIPT.requests if request.turn_no == turn)
    return [message for message in request.history if message["role"] == "tool"]


@pytest.fixture
def question(engine: Engine) -> Wait:
    """The open question of a run that asks in its first turn."""
    return open_wait(engine.run(calls(asked())))


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


# ── with other calls of its turn ─────────────────────────────────────────────


def test_reads_go_first_then_questions_then_approvals(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), asked(), ("look", "b")))
    wait = open_wait(run_id)
    assert (wait.kind, SCRIPT.labels("look"), phases(run_id)[-2:]) == (
        "QUESTION",
        ["b"],
        ["TOOL_RESULT_RECORDED", "AWAITING_INPUT"],
    )
    answered(engine, wait, "go on")
    drive(run_id)
    assert (open_wait(run_id).kind, phases(run_id)[-2:]) == ("APPROVAL", ["DECISION_RECORDED", "AWAITING_APPROVAL"])
    engine.approve(run_id)
    drive(run_id)
    assert [message["tool"] for message in told(2)] == ["once", "ask_person", "look"]
    assert run_now(run_id).status == "COMPLETED"


def test_the_questions_of_a_turn_are_one_barrier(engine: Engine) -> None:
    run_id = engine.run(calls(asked(), asked(question="And the other?"), asked(question="A third?")))
    first, second, third = Wait.objects.filter(run_id=run_id).order_by("tool_call__ordinal")
    answered(engine, first, "one")
    assert run_now(run_id).status == "WAITING"
    answered(engine, second, Declined("no"))
    pass_deadline(third)
    assert wait_expire(wait_id=third.id)
    drive(run_id)
    assert [message["ok"] for message in told(2)] == [True, False, False]
    assert run_now(run_id).status == "COMPLETED"


def test_the_same_question_is_asked_once(engine: Engine) -> None:
    run_id = engine.run(calls(asked()), calls(asked()))
    answered(engine, open_wait(run_id), "one")
    drive(run_id)
    assert (run_now(run_id).status, Wait.objects.filter(run_id=run_id).count()) == ("COMPLETED", 1)
    assert [message["value"]["answer"] for message in told(3)] == ["one", "one"]


# ── acts on the run while it waits ───────────────────────────────────────────


def test_a_stop_closes_the_question_and_says_so_to_whoever_answers(engine: Engine, question: Wait) -> None:
    engine.stop(question.run_id)
    assert answered(engine, question, "late").code == "RUN_STOPPED"
    assert (run_now(question.run_id).status, ToolCall.objects.get(run_id=question.run_id).status) == (
        "CANCELLED",
        "CANCELLED",
    )


def test_a_paused_run_keeps_its_question_and_an_answer_waits_for_the_resume(engine: Engine, question: Wait) -> None:
    run_pause(actor=engine.person("otto"), run_id=question.run_id, reason="wait")
    assert isinstance(answered(engine, question, "one"), QuestionAnswered)
    drive(question.run_id)
    assert run_now(question.run_id).status == "HELD"
    engine.resume(question.run_id)
    drive(question.run_id)
    assert run_now(question.run_id).status == "COMPLETED"


@pytest.mark.parametrize("before", ["open", "answered"])
def test_a_new_goal_takes_a_question_back_and_asks_it_anew(engine: Engine, question: Wait, before: str) -> None:
    if before == "answered":
        answered(engine, question, "to the old goal")
    engine.revise(question.run_id, "Another goal.")
    drive(question.run_id)
    again = open_wait(question.run_id)
    assert again.checkpoint_revision > question.checkpoint_revision
    stale = answered(engine, question, "x")
    assert stale.code == ("ALREADY_ANSWERED" if before == "answered" else "STALE_REVISION")
    answered(engine, again, "to the new goal")
    drive(question.run_id)
    assert told(2)[0]["value"]["answer"] == "to the new goal"


def test_a_policy_may_forbid_a_question_or_say_whom_it_asks(engine: Engine) -> None:
    IN_FORCE.clear()
    govern(engine, rule("analysts answer", "ask", tools=["ask_person"], group="analysts", people=3, dwell="60s"))
    wait = open_wait(engine.run(calls(asked())))
    assert (wait.required_group, wait.quorum, wait.dwell_seconds, wait.kind) == ("analysts", 1, 0, "QUESTION")
    assert answered(engine, wait, "x").code == "NOT_ALLOWED"
    govern(engine, rule("no questions", "deny", tools=["ask_person"]))
    sweep()
    drive(wait.run_id)
    assert "no questions" in told(2)[0]["value"]["error"]
    assert run_now(wait.run_id).status == "COMPLETED"


def test_people_claim_are_given_and_are_reminded_of_a_question_as_of_any_wait(engine: Engine, question: Wait) -> None:
    ann, abe = engine.person("ann"), engine.person("abe")
    assert wait_claim(actor=ann, wait_id=question.id) == Looked(question.id, ann.label)
    given = wait_assign(actor=ann, wait_id=question.id, person=abe.name, reason="yours")
    assert given == Looked(question.id, abe.label)
    for column in ("remind_at", "escalate_at"):
        sql_past_triggers(f"UPDATE approvals_wait SET {column} = clock_timestamp()")
    assert wait_remind(wait_id=question.id) and wait_escalate(wait_id=question.id)


def test_a_continued_run_knows_what_was_answered_and_asks_what_was_not(engine: Engine) -> None:
    run_id = engine.run(calls(asked()), calls(asked(question="And now?")))
    answered(engine, open_wait(run_id), "the first")
    drive(run_id)
    engine.stop(run_id)
    SCRIPT.tell(calls(), calls(asked(), asked(question="And now?")))
    new = engine.carry_on(run_id).run_id
    drive(new)
    (wait,) = Wait.objects.filter(run_id=new)
    answered(engine, wait, "the second")
    drive(new)
    assert run_now(new).status == "COMPLETED"
    replayed = [step.status for step in engine.replay(new).steps if step.name.startswith("ask_person")]
    assert replayed == ["SUCCEEDED", "SUCCEEDED"]


def test_a_fork_of_a_run_that_waits_asks_for_itself(engine: Engine, question: Wait) -> None:
    SCRIPT.tell(calls(asked()))
    fork = engine.fork(question.run_id, question.checkpoint_revision).run_id
    drive(fork)
    other = open_wait(fork)
    answered(engine, other, "to the fork")
    drive(fork)
    assert (run_now(fork).status, run_now(question.run_id).status) == ("COMPLETED", "WAITING")


# ── who is lost ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("point", ["after_decision_saved", "inside_wait_tx", "after_wait_opened"])
def test_a_worker_that_is_lost_around_the_question_leaves_one(engine: Engine, at_point: At, point: str) -> None:
    at_point(point, kill)
    SCRIPT.tell(calls(asked()))
    run_id = engine.start()
    with pytest.raises(Killed):
        drive(run_id)
    if run_now(run_id).status == "RUNNING":
        _take_over(run_id)
    answered(engine, open_wait(run_id), "one")
    drive(run_id)
    assert (run_now(run_id).status, Wait.objects.filter(run_id=run_id).count()) == ("COMPLETED", 1)


@pytest.mark.parametrize("point", ["inside_hear_tx", "after_wake_consumed"])
def test_a_worker_that_is_lost_around_the_answer_loses_nothing_of_it(
    engine: Engine, question: Wait, at_point: At, point: str
) -> None:
    answered(engine, question, "one")
    at_point(point, kill)
    with pytest.raises(Killed):
        drive(question.run_id)
    _take_over(question.run_id)
    assert run_now(question.run_id).status == "COMPLETED"
    assert Result.objects.filter(tool_call__run_id=question.run_id).count() == 1
    assert told(2)[0]["value"]["answer"] == "one"


def test_an_answer_whose_hint_is_lost_is_heard_after_the_sweep(engine: Engine, question: Wait, at_point: At) -> None:
    at_point("inside_decide_tx", kill)
    with pytest.raises(Killed):
        answered(engine, question, "one")
    assert (Answer.objects.count(), run_now(question.run_id).status) == (0, "WAITING")
    at_point("after_decision_committed", kill)
    with pytest.raises(Killed):
        answered(engine, question, "one")
    engine.hints.clear()
    sweep()
    assert question.run_id in engine.hints
    drive(question.run_id)
    assert run_now(question.run_id).status == "COMPLETED"


def test_an_answer_that_was_changed_in_the_store_is_not_given_to_the_model(engine: Engine, question: Wait) -> None:
    answered(engine, question, "one")
    other = open_wait(engine.run(calls(asked())))
    answered(engine, other, "two")
    sql_past_triggers(
        "UPDATE approvals_answer SET body = (SELECT body FROM approvals_answer WHERE wait_id = %s) WHERE wait_id = %s",
        other.id,
        question.id,
    )
    SCRIPT.requests.clear()
    drive(question.run_id)
    run = run_now(question.run_id)
    assert (run.status, run.hold_reason, SCRIPT.requests) == ("HELD", "RESUME_REFUSED", [])


def _take_over(run_id: UUID) -> None:
    expire_lease(run_id)
    drive(run_id)


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
