"""Stops: accepted at once, adopted at the next seam, settled; with a worker, and without one."""

from functools import partial
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from accounts.errors import Invalid, NotAllowed, NotFound
from approvals.models import Wait
from checkpoints.models import Obligation
from receipts.models import Effect, ModelCall, Publication, ReportVersion, Result
from runs.errors import RunEnded
from runs.leases import lease_acquire
from runs.models import ControlRequest, Refusal
from runtime import ending
from runtime.contracts import ToolContext, ToolOutcome, ToolUnknown
from runtime.heartbeat import Heartbeat
from runtime.loop import drive
from runtime.services import StopState
from runtime.tasks import sweep
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    added,
    call_named,
    counts,
    expire_lease,
    head_of,
    kill,
    lease_of,
    people,
    phases,
    run_now,
    sql,
)
from tests.engine.races import Aside, Gate, together
from tests.engine.stops import assert_stopped, causes, the_stop, tried
from tests.scripted import SCRIPT, calls, went_well
from tests.waiting import wait_until

# ── three times ──────────────────────────────────────────────────────────────


def test_a_stop_of_a_held_run_is_accepted_adopted_and_settled(engine: Engine) -> None:
    states = []

    def stop_meanwhile(context: ToolContext) -> ToolOutcome:
        outcome = Aside(lambda: engine.stop(context.run_id)).result()
        states.append((outcome.status, outcome.new, the_stop(context.run_id).adopted_at))
        return went_well("a")

    SCRIPT.do("a", stop_meanwhile)
    run_id = engine.run(calls(("look", "a"), ("once", "b")))
    stop = the_stop(run_id)
    assert states == [("ACCEPTED", True, None)]
    assert stop.adopted_at is not None
    assert stop.settled_at is not None
    assert stop.accepted_at < stop.adopted_at <= stop.settled_at
    assert (stop.adopted_fence, stop.requested_by, stop.reason) == (1, "person:otto-north", "not needed")
    assert causes(run_id) == ["ADMITTED", "ACQUIRED", "STOP_ADOPTED", "STOPPED"]
    assert_stopped(run_id)
    assert call_named(run_id, "a").status == "SUCCEEDED"
    assert call_named(run_id, "b").status == "CANCELLED"
    assert phases(run_id)[-2:] == ["TOOL_RESULT_RECORDED", "STOPPED"]


