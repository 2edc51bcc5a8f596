"""What users reported of other systems, tried here: effects, leases, recovery."""

import threading
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from checkpoints.selectors import load_head
from receipts.models import ToolCall
from runs.leases import lease_acquire
from runs.selectors import runs_to_look_at
from runtime.contracts import ToolOutcome
from runtime.loop import drive
from runtime.tasks import sweep
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
from tests.scripted import SCRIPT, calls, went_well
from tests.waiting import wait_until


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
