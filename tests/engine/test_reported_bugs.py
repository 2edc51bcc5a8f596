"""What users reported of other systems, tried here: state and serialisation, effects, leases, recovery (B33 to B61).

The table at the end names for each report the tests that hold it, here and elsewhere.
"""

import ast
import threading
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.conf import settings
from django.test import override_settings
from pytest_django import Settings

from accounts.errors import Invalid
from checkpoints.models import Checkpoint
from checkpoints.selectors import load_head
from receipts.models import ToolCall
from receipts.selectors import result_bytes
from receipts.states import EffectClass
from runs.canonical import MAX_BYTES, canonical
from runs.errors import KeyReused
from runs.leases import lease_acquire
from runs.models import Refusal, Run
from runs.selectors import runs_to_look_at
from runtime.contracts import ANSWER_BYTES, Arguments, ToolContext, ToolOutcome
from runtime.loop import drive
from runtime.registry import agents
from runtime.services import Started, StartRequest, run_start
from runtime.tasks import sweep
from tests.agents import SCRIPT, Told, _spec, _ToldTool, calls, went_well
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    attempts_of,
    call_named,
    expire_lease,
    kill,
    lease_of,
    open_wait,
    run_now,
    sql,
)
from tests.engine.races import Aside, Gate, terminate
from tests.waiting import wait_until

# ── state and serialisation ──────────────────────────────────────────────────


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
    with with_agent("tests.engine.test_reported_bugs.Painting"):
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
    with with_agent("tests.engine.test_reported_bugs.Painting"):
        run_id = engine.run(calls(("paint", {"label": "a", "colours": {}, "unit": "shares"})), agent="painting")
        engine.approve(run_id)
    agents.cache_clear()
    bodies = list(Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list("body", "digest"))
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    assert Refusal.objects.get(run_id=run_id).kind == "PIN_UNAVAILABLE"
    assert list(Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list("body", "digest")) == bodies
    with with_agent("tests.engine.test_reported_bugs.Painting"):
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


# ── effects, leases, recovery ────────────────────────────────────────────────


def test_b44_other_arguments_after_a_crash_are_not_a_way_around_an_unknown_call(engine: Engine, at_point: At) -> None:
    """The model would say it slightly differently now. It is not asked: what was sent is settled first."""
    run_id = engine.run(calls(("once", "pay 100")))
    engine.approve(run_id)
    at_point("after_response", kill)
    with pytest.raises(Killed):
        drive(run_id)
    SCRIPT.tell(calls(("once", "pay 100.00")))
    asked = len(SCRIPT.requests)
    expire_lease(run_id)
    for _ in range(3):
        drive(run_id)
        sweep()
    assert (run_now(run_id).hold_reason, SCRIPT.labels("once"), len(SCRIPT.requests)) == (
        "UNCERTAIN_CALL",
        ["pay 100"],
        asked,
    )


def test_b47_a_call_that_lasts_many_times_its_lease_is_executed_once(engine: Engine, settings: Settings) -> None:
    settings.LEASE_TTL_SECONDS, settings.HEARTBEAT_SECONDS = 1, 0.05
    gate = Gate()
    SCRIPT.tell(calls(("look", "a")))
    SCRIPT.do("a", gate.before(lambda _: went_well("a")))
    run_id = engine.start()
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    wait_until(lambda: held_for(run_id) > 3, "the call lasts three times its lease")
    sweep()
    drive(run_id)
    assert lease_acquire(run_id=run_id, owner="w2") is None
    gate.open()
    worker.result()
    assert attempts_of(call_named(run_id, "a")) == [(1, "OK", "policy:builtin-1")]
    assert (run_now(run_id).status, run_now(run_id).takeovers, SCRIPT.labels("look")) == ("COMPLETED", 0, ["a"])


def held_for(run_id: UUID) -> float:
    """For how many seconds of the database's clock a lease has been held."""
    ((seconds,),) = sql(
        "SELECT extract(epoch FROM clock_timestamp() - acquired_at) FROM runs_lease WHERE run_id = %s", run_id
    )
    return float(seconds)


def heartbeats() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat-")]


def test_b49_a_delivery_that_comes_twice_to_one_worker_finds_the_lease_held_and_leaves_no_timer(
    engine: Engine,
) -> None:
    seen: list[tuple[int, list[str]]] = []

    def again(_: Any) -> ToolOutcome:
        drive(run_id)
        seen.append((lease_of(run_id).fence, heartbeats()))
        return went_well("a")

    SCRIPT.tell(calls(("look", "a")))
    SCRIPT.do("a", again)
    run_id = engine.start()
    drive(run_id)
    assert seen == [(1, [f"heartbeat-{run_id}"])]
    assert (run_now(run_id).status, heartbeats()) == ("COMPLETED", [])


def test_b50_a_run_that_is_held_is_not_rescued_however_old_it_is(engine: Engine) -> None:
    """Age is no sign of death: only a lease that has expired is."""
    run_id = engine.start()
    assert lease_acquire(run_id=run_id, owner="w1") is not None
    sql("UPDATE runs_run SET created_at = created_at - interval '30 days' WHERE id = %s", run_id)
    sql("UPDATE runs_lease SET acquired_at = acquired_at - interval '30 days' WHERE run_id = %s", run_id)
    engine.hints.clear()
    sweep()
    drive(run_id)
    assert (run_id in runs_to_look_at(), engine.hints, lease_of(run_id).owner) == (False, [], "w1")


