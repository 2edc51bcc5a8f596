"""Workers that are lost at every point, that come back too late, and that are many at once."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from approvals.models import Wait
from checkpoints.models import Checkpoint
from receipts.models import Attempt, ModelCall, Publication, ReportVersion, Result, ToolCall
from runs.models import Refusal, RunTransition, Wakeup
from runtime.contracts import ToolContext, ToolOutcome
from runtime.loop import drive
from runtime.services import Resumed, Upload
from runtime.tasks import sweep
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    attempts_of,
    call_named,
    expire_lease,
    head_of,
    kill,
    lease_of,
    open_wait,
    phases,
    run_now,
    sql,
    sql_past_triggers,
    watch_requests,
)
from tests.engine.races import Aside, Gate, together
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, went_well

POINTS = [
    "after_acquire",
    "after_model_dispatch_commit",
    "after_model_response",
    "after_turn_sealed",
    "after_decision_saved",
    "after_attempt_commit",
    "after_response",
    "after_tool",
    "inside_result_tx",
    "after_result_commit",
    "inside_dispatch_tx",
    "after_wait_opened",
    "before_attempt_commit",
    "after_wake_consumed",
    "after_terminal_commit",
]


def to_the_end(engine: Engine, run_id: UUID) -> None:
    """What workers, the sweep and people do until a run ends; a lost worker's lease expires."""
    for _ in range(20):
        run = run_now(run_id)
        if run.status == "WAITING":
            engine.decide(open_wait(run_id))
        elif run.status == "HELD":
            engine.reconcile(ToolCall.objects.get(run_id=run_id, status="UNCERTAIN"), "NOT_EXECUTED", "RETRY")
        elif run.status in ("RUNNING", "STOPPING"):
            expire_lease(run_id)
        elif run.ended_at is not None:
            return
        try:
            drive(run_id)
        except Killed:
            continue
    raise AssertionError(f"the run is still {run_now(run_id).status}")


# ── lost at every point ──────────────────────────────────────────────────────


@pytest.mark.parametrize("point", POINTS)
def test_a_run_whose_worker_is_lost_once_ends_as_if_nothing_had_been(engine: Engine, at_point: At, point: str) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("note", "v1"), ("look", "b")), calls(("post", "c")), calls(("again", "d")))
    run_id = engine.start()
    reached, differences = list[str](), watch_requests()

    def lost() -> None:
        reached.append(point)
        kill()

    at_point(point, lost)
    to_the_end(engine, run_id)
    assert (reached, differences) == ([point], [])
    assert (run_now(run_id).status, broken_invariants()) == ("COMPLETED", {})
    statuses = ToolCall.objects.filter(run_id=run_id).order_by("ordinal").values_list("step_name", "status")
    assert list(statuses) == [(f"{step}", "SUCCEEDED") for step in ("look/a", "note/v1", "look/b", "post/c", "again/d")]
    assert [row.version_no for row in ReportVersion.objects.order_by("version_no")] == [1, 2]
    assert not Publication.objects.exclude(status="PUBLISHED").exists()
    assert run_now(run_id).takeovers == (0 if point in ("after_wait_opened", "after_terminal_commit") else 1)


def test_a_run_whose_worker_is_lost_at_every_step_still_ends(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("note", "v1")), calls(("post", "c")))
    run_id = engine.start()
    sql("UPDATE runs_run SET max_takeovers = 100 WHERE id = %s", run_id)
    differences = watch_requests()
    for point in POINTS:
        at_point(point, kill)
    to_the_end(engine, run_id)
    assert (run_now(run_id).status, broken_invariants(), differences) == ("COMPLETED", {}, [])
    assert ReportVersion.objects.count() == 2


def test_a_takeover_asks_an_open_turn_again_and_seals_it_once(engine: Engine, at_point: At) -> None:
    """F05."""
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    at_point("after_model_response", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    turn = ModelCall.objects.get(turn_no=1)
    assert list(turn.tries.order_by("attempt_no").values_list("attempt_no", "outcome", "fence")) == [
        (1, "NO_RESPONSE", 1),
        (2, "OK", 2),
    ]
    assert (turn.status, turn.sealed_fence, turn.attempts) == ("SEALED", 2, 2)
    assert ToolCall.objects.filter(turn_no=1).count() == 1


# ── too often ────────────────────────────────────────────────────────────────


def test_a_step_that_always_loses_its_worker_is_held_for_a_person(engine: Engine, at_point: At) -> None:
    """X07: no endless loop, also where an approval waits to be used."""
    SCRIPT.tell(calls(("once", "a")))
    run_id = engine.start("brief")
    drive(run_id)
    engine.approve(run_id)
    for _ in range(3):
        at_point("before_attempt_commit", kill)
        with pytest.raises(Killed):
            drive(run_id)
        expire_lease(run_id)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason, run.takeovers) == ("HELD", "TAKEOVER_LIMIT", 3)
    assert "3 times" in run.hold_detail
    engine.hints.clear()
    for _ in range(3):
        sweep()
        drive(run_id)
    assert (run_now(run_id).status, engine.hints, SCRIPT.sent) == ("HELD", [], [])
    assert isinstance(engine.resume(run_id), Resumed)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])
    assert run_now(run_id).max_takeovers == 8


