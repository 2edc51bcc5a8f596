"""What users reported of other systems, tried here: state and serialisation."""

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.conf import settings
from django.test import override_settings

from accounts.errors import Invalid
from checkpoints.models import Checkpoint
from receipts.models import ToolCall
from receipts.selectors import result_bytes
from receipts.states import EffectClass
from runs.canonical import MAX_BYTES, canonical
from runs.errors import KeyReused
from runs.models import Refusal, Run
from runtime.contracts import ANSWER_BYTES, Arguments, ToolContext, ToolOutcome
from runtime.loop import drive
from runtime.registry import agents
from runtime.services import Started, StartRequest, run_start
from tests.agents import Told, _spec
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    call_named,
    expire_lease,
    kill,
    run_now,
)
from tests.scripted import SCRIPT, calls, went_well
from tests.scripted_tools import _ToldTool


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Unit(StrEnum):
    SHARES = "shares"


class Painted(Arguments):
    label: str
    colours: dict[str, list[Colour]]
    unit: Unit


class Paint(_ToldTool):
    """Its arguments hold enumerations, nested."""

    key: ClassVar[str] = "paint"
    effect_class: ClassVar[EffectClass] = EffectClass.NON_IDEMPOTENT
    arguments: ClassVar[type[Arguments]] = Painted
    seen: ClassVar[list[Painted]] = []

    def step_label(self, args: Arguments) -> str:
        assert isinstance(args, Painted)
        return args.label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        assert isinstance(args, Painted)
        self.seen.append(args)
        return went_well(args.label)


class Painting(Told):
    """Calls a tool with typed arguments."""

    spec = _spec("painting", tools=(Paint(),))


def with_agent(path: str) -> override_settings:
    agents.cache_clear()
    return override_settings(AGENTS=[*settings.AGENTS, path])


def test_b33_nested_enumerations_are_what_they_were_in_another_worker(engine: Engine) -> None:
    Paint.seen.clear()
    with with_agent("tests.engine.test_reported_state.Painting"):
        arguments = {"label": "a", "colours": {"x": ["red", "green"]}, "unit": "shares"}
        run_id = engine.run(calls(("paint", arguments)), agent="painting")
        engine.approve(run_id)
        drive(run_id)
        (args,) = Paint.seen
        assert args.colours == {"x": [Colour.RED, Colour.GREEN]}
        assert (type(args.unit), args.unit) == (Unit, Unit.SHARES)
        assert run_now(run_id).status == "COMPLETED"
    agents.cache_clear()


def test_b34_a_run_whose_agent_is_gone_is_unreadable_and_keeps_its_bytes(engine: Engine) -> None:
    """Nothing becomes None: the run is held with the reason, and goes on once the agent is there again."""
    with with_agent("tests.engine.test_reported_state.Painting"):
        run_id = engine.run(calls(("paint", {"label": "a", "colours": {}, "unit": "shares"})), agent="painting")
        engine.approve(run_id)
    agents.cache_clear()
    bodies = list(Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list("body", "digest"))
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    assert Refusal.objects.get(run_id=run_id).kind == "PIN_UNAVAILABLE"
    assert list(Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list("body", "digest")) == bodies
    with with_agent("tests.engine.test_reported_state.Painting"):
        engine.resume(run_id)
        drive(run_id)
        if run_now(run_id).status == "WAITING":
            engine.approve(run_id)
            drive(run_id)
        assert run_now(run_id).status == "COMPLETED"
    agents.cache_clear()


class Float64(float):
    """A number of a numerical library: it is a float."""