def test_b52_a_heartbeat_that_fails_once_costs_nothing(engine: Engine, settings: Settings) -> None:
    """The session of the heartbeat is cut off; it opens another one, and the call goes on."""
    settings.HEARTBEAT_SECONDS = 0.05
    gate = Gate()
    SCRIPT.tell(calls(("once", "a")))
    SCRIPT.do("a", gate.before(lambda _: went_well("a")))
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    beating = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'UPDATE runs_lease SET renewed_at%%' AND pid <> pg_backend_pid()"
    ((pid,),) = wait_until(lambda: sql(beating), "the heartbeat has beaten")
    terminate(pid)
    wait_until(lambda: any(other != pid for (other,) in sql(beating)), "it beats in another session")
    gate.open()
    worker.result()
    assert attempts_of(call_named(run_id, "a"))[0][1] == "OK"
    assert (run_now(run_id).status, run_now(run_id).takeovers) == ("COMPLETED", 0)


def test_b52_a_heartbeat_that_fails_for_too_long_stops_the_worker_before_its_next_effect(
    engine: Engine, at_point: At
) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("once", "b")))
    run_id = engine.start()
    at_point("after_tool", lambda: expire_lease(run_id))
    drive(run_id)
    assert run_now(run_id).status == "RUNNING"
    assert not ToolCall.objects.filter(run_id=run_id, tool="once").exists()
    drive(run_id)
    assert open_wait(run_id).tool_call.tool == "once"


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_b55_an_answer_that_comes_the_instant_a_wait_is_there_is_not_lost(
    engine: Engine, at_point: At, verdict: str
) -> None:
    SCRIPT.tell(calls(("once", "a")))
    run_id = engine.start()
    at_point("after_wait_opened", lambda: _decided(engine, run_id, verdict))
    drive(run_id)
    assert run_now(run_id).status == "QUEUED"
    assert run_id in engine.hints[1:]
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"] if verdict == "APPROVE" else [])


def _decided(engine: Engine, run_id: UUID, verdict: str) -> None:
    engine.decide(open_wait(run_id), verdict)


def test_b61_a_success_that_comes_after_a_stop_is_recorded_and_the_run_stays_cancelled(engine: Engine) -> None:
    def stop_then_succeed(_: Any) -> ToolOutcome:
        engine.stop(run_id)
        return went_well("a")

    SCRIPT.tell(calls(("once", "a")), calls(("once", "b")))
    SCRIPT.do("a", stop_then_succeed)
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    run, call = run_now(run_id), call_named(run_id, "a")
    stop, result = run.controls.get(), call.result
    assert (run.status, call.status, result.ok) == ("CANCELLED", "SUCCEEDED", True)
    assert stop.accepted_at < result.at
    assert SCRIPT.labels("once") == ["a"]
    assert load_head(run).snapshot.phase == "STOPPED"


# ── the table ────────────────────────────────────────────────────────────────

TESTS = Path(__file__).resolve().parents[1]
HERE = "engine/test_reported_bugs.py"
# Reports that these files hold under their own names; `b33` and so on are found here by their names.
ELSEWHERE: dict[int, tuple[str, ...]] = {
    33: ("engine/test_loop.py::test_arguments_keep_their_types_also_in_another_worker",),
    34: (
        "engine/test_envelope.py::test_a_note_of_an_unknown_format_can_be_tried_again",
        "engine/test_upgrade.py::test_a_woken_run_of_an_older_format_is_held_and_nothing_of_it_moves",
    ),
    40: (
        "engine/test_deltas.py::test_what_a_revision_takes_does_not_grow_with_what_came_before",
        "contract/test_size.py::test_what_a_result_weighs_does_not_weigh_on_the_revisions_after_it",
    ),
    42: ("contract/test_once.py::test_thirty_results_of_one_step_at_once_are_thirty_facts",),
    43: ("contract/test_cas.py::test_of_many_saves_at_once_one_wins_and_the_chain_has_no_fork",),
    45: ("engine/test_supersteps.py::test_b45_a_third_call_of_unknown_outcome_leaves_the_first_two_alone",),
    46: ("scenarios/test_f03_outcome_unknown.py::test_the_run_is_held_and_nothing_is_sent_however_long",),
    48: ("engine/test_takeover.py::test_a_worker_that_comes_back_after_another_has_finished_writes_nothing",),
    49: ("engine/test_takeover.py::test_a_run_that_is_delivered_eight_times_is_continued_once",),
    51: ("contract/test_lease.py::test_the_clock_of_a_worker_counts_nowhere",),
    52: ("engine/test_takeover.py::test_the_fence_is_proved_before_a_request_is_sent",),
    53: ("engine/test_takeover.py::test_a_run_whose_worker_is_lost_at_every_step_still_ends",),
    54: ("scenarios/test_b54_sweeper.py::test_the_next_sweep_finds_what_a_killed_one_left",),
    56: ("doors/test_live.py::test_a_lost_listener_makes_every_tab_ask_again",),
    57: ("scenarios/test_liveness.py::test_a_frozen_process_keeps_its_lease_and_a_dead_one_beside_it_does_not",),
    58: (
        "engine/test_stop.py::test_the_heartbeat_adopts_a_stop_while_a_call_is_in_flight",
        "scenarios/test_f13_stop_in_flight.py::test_what_was_sent_lands_and_nothing_else_starts",
    ),
    59: ("doors/test_live.py::test_b59_a_tab_that_is_closed_changes_nothing_of_its_run",),
    60: (
        "engine/test_stop.py::test_a_stopping_run_whose_worker_is_lost_is_closed_by_the_next",
        "engine/test_stop.py::test_a_stop_of_a_run_whose_worker_is_gone_is_settled_by_the_sweep",
    ),
}


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("number", range(33, 62))
def test_every_report_is_held_by_a_test(number: int) -> None:
    named = ELSEWHERE.get(number, ())
    for each in named:
        file, _, test = each.partition("::")
        assert test in names_in(file), each
    assert named or any(name.startswith(f"test_b{number}_") for name in names_in(HERE))
