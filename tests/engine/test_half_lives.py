"""What was observed holds for its half-life: nothing rests on older facts, and what is read again is a step of its own."""

from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from approvals.models import Wait
from checkpoints.models import Lapse
from receipts.models import ToolCall
from runs.models import Refusal, Wakeup
from runtime.contracts import ModelRequest, ModelTurn, ToolRetryable
from runtime.loop import drive
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    call_named,
    expire_lease,
    head_of,
    kill,
    open_wait,
    phases,
    run_now,
    sql,
    sql_past_triggers,
)
from tests.engine.test_commitments import refusals, withdraw
from tests.scripted import SCRIPT, calls, done

HOURS = "UPDATE receipts_attempt SET dispatched_at = dispatched_at - interval '2 hours' WHERE tool_call_id = %s"


def age(call: ToolCall) -> None:
    """Let what a call observed be two hours old, by the database's clock."""
    sql_past_triggers(HOURS, call.id)


def steps(run_id: UUID) -> list[tuple[str, str]]:
    """(step, status) of every call, in order."""
    return list(ToolCall.objects.filter(run_id=run_id).order_by("ordinal").values_list("step_name", "status"))


def waiting(engine: Engine, *later: Any, tool: str = "once") -> UUID:
    """A run that watched, and asks for a call; its observation is two hours old."""
    run_id = engine.run(calls(("watch", "a")), calls((tool, "b")), *later)
    age(call_named(run_id, "a"))
    return run_id


# ── an approval that rests on facts that lapsed ──────────────────────────────


def test_an_approval_of_the_next_day_is_asked_afresh_after_the_facts_were_read_again(engine: Engine) -> None:
    """T20, C-027, T06."""
    run_id = waiting(engine, calls(("watch", "a")), calls(("once", "b")), calls(("watch", "a")))
    stale = open_wait(run_id)
    engine.approve(run_id)
    drive(run_id)
    stale.refresh_from_db()
    assert (stale.status, stale.decision.verdict) == ("INVALIDATED", "APPROVE")
    assert stale.status_reason == "it rests on facts that have passed their half-life"
    assert list(Wakeup.objects.filter(wait_id=stale.id).values_list("status", flat=True)) == ["REFUSED"]
    lapse = Lapse.objects.get(run_id=run_id)
    assert (lapse.tool_call.step_name, lapse.step_name, lapse.half_life_seconds) == ("watch/a", "watch/a", 3600)
    refusal = Refusal.objects.get(run_id=run_id)
    assert (refusal.kind, refusal.subject_id) == ("STALE_FACTS", stale.tool_call_id)
    assert refusal.detail["observations"] == [str(lapse.tool_call_id)]
    assert steps(run_id) == [
        ("watch/a", "SUCCEEDED"),
        ("once/b", "CANCELLED"),
        ("watch/a~2", "SUCCEEDED"),
        ("once/b", "AWAITING_APPROVAL"),
    ]
    assert (run_now(run_id).status, SCRIPT.labels("once"), SCRIPT.labels("watch")) == ("WAITING", [], ["a", "a"])
    fresh = open_wait(run_id)
    assert (fresh.tool_call_id != stale.tool_call_id, fresh.args_digest) == (True, stale.args_digest)
    asked = SCRIPT.requests[2]
    assert asked.lapsed == {"t1-0"}
    assert "watch/a, observed" in asked.history[-1]["text"]
    assert "Not sent, since it rests on them: once/b" in asked.history[-1]["text"]

    engine.approve(run_id)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["b"])
    assert (SCRIPT.labels("watch"), SCRIPT.requests[-1].lapsed) == (["a", "a"], frozenset({"t1-0"}))


def test_an_approval_that_rests_on_none_of_them_is_used_and_the_facts_stay(engine: Engine) -> None:
    """T20: a lapsed half-life matters only if the call depends on it."""
    run_id = waiting(engine, tool="apart")
    engine.approve(run_id)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("apart"), Lapse.objects.count()) == ("COMPLETED", ["b"], 0)


def test_of_a_barrier_the_independent_call_is_asked_afresh_and_not_lost(engine: Engine) -> None:
    """Ruling 31: the decided siblings of a failed check are asked again."""
    run_id = engine.run(calls(("watch", "a")), calls(("once", "b"), ("apart", "c")), done())
    age(call_named(run_id, "a"))
    for wait in Wait.objects.filter(run_id=run_id, status="OPEN"):
        engine.decide(wait)
    drive(run_id)
    fresh = open_wait(run_id)
    assert (fresh.tool_call_id, call_named(run_id, "b").status) == (call_named(run_id, "c").id, "CANCELLED")
    engine.approve(run_id)
    drive(run_id)
    assert (SCRIPT.labels("apart"), SCRIPT.labels("once"), run_now(run_id).status) == (["c"], [], "COMPLETED")


def test_facts_that_lapse_after_the_check_are_seen_by_the_commit_that_sends(engine: Engine, at_point: At) -> None:
    run_id = engine.run(calls(("watch", "a")), calls(("once", "b")))
    engine.approve(run_id)
    at_point("before_attempt_commit", lambda: age(call_named(run_id, "a")))
    drive(run_id)
    assert (SCRIPT.labels("once"), refusals(run_id)) == ([], ["STALE_FACTS"])
    assert (call_named(run_id, "b").status, run_now(run_id).status) == ("CANCELLED", "COMPLETED")