class Int64:
    """Another one: it is not an int."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    "value",
    [Int64(), Decimal("0.1"), datetime(2026, 1, 1, tzinfo=UTC), b"x", {1, 2}, UUID(int=1), object()],
    ids=lambda value: type(value).__name__,
)
def test_b35_a_result_of_a_foreign_type_is_refused_at_the_border_with_its_place(engine: Engine, value: Any) -> None:
    """The attempt says which type stood where; the call is not forgotten, and not called a failure."""
    SCRIPT.do("a", ToolOutcome({"rows": [{"weight": value}]}))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, run_now(run_id).hold_reason) == ("UNCERTAIN", "UNCERTAIN_CALL")
    assert f"$.rows[0].weight: {type(value).__name__} is not JSON" in call.tries.get().error


def test_b35_a_number_that_is_a_float_is_stored_as_the_number_it_is(engine: Engine) -> None:
    SCRIPT.do("a", ToolOutcome({"weight": Float64(0.1)}))
    run_id = engine.run(calls(("look", "a")))
    assert result_bytes(call_named(run_id, "a").result) == b'{"weight":0.1}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_b36_a_result_with_a_number_that_is_none_is_a_clear_outcome_and_not_nothing(
    engine: Engine, value: float
) -> None:
    SCRIPT.do("a", ToolOutcome({"label": "a", "sum": value}))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, run_now(run_id).status) == ("UNCERTAIN", "HELD")
    assert "$.sum: not a finite number" in call.tries.get().error
    engine.reconcile(call, "EXECUTED", external_ref="it is there")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def bad_text(engine: Engine, text: str, where: str) -> str:
    """What becomes of a text that can't be stored, in a goal, in arguments or in a result. The reason that is given."""
    if where == "goal":
        outcome = run_start(actor=engine.person("olga"), wanted=StartRequest("told", {}, goal=text))
        assert isinstance(outcome, Invalid), outcome
        assert not Run.objects.exists()
        return str(outcome)
    if where == "arguments":
        run_id = engine.run(calls(("look", text)))
        assert (run_now(run_id).status, SCRIPT.sent) == ("FAILED", [])
        return run_now(run_id).end_reason
    SCRIPT.do("a", ToolOutcome({"text": text}))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).hold_reason == "UNCERTAIN_CALL"
    return str(call_named(run_id, "a").tries.get().error)


@pytest.mark.parametrize("where", ["goal", "arguments", "result"])
def test_b37_a_nul_is_refused_by_its_place_and_breaks_nothing(engine: Engine, where: str) -> None:
    assert "NUL" in bad_text(engine, "a\0b", where)


@pytest.mark.parametrize("where", ["goal", "arguments", "result"])
def test_b38_a_lone_surrogate_is_refused_by_its_place_and_breaks_nothing(engine: Engine, where: str) -> None:
    assert "surrogate" in bad_text(engine, "a\ud83c", where)


def test_b38_a_pair_of_surrogates_is_kept_as_its_character(engine: Engine) -> None:
    SCRIPT.do("a", ToolOutcome({"text": "\U0001f355"}))
    run_id = engine.run(calls(("look", "a")))
    assert result_bytes(call_named(run_id, "a").result) == '{"text":"\U0001f355"}'.encode()


def test_b39_a_result_beyond_the_limit_is_refused_and_the_run_is_not_stuck(engine: Engine) -> None:
    SCRIPT.do("a", ToolOutcome({"text": "x" * ANSWER_BYTES}))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, run_now(run_id).hold_reason) == ("UNCERTAIN", "UNCERTAIN_CALL")
    assert f"bytes, at most {ANSWER_BYTES}" in call.tries.get().error
    engine.reconcile(call, "EXECUTED", external_ref="it is there")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_b39_a_result_at_the_limit_is_stored_whole(engine: Engine) -> None:
    value = {"text": "x" * (ANSWER_BYTES - len('{"text":""}'))}
    SCRIPT.do("a", ToolOutcome(value))
    run_id = engine.run(calls(("look", "a")))
    assert result_bytes(call_named(run_id, "a").result) == canonical(value)
    assert run_now(run_id).status == "COMPLETED"


def test_b39_arguments_beyond_the_limit_are_refused_to_the_model(engine: Engine) -> None:
    arguments = {"label": "a", "day": "2026-01-01", "weights": [0.5] * (MAX_BYTES // 4)}
    run_id = engine.run(calls(("typed", arguments)))
    assert not ToolCall.objects.filter(run_id=run_id).exists()
    assert f"at most {MAX_BYTES}" in SCRIPT.requests[-1].history[-1]["value"]["error"]
    assert run_now(run_id).status == "COMPLETED"


def test_b41_a_key_that_was_used_for_something_else_does_not_harm_the_first_run(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")))
    actor = engine.person("olga")
    first = run_start(actor=actor, wanted=StartRequest("told", {}, key="k"))
    assert isinstance(first, Started)
    at_point("after_response", kill)
    with pytest.raises(Killed):
        drive(first.run_id)
    assert isinstance(run_start(actor=actor, wanted=StartRequest("promising", {}, key="k")), KeyReused)
    again = run_start(actor=actor, wanted=StartRequest("told", {}, key="k"))
    assert again == Started(first.run_id, new=False)
    expire_lease(first.run_id)
    drive(first.run_id)
    assert (run_now(first.run_id).status, Run.objects.count()) == ("COMPLETED", 1)
