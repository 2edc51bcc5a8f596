"""Prepare, approve, execute, commit: what a person approves is the prepared plan, and what is carried out is exactly it."""

import json
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from approvals.models import Wait
from checkpoints.models import Checkpoint
from receipts.models import Effect, Proposal, ToolCall
from receipts.selectors import call_arguments
from receipts.states import EffectClass
from runs.canonical import canonical, digest
from runtime.contracts import Arguments, ToolOutcome
from runtime.loop import drive
from runtime.registry import agents
from runtime.tools.registry import misdeclared
from tests.engine.engine import At, Engine, Killed, call_named, expire_lease, kill, open_wait, phases, run_now
from tests.scripted import SCRIPT, calls
from tests.scripted_tools import Again, Asked, Carry, CarryArguments, Look, Note, Once, Plan

PLAN = {"pay": "12.50", "to": "Alder Grove"}


def planned(engine: Engine, *turns: Any) -> UUID:
    SCRIPT.do("p", ToolOutcome(PLAN))
    return engine.run(calls(("plan", "p")), *(turns or (calls(("carry", "c")),)))


def arguments(call: ToolCall) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(call_arguments(call))
    return read


def test_the_stages_stand_in_the_records_one_after_the_other(engine: Engine) -> None:
    """D-035, D-036: prepare has a result and a revision of its own, then the wait, then the attempt and its revision."""
    run_id = planned(engine)
    assert phases(run_id)[-3:] == ["TOOL_RESULT_RECORDED", "DECISION_RECORDED", "AWAITING_APPROVAL"]
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    after_effect = Checkpoint.objects.filter(run_id=run_id, trigger="AFTER_EFFECT").order_by("revision")
    assert [row.phase for row in after_effect] == ["TOOL_RESULT_RECORDED"] * 2
    plan, carry = ToolCall.objects.filter(run_id=run_id).order_by("ordinal")
    assert plan.result.at < Wait.objects.get().opened_at < carry.tries.get().dispatched_at < carry.result.at
    assert Effect.objects.get().tool_call_id == carry.id


def test_a_person_approves_the_plan_and_exactly_it_is_carried_out(engine: Engine) -> None:
    run_id = planned(engine)
    carry = call_named(run_id, "c")
    assert arguments(carry) == {"label": "c", "plan": PLAN, "prepared": call_named(run_id, "p").result.digest}
    assert open_wait(run_id).args_digest == digest(call_arguments(carry)) == carry.args_digest
    engine.approve(run_id)
    drive(run_id)
    assert SCRIPT.requests[-1].history[-1]["value"] == {"carried": PLAN}


def test_nothing_is_carried_out_before_it_was_prepared(engine: Engine) -> None:
    run_id = engine.run(calls(("carry", "c")))
    assert run_now(run_id).status == "COMPLETED"
    assert "Nothing is prepared" in Proposal.objects.get(tool="carry").refusal
    assert not ToolCall.objects.exists()


@pytest.mark.parametrize(
    "own", [{"plan": {"pay": "9999"}}, {"prepared": "0" * 64}, {"plan": PLAN, "prepared": "f" * 64}]
)
def test_a_plan_of_the_models_own_is_refused(engine: Engine, own: dict[str, Any]) -> None:
    run_id = planned(engine, calls(("carry", {"label": "c", **own})))
    assert "Leave them out" in Proposal.objects.get(tool="carry").refusal
    assert ToolCall.objects.filter(run_id=run_id).count() == 1


def test_the_plan_is_not_offered_to_the_model(engine: Engine) -> None:
    planned(engine)
    offered = next(tool for tool in SCRIPT.requests[0].tools if tool.key == "carry")
    assert set(offered.schema["properties"]) == {"label"}


def test_another_plan_is_another_call(engine: Engine) -> None:
    """A plan that was prepared anew has another digest, so its execution has another key and asks again."""
    SCRIPT.do("q", ToolOutcome(PLAN | {"pay": "13.00"}))
    run_id = planned(engine, calls(("carry", "c")), calls(("plan", "q")), calls(("carry", "c")))
    engine.approve(run_id)
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    first, second = ToolCall.objects.filter(run_id=run_id, tool="carry").order_by("ordinal")
    assert first.idempotency_key != second.idempotency_key
    assert arguments(second)["prepared"] == digest(canonical(PLAN | {"pay": "13.00"}))
    assert run_now(run_id).status == "COMPLETED"


def test_a_worker_that_takes_over_carries_out_the_same_plan(engine: Engine, at_point: At) -> None:
    run_id = planned(engine)
    engine.approve(run_id)
    at_point("after_acquire", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.requests[-1].history[-1]["value"] == {"carried": PLAN}


# ── what a tool may declare ──────────────────────────────────────────────────


class LocalOnce(Note):
    effect_class: ClassVar[EffectClass] = EffectClass.NON_IDEMPOTENT


class Windowless(Again):
    window_seconds: ClassVar[float] = 0.0


class Windowed(Once):
    window_seconds: ClassVar[float] = 5.0


class PreparedByAnEffect(Carry):
    prepared_by: ClassVar[str] = "once"


class PlainPrepared(Once):
    prepared_by: ClassVar[str] = "plan"


class Unbound(Carry):
    arguments: ClassVar[type[Arguments]] = Arguments


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        (LocalOnce(), "local effect is QUERYABLE"),
        (Windowless(), "declares its window_seconds"),
        (Windowed(), "no other tool does"),
        (PreparedByAnEffect(), "no READ_ONLY tool of this agent"),
        (PlainPrepared(), "is a PreparedTool"),
        (Unbound(), "is a PreparedTool"),
    ],
)
def test_a_tool_that_declares_what_it_cannot_keep_is_not_registered(tool: Any, why: str) -> None:
    """A-116."""
    found = misdeclared(tool, (Look(), Once(), Plan(), tool))
    assert found is not None and why in found


def test_what_is_declared_well_is_registered(engine: Engine, settings: Settings) -> None:
    for tool in (Look(), Again(), Asked(), Once(), Note(), Plan(), Carry()):
        assert misdeclared(tool, (tool, Plan())) is None
    assert CarryArguments(label="c").prepared == ""
    settings.AGENTS = ["tests.engine.test_two_phases.Wrong"]
    agents.cache_clear()
    with pytest.raises(ImproperlyConfigured, match="wrong, tool again: an IDEMPOTENT tool declares"):
        agents()
    agents.cache_clear()


class Wrong:
    """An agent with a tool that can't be offered."""

    class spec:  # noqa: N801 - stands where an AgentSpec stands
        key = "wrong"
        tools = (Windowless(),)