def test_the_heartbeat_adopts_a_stop_while_a_call_is_in_flight(engine: Engine, settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.02
    gate = Gate()
    SCRIPT.do("a", gate.before(lambda _: went_well("a")))
    SCRIPT.tell(calls(("once", "a")))
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    engine.stop(run_id)
    wait_until(lambda: run_now(run_id).status == "STOPPING", "the stop is adopted")
    assert the_stop(run_id).status == "ADOPTED"
    gate.open()
    worker.result()
    assert_stopped(run_id)
    call = call_named(run_id, "a")
    assert (call.status, Result.objects.get(tool_call=call).ok, Effect.objects.get(tool_call=call).external_ref) == (
        "SUCCEEDED",
        True,
        "ref-a",
    )


def test_a_turn_that_was_to_be_asked_when_the_stop_was_seen_is_not_asked_and_not_left_open(
    engine: Engine, at_point: At, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next turn is committed with a result; the stop comes between that and the request."""
    settings.HEARTBEAT_SECONDS = 0.02
    beating: list[Heartbeat] = []

    def noted(*args: Any) -> Heartbeat:
        beating.append(Heartbeat(*args))
        return beating[0]

    def stop() -> None:
        Aside(lambda: engine.stop(run_id)).result()
        wait_until(lambda: beating[0].stop_seen, "the worker has seen the stop")

    monkeypatch.setattr("runtime.loop.Heartbeat", noted)
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    at_point("after_result_commit", stop)
    drive(run_id)
    assert len(SCRIPT.requests) == 1
    turn = ModelCall.objects.get(run_id=run_id, turn_no=2)
    assert (turn.status, turn.tries.get().outcome) == ("CANCELLED", "NO_RESPONSE")
    assert_stopped(run_id)


@pytest.mark.parametrize("state", ["QUEUED", "WAITING", "APPROVED", "HELD"])
def test_a_run_that_nobody_holds_is_closed_in_the_same_transaction(engine: Engine, state: str) -> None:
    SCRIPT.tell(calls(("post", "a")))
    SCRIPT.do("a", ToolUnknown("no answer"))
    run_id = engine.start()
    if state != "QUEUED":
        drive(run_id)
    if state in ("APPROVED", "HELD"):
        engine.approve(run_id)
    if state == "HELD":
        drive(run_id)
    before = phases(run_id)
    outcome = engine.stop(run_id)
    assert isinstance(outcome, StopState)
    assert (outcome.status, outcome.new) == ("SETTLED", True)
    assert_stopped(run_id)
    assert (the_stop(run_id).adopted_at, phases(run_id)) == (None, before)
    if state == "HELD":
        assert call_named(run_id, "a").status == "UNCERTAIN"
        assert Publication.objects.get(tool_call=call_named(run_id, "a")).status == "UNCERTAIN"
    elif state != "QUEUED":
        assert (call_named(run_id, "a").status, call_named(run_id, "a").attempts) == ("CANCELLED", 0)
        assert Wait.objects.get(run_id=run_id).status == "CANCELLED"
        assert Publication.objects.get(tool_call=call_named(run_id, "a")).status == "FAILED"
    drive(run_id)
    sweep()
    assert run_now(run_id).status == "CANCELLED"


def test_what_was_published_stays(engine: Engine) -> None:
    run_id = engine.run(calls(("note", "v1")), calls(("once", "a")))
    engine.stop(run_id)
    version = ReportVersion.objects.get(run_id=run_id)
    assert version.publications.get().status == "PUBLISHED"
    assert call_named(run_id, "v1").status == "SUCCEEDED"


def test_asking_again_returns_the_open_request(engine: Engine) -> None:
    run_id = engine.start()
    assert lease_acquire(run_id=run_id, owner="w1")
    outcomes = together(*[partial(engine.stop, run_id, by) for by in ("otto", "olga") * 4])
    assert [outcome.new for outcome in outcomes if isinstance(outcome, StopState)].count(True) == 1
    assert len({outcome.request_id for outcome in outcomes if isinstance(outcome, StopState)}) == 1
    assert {outcome.status for outcome in outcomes if isinstance(outcome, StopState)} == {"ACCEPTED"}
    assert [action for action, _, _ in engine.audited()].count("run.stop") == 1


@pytest.mark.parametrize(
    ("by", "reason", "refused"), [("ann", "x", NotAllowed), ("vera", "x", NotAllowed), ("otto", " ", Invalid)]
)
def test_who_may_not_stop_or_gives_no_reason_is_refused(
    engine: Engine, by: str, reason: str, refused: type[Any]
) -> None:
    run_id = engine.start()
    before = counts()
    assert isinstance(engine.stop(run_id, by, reason), refused)
    assert added(before) == {"accounts_auditevent": 1}
    assert not lease_of(run_id).stop_requested


def test_a_run_of_another_tenant_is_not_there(engine: Engine) -> None:
    run_id = engine.start()
    with pytest.raises(NotFound):
        Engine(people("south")).stop(run_id)


def test_an_ended_run_is_not_stopped_again(engine: Engine) -> None:
    run_id = engine.run()
    assert isinstance(engine.stop(run_id), RunEnded)
    assert run_now(run_id).status == "COMPLETED"
    assert not ControlRequest.objects.exists()


# ── stop without a worker ────────────────────────────────────────────────────


def lose_worker(engine: Engine, at_point: At, point: str) -> UUID:
    """A run whose worker is killed at a point; its lease has not expired yet."""
    SCRIPT.tell(calls(("look", "a"), ("once", "b")), calls(("look", "c")))
    run_id = engine.start("promising")
    at_point(point, kill)
    with pytest.raises(Killed):
        drive(run_id)
    return run_id


@pytest.mark.parametrize(
    ("point", "call_status"),
    [
        ("after_acquire", None),
        ("after_model_dispatch_commit", None),
        ("after_turn_sealed", "UNCERTAIN"),
        ("after_attempt_commit", "UNCERTAIN"),
        ("after_result_commit", "SUCCEEDED"),
    ],
)
def test_a_stop_of_a_run_whose_worker_is_gone_is_settled_by_the_sweep(
    engine: Engine, at_point: At, point: str, call_status: str | None
) -> None:
    run_id = lose_worker(engine, at_point, point)
    before = tried(run_id)
    assert engine.stop(run_id).status == "ACCEPTED"
    engine.hints.clear()
    sweep()
    assert engine.hints == []
    drive(run_id)
    assert the_stop(run_id).status == "ACCEPTED"
    expire_lease(run_id)
    sweep()
    assert engine.hints == [run_id]
    drive(run_id)
    assert_stopped(run_id)
    assert tried(run_id) == before
    assert list(run_now(run_id).tool_calls.filter(ordinal=1).values_list("status", flat=True)) == (
        [call_status] if call_status else []
    )
    assert Obligation.objects.get(run_id=run_id).status == "OPEN"


def test_a_stop_is_adopted_before_the_limit_of_takeovers_and_every_guard(engine: Engine, at_point: At) -> None:
    run_id = lose_worker(engine, at_point, "after_attempt_commit")
    engine.stop(run_id)
    sql("UPDATE runs_run SET max_takeovers = 0 WHERE id = %s", run_id)
    sql("UPDATE checkpoints_checkpoint SET format_version = format_version WHERE run_id = %s", run_id)
    expire_lease(run_id)
    drive(run_id)
    assert_stopped(run_id)


def test_a_stopping_run_whose_worker_is_lost_is_closed_by_the_next(engine: Engine, at_point: At) -> None:
    run_id = lose_worker(engine, at_point, "after_attempt_commit")
    engine.stop(run_id)
    expire_lease(run_id)
    holding = lease_acquire(run_id=run_id, owner="w2")
    assert holding is not None
    ending.adopt(holding)
    assert run_now(run_id).status == "STOPPING"
    expire_lease(run_id)
    drive(run_id)
    assert_stopped(run_id)
    assert (the_stop(run_id).adopted_fence, run_now(run_id).takeovers) == (2, 2)


def test_a_stop_whose_closing_note_can_not_be_written_is_settled_all_the_same(engine: Engine) -> None:
    """X01: the head stays where it was, and a refusal says why."""

    def spoil_and_stop(context: ToolContext) -> ToolOutcome:
        sql("UPDATE checkpoints_checkpoint SET body = '' WHERE run_id = %s", context.run_id)
        engine.stop(context.run_id)
        raise ToolUnknown("no answer")

    SCRIPT.do("a", spoil_and_stop)
    run_id = engine.run(calls(("look", "a")))
    assert_stopped(run_id)
    assert (head_of(run_id).phase, head_of(run_id).revision) == ("AWAITING_TOOL_RESULT", 2)
    assert list(Refusal.objects.filter(run_id=run_id).values_list("kind", flat=True)) == ["DIGEST_MISMATCH"]
