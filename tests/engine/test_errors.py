"""Errors by class (B-049): what is stored, what follows, and how long it waits."""

from datetime import timedelta
from uuid import UUID

import pytest
from pytest_django import Settings

from receipts.models import Attempt, ModelCall, ToolCall
from runs.models import Refusal, Run
from runs.selectors import database_now
from runtime import backoff as waiting
from runtime.backoff import backoff
from runtime.contracts import (
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelRetryable,
    ModelUnknown,
    ToolFailed,
    ToolOutcome,
    ToolRefused,
    ToolRetryable,
    ToolUnknown,
)
from runtime.loop import drive
from runtime.tasks import sweep
from tests.engine.engine import At, Engine, Killed, expire_lease, kill, lease_of, pass_retry, run_now
from tests.engine.stops import assert_stopped, causes
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, went_well

LONG = 50.0  # longer than a worker waits itself


def outcomes() -> list[str | None]:
    return list(Attempt.objects.filter(tool_call__isnull=False).order_by("id").values_list("outcome", flat=True))


def turn_outcomes() -> list[str | None]:
    rows = Attempt.objects.filter(model_call__turn_no=1).order_by("id")
    return list(rows.values_list("outcome", flat=True))


def make_due(run_id: UUID) -> None:
    pass_retry(run_id)


@pytest.mark.parametrize(("error", "tried", "call", "run"), [
    (ToolRetryable("busy"), ["ERROR_RETRYABLE", "OK"], "SUCCEEDED", "COMPLETED"),
    (ToolRetryable("busy", retry_after=0.001), ["ERROR_RETRYABLE", "OK"], "SUCCEEDED", "COMPLETED"),
    (ToolRetryable("busy", retry_after=LONG), ["ERROR_RETRYABLE"], "RETRY_WAIT", "QUEUED"),
    (ToolFailed("no"), ["ERROR_FINAL"], "FAILED", "COMPLETED"),
    (ToolRefused("not for you"), ["ERROR_REFUSED"], "FAILED", "COMPLETED"),
    (ToolUnknown("silence"), ["NO_RESPONSE", "OK"], "SUCCEEDED", "COMPLETED"),
    (ValueError("a bug"), ["NO_RESPONSE", "OK"], "SUCCEEDED", "COMPLETED"),
    (ToolOutcome({"not": float("nan")}), ["NO_RESPONSE", "OK"], "SUCCEEDED", "COMPLETED"),
])  # fmt: skip
def test_an_error_of_a_tool_has_a_class_and_what_follows_is_decided_by_it(
    engine: Engine, error: Exception | ToolOutcome, tried: list[str], call: str, run: str
) -> None:
    SCRIPT.do("a", error, went_well("a"))
    run_id = engine.run(calls(("look", "a")))
    assert (outcomes(), ToolCall.objects.get().status, run_now(run_id).status) == (tried, call, run)
    assert not broken_invariants()


@pytest.mark.parametrize(("error", "tried", "turn", "run"), [
    (ModelRetryable("busy"), ["ERROR_RETRYABLE", "OK"], "SEALED", "COMPLETED"),
    (ModelRetryable("busy", retry_after=LONG), ["ERROR_RETRYABLE"], "RETRY_WAIT", "QUEUED"),
    (ModelUnknown("silence"), ["NO_RESPONSE", "OK"], "SEALED", "COMPLETED"),
    (ValueError("a bug"), ["NO_RESPONSE", "OK"], "SEALED", "COMPLETED"),
    (ModelFailed("no"), ["ERROR_FINAL"], "FAILED", "FAILED"),
    (ModelRefused("no key"), ["ERROR_REFUSED"], "FAILED", "FAILED"),
    (ContextOverflow("too long"), ["CONTEXT_OVERFLOW"], "FAILED", "FAILED"),
])  # fmt: skip
def test_an_error_of_the_model_has_a_class_and_what_follows_is_decided_by_it(
    engine: Engine, error: Exception, tried: list[str], turn: str, run: str
) -> None:
    run_id = engine.run([error, calls()])
    assert (turn_outcomes(), ModelCall.objects.get(turn_no=1).status, run_now(run_id).status) == (tried, turn, run)
    assert not broken_invariants()


