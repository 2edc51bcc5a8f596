"""A question while its run lives on: with other calls of its turn, under acts on the run, and when somebody is lost."""

from uuid import UUID

import pytest

from approvals.models import Answer, Wait
from approvals.services import (
    Declined,
    Looked,
    QuestionAnswered,
    wait_assign,
    wait_claim,
    wait_escalate,
    wait_expire,
    wait_remind,
)
from receipts.models import Result, ToolCall
from runtime.loop import drive
from runtime.policy import IN_FORCE
from runtime.services import run_pause
from runtime.tasks import sweep
from tests.engine.asking import answered, asked, told
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    expire_lease,
    kill,
    open_wait,
    pass_deadline,
    phases,
    run_now,
    sql_past_triggers,
)
from tests.engine.governed import govern, rule
from tests.scripted import SCRIPT, calls

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