def test_only_a_run_that_is_held_for_it_can_be_tried_again(engine: Engine) -> None:
    run_id = engine.start()
    assert not isinstance(engine.resume(run_id), Resumed)
    drive(run_id)
    assert not isinstance(engine.resume(run_id), Resumed)
    assert not Wakeup.objects.exists()


# ── settled instead ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("point", ["after_attempt_commit", "after_result_commit", "before_attempt_commit"])
def test_a_run_that_is_to_be_settled_is_not_continued(engine: Engine, at_point: At, point: str) -> None:
    """F01b: it ends by what is known, and nothing of it is left open."""
    SCRIPT.tell(calls(("note", "v1")), calls(("once", "promised")), calls(("look", "b")))
    run_id = engine.start("settling")
    if point == "before_attempt_commit":
        drive(run_id)
        engine.approve(run_id)
    at_point(point, kill)
    with pytest.raises(Killed):
        drive(run_id)
    asked, head = len(SCRIPT.requests), head_of(run_id).revision
    expire_lease(run_id)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, len(SCRIPT.requests), head_of(run_id).revision) == ("SETTLED", asked, head)
    assert run.settlement is not None
    assert run.settlement["open_obligations"] == ["once/promised"]
    assert not Wait.objects.filter(run_id=run_id, status__in=["OPEN", "APPROVED", "REJECTED"]).exists()
    assert not Wakeup.objects.filter(status="PENDING").exists()
    assert not ToolCall.objects.filter(status__in=["PROPOSED", "AWAITING_APPROVAL", "DISPATCHED"]).exists()
    assert not Attempt.objects.filter(outcome=None).exists()
    assert (lease_of(run_id).owner, broken_invariants()) == (None, {})


def test_a_run_that_is_to_be_settled_waits_for_people_like_any_other(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "promised")), agent="settling")
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


# ── too late ─────────────────────────────────────────────────────────────────


def zombie(engine: Engine, settings: Settings, tool: str) -> tuple[UUID, Gate, Aside]:
    """A worker that froze with the answer of a call in memory, until its lease was over."""
    settings.HEARTBEAT_SECONDS = 600
    gate, first = Gate(), threading_first()

    def answer(context: ToolContext) -> ToolOutcome:
        if first():
            gate()
        return went_well("a")

    SCRIPT.do("a", answer)
    SCRIPT.tell(calls((tool, "a")), calls(("look", "b")))
    run_id = engine.start()
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    expire_lease(run_id)
    return run_id, gate, worker


def threading_first() -> Callable[[], bool]:
    """True when it is called for the first time."""
    called: list[bool] = []

    def first() -> bool:
        called.append(True)
        return len(called) == 1

    return first


@pytest.mark.parametrize("tool", ["look", "note"])
def test_a_worker_that_comes_back_after_another_has_finished_writes_nothing(
    engine: Engine, settings: Settings, tool: str
) -> None:
    """F07: its answer is kept as evidence that was not accepted; every row carries the other's fence."""
    run_id, gate, worker = zombie(engine, settings, tool)
    frozen_at = head_of(run_id).revision
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    before = phases(run_id)
    gate.open()
    worker.result()
    assert (phases(run_id), run_now(run_id).status) == (before, "COMPLETED")
    call = call_named(run_id, "a")
    assert attempts_of(call)[0][1] == "NO_RESPONSE"
    assert (call.attempts, Result.objects.get(tool_call=call).fence) == (2, 2)
    assert ReportVersion.objects.count() == int(tool == "note")
    late = Refusal.objects.get(run_id=run_id, kind="LATE_RESULT")
    assert (late.fence, late.subject_id, late.detail["attempt"]) == (1, call.id, 1)
    assert late.evidence_digest == Result.objects.get(tool_call=call).digest
    later = Checkpoint.objects.filter(run_id=run_id, revision__gt=frozen_at)
    assert set(later.values_list("fence", flat=True)) == {2}
    assert broken_invariants() == {}