def test_what_was_withdrawn_is_said_before_what_has_lapsed(engine: Engine) -> None:
    """The guards are asked in their order: 11 before 12."""
    SCRIPT.tell(calls(("watch", "a")), calls(("once", "b")))
    run_id = engine.start("bound")
    drive(run_id)
    age(call_named(run_id, "a"))
    engine.approve(run_id)
    withdraw(engine, run_id)
    drive(run_id)
    assert (run_now(run_id).status, refusals(run_id), Lapse.objects.count()) == ("HELD", ["WITHDRAWN"], 0)


# ── calls that policy asks nobody about ──────────────────────────────────────


def test_a_live_worker_sends_nothing_on_facts_that_lapsed_meanwhile(engine: Engine) -> None:
    def late(_: ModelRequest) -> ModelTurn:
        age(call_named(ToolCall.objects.get(step_name="watch/a").run_id, "a"))
        return calls(("note", "b"), ("look", "c"))

    run_id = engine.run(calls(("watch", "a")), late)
    assert steps(run_id) == [("watch/a", "SUCCEEDED"), ("note/b", "CANCELLED"), ("look/c", "SUCCEEDED")]
    assert (SCRIPT.labels("note"), refusals(run_id), run_now(run_id).status) == ([], ["STALE_FACTS"], "COMPLETED")


def test_a_call_is_not_tried_again_on_facts_that_lapsed(engine: Engine) -> None:
    SCRIPT.do("b", ToolRetryable("not now"))
    SCRIPT.tell(calls(("watch", "a")), calls(("again", "b")))
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)

    def refuse(_: Any) -> Any:
        age(call_named(run_id, "a"))
        raise ToolRetryable("not now")

    SCRIPT.do("b", refuse)
    drive(run_id)
    call = call_named(run_id, "b")
    assert (call.status, call.error, len(SCRIPT.labels("again"))) == (
        "FAILED",
        "it rests on facts that have passed their half-life",
        1,
    )


# ── a long gap ───────────────────────────────────────────────────────────────


def test_after_a_long_gap_the_model_is_told_before_it_is_asked(engine: Engine, at_point: At) -> None:
    """C-027: a takeover after the shortest half-life lets go of what lapsed first."""
    SCRIPT.tell(calls(("watch", "a"), ("look", "c")), calls(("watch", "a")))
    run_id = engine.start()
    at_point("after_model_dispatch_commit", lambda: None)
    drive_until_second_request(run_id, at_point)
    age(call_named(run_id, "a"))
    expire_lease(run_id)
    drive(run_id)
    asked = SCRIPT.requests[1]
    assert (asked.lapsed, asked.history[-1]["role"]) == (frozenset({"t1-0"}), "notice")
    assert "Not sent" not in asked.history[-1]["text"]
    assert steps(run_id)[2:] == [("watch/a~2", "SUCCEEDED")]
    assert (refusals(run_id), run_now(run_id).status) == (["STALE_FACTS"], "COMPLETED")


def drive_until_second_request(run_id: UUID, at_point: At) -> None:
    """Drive a run, and kill its worker where the second request is committed and not sent."""

    def once_more() -> None:
        at_point("after_model_dispatch_commit", kill)

    at_point("after_model_dispatch_commit", once_more)
    with pytest.raises(Killed):
        drive(run_id)


def test_a_worker_that_takes_over_counts_the_epochs_from_the_store(engine: Engine) -> None:
    run_id = waiting(engine, calls(("watch", "a")), calls(("once", "b")), calls(("watch", "a"), ("once", "c")))
    engine.approve(run_id)
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert [step for step, _ in steps(run_id)] == ["watch/a", "once/b", "watch/a~2", "once/b", "once/c"]
    age(call_named(run_id, "a~2"))
    SCRIPT.tell(done(), done(), done(), done(), done(), calls(("watch", "a")))
    engine.approve(run_id)
    drive(run_id)
    assert steps(run_id)[-1] == ("watch/a~3", "SUCCEEDED")
    assert list(Lapse.objects.order_by("at").values_list("step_name", flat=True)) == ["watch/a", "watch/a"]


def test_fresh_facts_are_left_alone(engine: Engine) -> None:
    run_id = engine.run(calls(("watch", "a")), calls(("once", "b")))
    engine.approve(run_id)
    drive(run_id)
    assert (run_now(run_id).status, Lapse.objects.count(), refusals(run_id)) == ("COMPLETED", 0, [])
    assert head_of(run_id).phase == "FINISHED"
    assert "READY_TO_DECIDE" not in phases(run_id)[1:]


def test_a_lapse_is_never_changed(engine: Engine) -> None:
    run_id = waiting(engine)
    engine.approve(run_id)
    drive(run_id)
    for statement in ("UPDATE checkpoints_lapse SET step_name = 'x'", "DELETE FROM checkpoints_lapse"):
        with pytest.raises(DatabaseError, match="Cannot update or delete"):
            sql(statement)
