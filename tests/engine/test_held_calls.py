"""A call that another run of the lineage holds keeps no other call of its turn from going (rulings 8 and 34, ADR 0004)."""

from uuid import UUID

import pytest

from approvals.models import Wait
from receipts.models import Claim, Result, ToolCall
from runs.models import Refusal
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.tasks import sweep
from tests.engine.engine import Engine, call_named, head_of, phases, run_now
from tests.engine.stops import causes
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, went_well


def unknown_source(engine: Engine) -> ToolCall:
    """A call of a stopped run of which nobody knows whether it happened."""
    SCRIPT.do("held", ToolUnknown("no answer"), went_well("held"))
    source = engine.run(calls(("once", "held")))
    engine.approve(source)
    drive(source)
    engine.stop(source)
    return call_named(source, "held")


def beside(engine: Engine, *others: tuple[str, str]) -> tuple[ToolCall, UUID]:
    """The unknown call, and a run that continues its run with a turn that proposes it again among others."""
    held = unknown_source(engine)
    SCRIPT.tell(calls(("once", "held"), *others))
    run_id = engine.carry_on(held.run_id).run_id
    drive(run_id)
    return held, run_id


def statuses(run_id: UUID) -> dict[str, str]:
    rows = ToolCall.objects.filter(run_id=run_id).order_by("ordinal")
    return {row.step_name.partition("/")[2]: row.status for row in rows}


def wait_of(run_id: UUID, label: str) -> Wait:
    return Wait.objects.get(run_id=run_id, tool_call=call_named(run_id, label), status="OPEN")


def assert_held(run_id: UUID) -> None:
    run = run_now(run_id)
    assert (run.status, run.hold_reason, causes(run_id)[-1]) == ("HELD", "UNCERTAIN_CALL", "ANCESTOR_INTENT")
    assert statuses(run_id)["held"] == "PROPOSED"
    assert not Wait.objects.filter(run_id=run_id, tool_call=call_named(run_id, "held")).exists()
    assert not Claim.objects.filter(tool_call=call_named(run_id, "held")).exists()


def settle(engine: Engine, held: ToolCall, run_id: UUID) -> None:
    """A person says that it happened there; the run goes on."""
    engine.reconcile(held, "EXECUTED", external_ref="seen")
    sweep()
    drive(run_id)
    assert Result.objects.get(tool_call=call_named(run_id, "held")).source == "REUSED"
    assert SCRIPT.labels("once").count("held") == 1


def test_what_policy_lets_go_is_sent_and_the_run_is_held_when_only_the_held_call_is_left(engine: Engine) -> None:
    held, run_id = beside(engine, ("look", "a"), ("note", "b"))
    assert statuses(run_id) == {"held": "PROPOSED", "a": "SUCCEEDED", "b": "SUCCEEDED"}
    assert_held(run_id)
    assert head_of(run_id).phase == "TOOL_RESULT_RECORDED"
    settle(engine, held, run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert (SCRIPT.labels("look"), SCRIPT.labels("note")) == (["a"], ["b"])
    assert broken_invariants() == {}


def test_people_are_asked_about_the_others_and_what_they_approve_goes(engine: Engine) -> None:
    held, run_id = beside(engine, ("look", "a"), ("once", "b"), ("once", "c"))
    assert run_now(run_id).status == "WAITING"
    assert statuses(run_id) == {
        "held": "PROPOSED", "a": "SUCCEEDED", "b": "AWAITING_APPROVAL", "c": "AWAITING_APPROVAL",
    }  # fmt: skip
    engine.decide(wait_of(run_id, "b"))
    engine.decide(wait_of(run_id, "c"), "REJECT")
    drive(run_id)
    assert statuses(run_id) == {"held": "PROPOSED", "a": "SUCCEEDED", "b": "SUCCEEDED", "c": "REJECTED"}
    assert_held(run_id)
    settle(engine, held, run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["held", "b"])
    assert broken_invariants() == {}


@pytest.mark.parametrize(("verdict", "then", "becomes"), [
    ("EXECUTED", "NONE", "SUCCEEDED"), ("PROCEED_UNKNOWN", "NONE", "DENIED"), ("NOT_EXECUTED", "FAIL", "AWAITING_APPROVAL"),
])  # fmt: skip
def test_where_everybody_else_is_refused_the_held_call_is_what_is_left_of_the_turn(
    engine: Engine, verdict: str, then: str, becomes: str
) -> None:
    held, run_id = beside(engine, ("once", "b"))
    engine.decide(wait_of(run_id, "b"), "REJECT")
    drive(run_id)
    assert statuses(run_id)["b"] == "REJECTED"
    assert_held(run_id)
    assert head_of(run_id).phase == "AWAITING_APPROVAL"
    engine.reconcile(held, verdict, then, external_ref="seen" if verdict == "EXECUTED" else "")
    sweep()
    drive(run_id)
    assert statuses(run_id)["held"] == becomes
    assert ("DECISION_RECORDED" in phases(run_id)[3:]) == (verdict == "EXECUTED")
    if becomes == "AWAITING_APPROVAL":
        SCRIPT.do("held", went_well("held"))
        engine.decide(wait_of(run_id, "held"))
        drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert broken_invariants() == {}


def test_a_wait_that_is_voided_beside_a_held_call_is_asked_anew(engine: Engine) -> None:
    held, run_id = beside(engine, ("once", "b"))
    first = wait_of(run_id, "b")
    engine.revise(run_id, "another goal")
    drive(run_id)
    assert wait_of(run_id, "b").id != first.id
    assert statuses(run_id) == {"held": "PROPOSED", "b": "AWAITING_APPROVAL"}
    engine.decide(wait_of(run_id, "b"))
    drive(run_id)
    assert_held(run_id)
    settle(engine, held, run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_two_that_are_held_hold_the_run_until_both_are_settled(engine: Engine) -> None:
    held = unknown_source(engine)
    SCRIPT.do("other", ToolUnknown("no answer"))
    SCRIPT.tell(calls(("once", "other")))
    second = engine.carry_on(held.run_id).run_id
    drive(second)
    engine.approve(second)
    drive(second)
    engine.stop(second)
    SCRIPT.tell(calls(("once", "held"), ("once", "other"), ("look", "a")))
    run_id = engine.carry_on(second).run_id
    drive(run_id)
    assert statuses(run_id) == {"held": "PROPOSED", "other": "PROPOSED", "a": "SUCCEEDED"}
    assert_held(run_id)
    named = Refusal.objects.filter(run_id=run_id, kind="ANCESTOR_INTENT").latest("id").subject_id
    both = [held, call_named(second, "other")]
    for call in sorted(both, key=lambda call: call.id != named):
        assert run_now(run_id).status == "HELD"
        engine.reconcile(call, "EXECUTED", external_ref="seen")
        sweep()
        drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("once") == ["held", "other"]


def test_a_stop_of_a_run_that_waits_beside_a_held_call_leaves_nothing_open(engine: Engine) -> None:
    _, run_id = beside(engine, ("once", "b"))
    engine.stop(run_id)
    assert run_now(run_id).status == "CANCELLED"
    assert statuses(run_id) == {"held": "CANCELLED", "b": "CANCELLED"}