def test_a_worker_whose_lease_is_over_writes_nothing_even_if_nobody_took_over(
    engine: Engine, settings: Settings
) -> None:
    """B-020: expired is invalid, under a refusal of its own."""
    run_id, gate, worker = zombie(engine, settings, "look")
    before = phases(run_id)
    gate.open()
    worker.result()
    assert (phases(run_id), run_now(run_id).status) == (before, "RUNNING")
    assert not Result.objects.exists()
    kinds = Refusal.objects.order_by("kind").values_list("kind", "fence")
    assert list(kinds) == [("LATE_RESULT", 1), ("LEASE_EXPIRED", 1)]
    drive(run_id)
    assert (run_now(run_id).status, call_named(run_id, "a").attempts) == ("COMPLETED", 2)


# ── many at once ─────────────────────────────────────────────────────────────


def test_a_run_that_is_delivered_eight_times_is_continued_once(engine: Engine) -> None:
    """F08."""
    SCRIPT.tell(calls(("look", "a")), calls(("note", "b")))
    run_id = engine.start()
    together(*[partial(drive, run_id)] * 8)
    assert run_now(run_id).status == "COMPLETED"
    assert (SCRIPT.labels("look"), SCRIPT.labels("note"), lease_of(run_id).fence) == (["a"], ["b"], 1)
    assert RunTransition.objects.filter(run_id=run_id, cause="ACQUIRED").count() == 1
    assert not Attempt.objects.filter(attempt_no__gt=1).exists()
    assert not Refusal.objects.exists()


def test_eight_workers_that_meet_a_lost_run_continue_it_once(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("note", "b")))
    run_id = engine.start()
    at_point("after_attempt_commit", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    together(*[partial(drive, run_id)] * 8)
    assert (run_now(run_id).status, run_now(run_id).takeovers) == ("COMPLETED", 1)
    assert [attempt for attempt, _, _ in attempts_of(call_named(run_id, "a"))] == [1, 2]
    assert broken_invariants() == {}


# ── what is found changed ────────────────────────────────────────────────────

# Sound bytes of the same tenant in the place of others: the key opens them, so only their digest tells.
SWAPPED = (
    "UPDATE {0} t SET {1} = other.{1} FROM (SELECT {2}, lead({1}, 1, opening) OVER (ORDER BY {2}) AS {1} FROM "
    "(SELECT *, first_value({1}) OVER (ORDER BY {2}) AS opening FROM {0}) f) other WHERE other.{2} = t.{2}"
)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE receipts_result SET value = set_byte(value, 20, get_byte(value, 20) # 1)",
        "UPDATE receipts_result SET value = ''",
        "UPDATE receipts_result SET digest = repeat('a', 64)",
        "UPDATE runs_artifact SET body = set_byte(body, 20, get_byte(body, 20) # 1)",
        "UPDATE runs_message SET body = set_byte(body, 20, get_byte(body, 20) # 1)",
        SWAPPED.format("runs_artifact", "body", "sha256"),
        SWAPPED.format("runs_message", "body", "seq"),
        SWAPPED.format("receipts_result", "value", "tool_call_id"),
        "UPDATE runs_runinput t SET sha256 = other.sha256 FROM runs_runinput other WHERE other.name <> t.name",
        "DELETE FROM runs_runinput WHERE name = 'two'",
        "DELETE FROM receipts_result",
    ],
)
def test_a_run_whose_stored_facts_were_changed_is_held_and_can_be_tried_again(engine: Engine, change: str) -> None:
    inputs = {"one": Upload("1", b"1"), "two": Upload("2", b"2")}
    SCRIPT.tell(calls(("look", "a"), ("look", "z")), calls(("once", "b")))
    run_id = engine.start(inputs=inputs)
    drive(run_id)
    engine.revise(run_id, "Do it well.")
    drive(run_id)
    engine.approve(run_id)
    sql_past_triggers(change)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    kind = "MISSING_REF" if "DELETE" in change else "DIGEST_MISMATCH"
    assert list(Refusal.objects.values_list("kind", flat=True)) == [kind]
    assert SCRIPT.labels("once") == []
    assert isinstance(engine.resume(run_id), Resumed)


def test_the_fence_is_proved_before_a_request_is_sent(engine: Engine, settings: Settings, monkeypatch: Any) -> None:
    """A worker that was frozen before it sent, or whose machine slept, sends nothing when it wakes up."""
    settings.HEARTBEAT_SECONDS = 600
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    clock = import_module("runtime.heartbeat").time
    later = clock.clock_gettime(clock.CLOCK_BOOTTIME) + 10 * settings.LEASE_TTL_SECONDS
    at = {"after_attempt_commit": lambda: monkeypatch.setattr(clock, "clock_gettime", lambda _: later)}
    monkeypatch.setattr(import_module("runtime.loop.act"), "reach", lambda point, _="": at.get(point, lambda: None)())
    drive(run_id)
    assert (SCRIPT.sent, run_now(run_id).status) == ([], "RUNNING")
