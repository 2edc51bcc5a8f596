"""Stops against dispatches, finishes and workers that give their run back, on live connections in every order."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from runs.errors import RunEnded
from runs.leases import lease_lock
from runs.models import ControlRequest, Lease, RunTransition
from runtime import ending
from runtime.contracts import ToolRetryable, ToolUnknown
from runtime.loop import drive
from runtime.services import StopState
from tests.engine.engine import (
    At,
    Engine,
    attempts_of,
    call_named,
    phases,
    run_now,
    sql,
)
from tests.engine.held import STATEMENTS, held_worker
from tests.engine.races import Aside, Gate, gate_at, together, uncommitted
from tests.engine.stops import assert_stopped, the_stop, tried
from tests.scripted import SCRIPT, calls
from tests.waiting import wait_until

# ── stop and dispatch ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "point",
    [
        "after_acquire",
        "after_model_dispatch_commit",
        "after_model_response",
        "after_turn_sealed",
        "after_attempt_commit",
        "after_response",
        "after_result_commit",
        "before_attempt_commit",
    ],
)
def test_after_a_stop_no_attempt_is_ever_added(engine: Engine, at_point: At, point: str) -> None:
    """X12, I7: wherever the stop comes, what exists then is all that is ever sent."""
    SCRIPT.tell(calls(("look", "a"), ("look", "b")), calls(("once", "c")), calls(("look", "d")))
    run_id = engine.start()
    if point == "before_attempt_commit":
        drive(run_id)
        engine.approve(run_id)
    seen: list[int] = []

    def stop() -> None:
        Aside(lambda: engine.stop(run_id)).result()
        seen.append(tried(run_id))

    at_point(point, stop)
    drive(run_id)
    assert seen == [tried(run_id)]
    assert_stopped(run_id)


def meet_a_stop(engine: Engine, run_id: UUID, gate: Gate, worker: Aside) -> int:
    """Let a held worker's statement wait for a stop to commit; how many attempts there were then."""
    with uncommitted():
        engine.stop(run_id)
        before = tried(run_id)
        gate.open()
        worker.wait_blocked()
    worker.result()
    return before


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_dispatch_that_waited_for_a_stop_sends_nothing(
    engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement is in the socket when the stop commits: it must see it, whatever its snapshot says."""
    run_id, gate, worker = held_worker(engine, statement, monkeypatch)
    assert meet_a_stop(engine, run_id, gate, worker) == tried(run_id)
    assert_stopped(run_id)


def without_gate(statement: str) -> str:
    return statement.replace("NOT fence.stop_requested AND", "")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_without_the_gate_a_dispatch_would_come_after_the_stop(
    engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the gate is for: the same race with its condition taken out of the statements."""
    run_id, gate, worker = held_worker(engine, statement, monkeypatch, without_gate)
    assert meet_a_stop(engine, run_id, gate, worker) < tried(run_id)


def test_a_stop_waits_for_a_dispatch_that_came_first_and_lets_it_report(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    SCRIPT.tell(calls(("note", "b")))
    run_id = engine.start()
    gate = gate_at(monkeypatch, import_module("runtime.loop.dispatch"), "prepare_effects")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    stop = Aside(lambda: engine.stop(run_id))
    stop.wait_blocked()
    gate.open()
    assert stop.result().status == "ACCEPTED"
    worker.result()
    assert_stopped(run_id)
    assert attempts_of(call_named(run_id, "b")) == [(1, "OK", "policy:builtin-1")]


def test_a_stop_ends_the_wait_before_a_retry(engine: Engine, settings: Settings) -> None:
    settings.RETRY_BASE_SECONDS, settings.HEARTBEAT_SECONDS = 600, 0.02
    SCRIPT.tell(calls(("look", "a")))
    SCRIPT.do("a", ToolRetryable("not now"))
    run_id = engine.start()
    worker = Aside(lambda: drive(run_id))
    wait_until(lambda: run_now(run_id).tool_calls.filter(status="RETRY_WAIT").exists(), "the call is to be retried")
    engine.stop(run_id)
    worker.result()
    assert_stopped(run_id)
    assert attempts_of(call_named(run_id, "a")) == [(1, "ERROR_RETRYABLE", "policy:builtin-1")]


# ── stop and finish ──────────────────────────────────────────────────────────


def test_a_stop_that_comes_after_the_finish_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = engine.start()
    gate = gate_at(monkeypatch, import_module("runtime.loop.verify"), "run_moved")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    stop = Aside(lambda: engine.stop(run_id))
    stop.wait_blocked()
    gate.open()
    worker.result()
    assert isinstance(stop.result(), RunEnded)
    assert (run_now(run_id).status, phases(run_id)[-1]) == ("COMPLETED", "FINISHED")
    assert not ControlRequest.objects.exists()


def test_a_stop_that_comes_before_the_finish_wins(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = engine.start()
    gate = gate_at(monkeypatch, import_module("runtime.loop.verify"), "gather")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    assert isinstance(engine.stop(run_id), StopState)
    gate.open()
    worker.result()
    assert_stopped(run_id)
    assert phases(run_id)[-2:] == ["READY_TO_VERIFY", "STOPPED"]


def test_a_run_ends_once_whoever_is_first(engine: Engine) -> None:
    ends = set()
    for _ in range(12):
        run_id = engine.start()
        outcome, _ = together(partial(engine.stop, run_id), partial(drive, run_id))
        run = run_now(run_id)
        ended = RunTransition.objects.filter(run_id=run_id, to_status__in=["COMPLETED", "CANCELLED"])
        assert [move.to_status for move in ended] == [run.status]
        assert run.status == ("COMPLETED" if isinstance(outcome, RunEnded) else "CANCELLED")
        ends.add(run.status)
    assert "CANCELLED" in ends


# ── stop and a freed lease ───────────────────────────────────────────────────


def uncertain_then_held(engine: Engine) -> tuple[UUID, Callable[[], None]]:
    SCRIPT.tell(calls(("once", "a")))
    SCRIPT.do("a", ToolUnknown("no answer"))
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)
    return run_id, lambda: drive(run_id)


def asks_a_person(engine: Engine) -> tuple[UUID, Callable[[], None]]:
    SCRIPT.tell(calls(("once", "a")))
    run_id = engine.start()
    return run_id, lambda: drive(run_id)


def has_no_budget(engine: Engine) -> tuple[UUID, Callable[[], None]]:
    run_id = engine.start()
    sql("UPDATE runs_budget SET cap = 0 WHERE run_id = %s", run_id)
    return run_id, lambda: drive(run_id)


PARKINGS = [
    (uncertain_then_held, "runtime.loop.unknown", "park"),
    (asks_a_person, "runtime.loop.route", "held_run"),
    (has_no_budget, "runtime.loop.budget", "park"),
]


@pytest.mark.parametrize(("story", "module", "name"), PARKINGS)
def test_a_worker_that_gives_its_run_back_finds_the_stop(
    engine: Engine, story: Callable[..., Any], module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 23: a stop accepted while a worker is about to park the run belongs to that worker."""
    run_id, go_on = story(engine)
    gate = gate_at(monkeypatch, import_module(module), name)
    worker = Aside(go_on)
    gate.wait_reached()
    assert engine.stop(run_id).status == "ACCEPTED"
    gate.open()
    worker.result()
    assert_stopped(run_id)


def test_without_another_look_a_stop_would_be_accepted_and_belong_to_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the second look is for."""
    run_id, go_on = has_no_budget(engine)
    gate = gate_at(monkeypatch, import_module("runtime.loop.budget"), "park")
    worker = Aside(go_on)
    gate.wait_reached()
    engine.stop(run_id)

    def blind(holding: Any) -> Lease | None:
        lease = lease_lock(holding)
        if lease is not None:
            lease.stop_requested = False
        return lease

    monkeypatch.setattr(ending, "lease_lock", blind)
    gate.open()
    worker.result()
    assert (run_now(run_id).status, the_stop(run_id).status) == ("HELD", "ACCEPTED")
