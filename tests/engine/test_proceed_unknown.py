"""After a run went on without knowing: nothing is repeated, and what becomes known later is told, not rewritten."""

from importlib import import_module
from typing import Any

import pytest

from checkpoints.models import Obligation
from receipts.errors import RetryOnEndedRun
from receipts.models import Result, ToolCall
from runs.statements import run_statement
from runtime.contracts import ModelTurn, ToolOutcome
from runtime.loop import drive
from runtime.services import Reconciled
from runtime.tasks import sweep
from tests.engine.engine import At, Engine, Killed, expire_lease, kill, phases, run_now, watch_requests
from tests.engine.lost import lose_answer, tool_budget
from tests.scripted import SCRIPT, calls, done, went_well


def test_a_call_of_unknown_outcome_is_not_repeated_when_the_model_proposes_it_again(engine: Engine) -> None:
    call = lose_answer(engine, "once")
    SCRIPT.tell(calls(("once", "a")), calls(("once", "a")))
    engine.reconcile(call, "PROCEED_UNKNOWN")
    drive(call.run_id)
    assert (run_now(call.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])
    assert ToolCall.objects.filter(run_id=call.run_id).count() == 1
    (second,) = run_now(call.run_id).model_calls.get(turn_no=2).proposals.all()
    assert (second.disposition, second.tool_call) == ("REFUSED", None)
    assert "nobody knows" in second.refusal
    told = SCRIPT.requests[-1].history[-1]
    assert (told["role"], told["ok"]) == ("tool", False)
    assert "nobody knows" in told["value"]["error"]


def test_a_run_that_went_on_without_knowing_completes_once_its_promise_is_released(engine: Engine) -> None:
    call = lose_answer(engine, "once", "promised", "promising")
    engine.reconcile(call, "PROCEED_UNKNOWN")
    drive(call.run_id)
    run = run_now(call.run_id)
    assert (run.status, run.hold_reason) == ("HELD", "OBLIGATION_OPEN")
    engine.release(call.run_id)
    drive(call.run_id)
    call.refresh_from_db()
    assert (run_now(call.run_id).status, call.status) == ("COMPLETED", "UNCERTAIN")


@pytest.mark.parametrize(("verdict", "then"), [("EXECUTED", "NONE"), ("NOT_EXECUTED", "FAIL")])
def test_a_later_verdict_writes_its_facts_and_moves_no_head(engine: Engine, verdict: str, then: str) -> None:
    """Ruling 33: the promise is settled with the verdict, and the sweep lets the run complete."""
    call = lose_answer(engine, "once", "promised", "promising")
    engine.reconcile(call, "PROCEED_UNKNOWN")
    drive(call.run_id)
    before = phases(call.run_id)
    assert isinstance(engine.reconcile(call, verdict, then, external_ref="post-7"), Reconciled)
    happened = verdict == "EXECUTED"
    assert Result.objects.get(tool_call=call).ok == happened
    assert Obligation.objects.get(run_id=call.run_id).status == ("FULFILLED" if happened else "OPEN")
    assert tool_budget(call.run_id) == (0, 0, int(happened))
    assert (run_now(call.run_id).status, phases(call.run_id)) == ("HELD", before)
    sweep()
    drive(call.run_id)
    assert run_now(call.run_id).status == ("COMPLETED" if happened else "HELD")
    assert phases(call.run_id) == [*before, "FINISHED"][: len(before) + int(happened)]


def test_after_going_on_without_knowing_it_is_not_sent_again_by_a_verdict(engine: Engine) -> None:
    call = lose_answer(engine, "once", "promised", "promising")
    engine.reconcile(call, "PROCEED_UNKNOWN")
    drive(call.run_id)
    assert isinstance(engine.reconcile(call, "NOT_EXECUTED", "RETRY"), RetryOnEndedRun)


def notices() -> list[str]:
    return [message["text"] for message in SCRIPT.requests[-1].history if message["role"] == "notice"]


@pytest.mark.parametrize("while_asking", [False, True])
@pytest.mark.parametrize("taken_over", [False, True])
def test_a_later_verdict_is_heard_in_the_next_request_and_the_old_answer_stays(
    engine: Engine, at_point: At, while_asking: bool, taken_over: bool
) -> None:
    """Ruling 33, by the worker that goes on and by one that takes over."""
    call = lose_answer(engine, "once")
    engine.reconcile(call, "PROCEED_UNKNOWN")
    differences = watch_requests()

    def look(_: Any) -> ToolOutcome:
        engine.reconcile(call, "EXECUTED", external_ref="post-7")
        return went_well("b")

    def ask(_: Any) -> ModelTurn:
        engine.reconcile(call, "EXECUTED", external_ref="post-7")
        return calls(("look", "b"))

    SCRIPT.tell(calls(("once", "a")), ask if while_asking else calls(("look", "b")), done())
    SCRIPT.do("b", went_well("b") if while_asking else look)
    if taken_over:
        at_point("after_result_commit", kill)
        with pytest.raises(Killed):
            drive(call.run_id)
        expire_lease(call.run_id)
    drive(call.run_id)
    assert (run_now(call.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])
    told = next(message for message in SCRIPT.requests[-1].history if message.get("id") == "t1-0")
    assert (told["ok"], "nobody knows" in told["value"]["error"]) == (False, True)
    assert notices() == [
        "A person looked at once/a, whose outcome nobody knew: it happened (external reference post-7)."
    ]
    assert [len(request.history) for request in SCRIPT.requests].count(len(SCRIPT.requests[-1].history)) == 1
    assert differences == []


def test_without_the_gate_the_next_request_would_not_hear_of_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the condition on the news is for: the request that is asked for with the result would go out without it."""
    call = lose_answer(engine, "once")
    engine.reconcile(call, "PROCEED_UNKNOWN")

    def deaf(sent: str, params: dict[str, Any]) -> tuple[Any, ...]:
        return run_statement(sent.replace("coalesce(%(news)s = fence.news, true) AND", ""), params)

    def look(_: Any) -> ToolOutcome:
        engine.reconcile(call, "EXECUTED")
        return went_well("b")

    monkeypatch.setattr(import_module("runtime.statements"), "run_statement", deaf)
    SCRIPT.tell(calls(("once", "a")), calls(("look", "b")))
    SCRIPT.do("b", look)
    drive(call.run_id)
    assert (run_now(call.run_id).status, notices()) == ("COMPLETED", [])
