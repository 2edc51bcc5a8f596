"""A question with real processes: its worker is killed around the wait and around the answer, and nothing is asked or told twice."""

from uuid import UUID

import pytest

from approvals.models import Answer, Wait
from approvals.services import FormGiven, QuestionAnswered, Seen, question_answer
from receipts.models import Result
from runs.models import Run
from tests.scenarios.world import World

pytestmark = pytest.mark.process
ASK = "ask_person"


def answered(world: World, wait: Wait) -> QuestionAnswered:
    seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
    given = FormGiven({"meaning": "some of both"})
    outcome = question_answer(actor=world.person(), wait_id=wait.id, seen=seen, given=given)
    assert isinstance(outcome, QuestionAnswered), outcome
    return outcome


def finish(world: World, run_id: UUID, question: Wait) -> None:
    """The run asks for its approval, with what was answered; it ends as any other."""
    wait = world.open_wait(run_id)
    assert (wait.kind, wait.tool_call.tool) == ("APPROVAL", "publish_report")
    world.approve(wait)
    world.wait_status(run_id, "COMPLETED")
    result = Result.objects.get(tool_call_id=question.tool_call_id)
    assert (result.source, result.answered_wait_id, result.attempt_no) == ("HUMAN", question.id, None)
    assert Answer.objects.filter(wait__run_id=run_id).count() == 1
    assert Wait.objects.filter(run_id=run_id, kind="QUESTION", status="CONSUMED").count() == 1


@pytest.mark.parametrize("point", ["inside_hear_tx", "after_wake_consumed"])
def test_a_worker_killed_while_it_hears_the_answer_tells_the_model_once(world: World, point: str) -> None:
    run_id = world.start_run(agent="asking_fund_comparison")
    question = world.open_wait(run_id)
    killed = world.kill_at(point, ASK if point == "after_wake_consumed" else "")
    answered(world, question)
    killed.wait()
    finish(world, run_id, question)


@pytest.mark.parametrize("point", ["inside_wait_tx", "after_wait_opened"])
def test_a_worker_killed_while_it_asks_leaves_one_question(world: World, point: str) -> None:
    killed = world.kill_at(point, ASK)
    run_id = world.start_run(agent="asking_fund_comparison")
    killed.wait()
    question = world.open_wait(run_id)
    assert (question.kind, Wait.objects.filter(run_id=run_id).count()) == ("QUESTION", 1)
    answered(world, question)
    finish(world, run_id, question)


def test_a_question_holds_no_worker_and_a_stop_closes_it(world: World) -> None:
    run_id = world.start_run(agent="asking_fund_comparison")
    question = world.open_wait(run_id)
    assert not Run.objects.get(id=run_id).lease.owner
    world.stop(run_id)
    question.refresh_from_db()
    assert (question.status, Run.objects.get(id=run_id).status) == ("CANCELLED", "CANCELLED")