def test_the_model_hears_of_a_final_error_and_plans_anew(engine: Engine) -> None:
    SCRIPT.do("a", ToolRefused("not for you"))
    run_id = engine.run(calls(("look", "a")), calls(("look", "b")))
    assert run_now(run_id).status == "COMPLETED"
    told = [message for message in SCRIPT.requests[1].history if message["role"] == "tool"]
    assert [(message["ok"], message["value"]) for message in told] == [(False, {"error": "not for you"})]
    assert SCRIPT.labels("look") == ["a", "b"]


# ── waiting ──


def test_a_long_wait_gives_the_worker_back_and_the_sweep_calls_when_it_is_due(engine: Engine) -> None:
    SCRIPT.do("a", ToolRetryable("busy", retry_after=LONG), went_well("a"))
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    engine.hints.clear()
    asked_at = database_now()
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.takeovers, lease_of(run_id).owner, engine.hints) == ("QUEUED", 0, None, [])
    assert run.due_at is not None and run.due_at - asked_at >= timedelta(seconds=LONG)
    retry_at = ToolCall.objects.get().retry_at
    assert retry_at is not None and abs(retry_at - run.due_at) < timedelta(seconds=5)

    sweep()
    drive(run_id)  # a hint that comes too early finds nothing to take
    assert (engine.hints, SCRIPT.labels("look"), lease_of(run_id).fence) == ([], ["a"], 1)

    make_due(run_id)
    sweep()
    assert engine.hints == [run_id]
    drive(run_id)
    assert (run_now(run_id).status, run_now(run_id).due_at, SCRIPT.labels("look")) == ("COMPLETED", None, ["a", "a"])
    assert causes(run_id)[1:4] == ["ACQUIRED", "RETRY", "ACQUIRED"]
    assert not broken_invariants()


def test_a_run_that_waits_for_its_next_try_is_stopped_at_once(engine: Engine) -> None:
    SCRIPT.do("a", ToolRetryable("busy", retry_after=LONG))
    run_id = engine.run(calls(("look", "a")))
    engine.stop(run_id)
    assert_stopped(run_id)
    assert run_now(run_id).due_at is None


def test_the_calls_beside_one_that_waits_are_not_sent_again(engine: Engine) -> None:
    SCRIPT.do("b", ToolRetryable("busy", retry_after=LONG), went_well("b"))
    run_id = engine.run(calls(("look", "a"), ("look", "b")))
    assert run_now(run_id).status == "QUEUED"
    make_due(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert sorted(SCRIPT.labels("look")) == ["a", "b", "b"]


def test_the_wait_grows_is_scattered_and_has_an_end(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.RETRY_BASE_SECONDS, settings.RETRY_MAX_SECONDS = 1.0, 60.0
    for attempt, ceiling in ((1, 1.0), (2, 2.0), (4, 8.0), (12, 60.0)):
        waits = [backoff(attempt) for _ in range(200)]
        assert 0 <= min(waits) < ceiling * 0.2 and ceiling * 0.8 < max(waits) <= ceiling
        assert len(set(waits)) > 190
    monkeypatch.setattr(waiting._dice, "uniform", lambda *bounds: bounds[1])
    assert [backoff(2, asked=asked) for asked in (None, 0.0, 1.5, 7.0, 3600.0)] == [2.0, 2.0, 2.0, 7.0, 60.0]


# ── workers that are lost again and again ──


def test_a_step_that_always_kills_its_worker_is_held_with_the_list_of_who_was_lost_on_what(
    engine: Engine, at_point: At
) -> None:
    """X07."""
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start("brief")
    for point in ("after_acquire", "after_attempt_commit@look", "after_attempt_commit@look"):
        at_point(point, kill)
        with pytest.raises(Killed):
            drive(run_id)
        expire_lease(run_id)
    other = engine.start()
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "TAKEOVER_LIMIT")
    assert "while look/a was on the wire" in run.hold_detail
    refusal = Refusal.objects.get(run_id=run_id, kind="TAKEOVER_LIMIT")
    lost = refusal.detail["lost"]
    assert [(one["fence"], one["sending"]) for one in lost] == [(1, None), (2, "look/a"), (3, "look/a")]
    assert all(one["worker"] and one["taken_over_at"] for one in lost)

    moves = len(causes(run_id))
    for _ in range(3):
        sweep()
        drive(run_id)
    assert len(causes(run_id)) == moves
    drive(other)
    assert Run.objects.get(id=other).status == "COMPLETED"
