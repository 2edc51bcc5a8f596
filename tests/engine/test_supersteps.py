"""Super-steps: the calls of a turn go side by side, none is repeated for another's sake, and each wait is its own."""

import threading
from collections.abc import Callable
from uuid import UUID

import pytest

from approvals.errors import AlreadyDecided
from approvals.models import Wait
from approvals.services import wait_expire
from checkpoints.models import Checkpoint, TaskWrite
from receipts.models import Result, ToolCall
from runs.models import Refusal, Wakeup
from runtime.contracts import ToolContext, ToolFailed, ToolOutcome, ToolRetryable, ToolUnknown
from runtime.loop import drive
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    attempts_of,
    call_named,
    expire_lease,
    head_of,
    kill,
    pass_deadline,
    phases,
    run_now,
    sql,
    watch_requests,
)
from tests.scripted import SCRIPT, calls, went_well


def outcomes(label: str) -> list[str | None]:
    return [outcome for _, outcome, _ in attempts_of(call_named_anywhere(label))]


def call_named_anywhere(label: str) -> ToolCall:
    return ToolCall.objects.filter(step_name__endswith=f"/{label}").latest("ordinal")


def wait_for(run_id: UUID, label: str) -> Wait:
    return Wait.objects.get(run_id=run_id, tool_call=call_named(run_id, label), status="OPEN")


def statuses(run_id: UUID) -> dict[str, str]:
    rows = ToolCall.objects.filter(run_id=run_id).order_by("ordinal")
    return {row.step_name.partition("/")[2]: row.status for row in rows}


def meeting(count: int) -> Callable[[ToolContext], ToolOutcome]:
    """An outcome that is given only once this many calls are out at the same time."""
    barrier = threading.Barrier(count)

    def meet(context: ToolContext) -> ToolOutcome:
        barrier.wait(timeout=10)
        return went_well(str(context.call_id))

    return meet


# ── side by side ─────────────────────────────────────────────────────────────


def test_the_calls_of_a_turn_are_out_at_the_same_time_and_answered_in_the_order_of_their_proposals(
    engine: Engine,
) -> None:
    meet = meeting(3)
    for label in "abc":
        SCRIPT.do(label, meet)
    run_id = engine.run(calls(("look", "a"), ("look", "b"), ("look", "c")))
    assert run_now(run_id).status == "COMPLETED"
    assert [sent.attempt for sent in SCRIPT.sent] == [1, 1, 1]
    answered = [message["id"] for message in SCRIPT.requests[-1].history if message["role"] == "tool"]
    assert answered == ["t1-0", "t1-1", "t1-2"]
    assert phases(run_id) == [
        *("READY_TO_DECIDE", "AWAITING_TOOL_RESULT", "TOOL_RESULT_RECORDED"),
        *("READY_TO_VERIFY", "FINISHED"),
    ]


def test_a_super_step_of_n_calls_writes_n_minus_one_tasks_beside_the_head_and_closes_with_one_revision(
    engine: Engine,
) -> None:
    run_id = engine.run(calls(*[("look", str(n)) for n in range(30)]))
    assert Result.objects.filter(tool_call__run_id=run_id).count() == 30
    assert TaskWrite.objects.filter(run_id=run_id, base_revision=2).count() == 29
    closing = Checkpoint.objects.get(run_id=run_id, phase="TOOL_RESULT_RECORDED")
    assert (closing.revision, run_now(run_id).status) == (3, "COMPLETED")


def test_what_only_touches_this_database_goes_in_its_order(engine: Engine) -> None:
    run_id = engine.run(calls(("note", "1"), ("look", "x"), ("note", "2"), ("note", "3")))
    assert SCRIPT.labels("note") == ["1", "2", "3"]
    versions = run_now(run_id).report_versions.order_by("version_no").values_list("title", flat=True)
    assert list(versions) == ["1", "2", "3"]


def test_a_known_failure_of_one_call_is_not_the_failure_of_the_others(engine: Engine) -> None:
    SCRIPT.do("bad", ToolFailed("no"))
    run_id = engine.run(calls(("look", "a"), ("look", "bad"), ("look", "b")))
    assert statuses(run_id) == {"a": "SUCCEEDED", "bad": "FAILED", "b": "SUCCEEDED"}
    assert run_now(run_id).status == "COMPLETED"


# ── siblings that are done are not repeated ──────────────────────────────────


def test_f20_siblings_that_are_done_are_not_repeated_after_a_crash(engine: Engine, at_point: At) -> None:
    def busy_and_die(_: ToolContext) -> ToolOutcome:
        at_point("after_result_commit", lambda: at_point("after_result_commit", kill))
        raise ToolRetryable("500")

    SCRIPT.do("c", busy_and_die, went_well("c"))
    SCRIPT.tell(calls(("note", "a"), ("note", "b"), ("note", "c")))
    run_id = engine.start()
    at_point("after_result_commit", lambda: at_point("after_result_commit", kill))
    with pytest.raises(Killed):
        drive(run_id)
    base = head_of(run_id)
    assert (base.phase, sorted(statuses(run_id).values())) == (
        "AWAITING_TOOL_RESULT",
        ["DISPATCHED", "SUCCEEDED", "SUCCEEDED"],
    )
    written = TaskWrite.objects.filter(run_id=run_id)
    assert {(task.base_revision, task.tool_call.step_name) for task in written} == {
        (base.revision, "note/a"),
        (base.revision, "note/b"),
    }
    expire_lease(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert {label: len(outcomes(label)) for label in "abc"} == {"a": 1, "b": 1, "c": 2}
    closing = Checkpoint.objects.filter(run_id=run_id, phase="TOOL_RESULT_RECORDED")
    assert [row.revision for row in closing] == [base.revision + 1]


def test_f20_a_call_that_is_put_off_is_tried_again_alone(engine: Engine) -> None:
    SCRIPT.do("c", ToolRetryable("500"), went_well("c"))
    run_id = engine.run(calls(("look", "a"), ("look", "b"), ("look", "c")))
    assert (outcomes("a"), outcomes("b"), outcomes("c")) == (["OK"], ["OK"], ["ERROR_RETRYABLE", "OK"])
    assert phases(run_id).count("TOOL_RESULT_RECORDED") == 1
    assert run_now(run_id).status == "COMPLETED"


def test_b45_a_third_call_of_unknown_outcome_leaves_the_first_two_alone(engine: Engine) -> None:
    SCRIPT.do("c", ToolUnknown("timed out after it had committed"))
    run_id = engine.run(calls(("once", "a"), ("once", "b"), ("once", "c")))
    for label in "abc":
        engine.decide(wait_for(run_id, label))
    drive(run_id)
    assert statuses(run_id) == {"a": "SUCCEEDED", "b": "SUCCEEDED", "c": "UNCERTAIN"}
    assert (run_now(run_id).status, run_now(run_id).hold_reason) == ("HELD", "UNCERTAIN_CALL")
    engine.reconcile(call_named(run_id, "c"), "EXECUTED", external_ref="ref")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert sorted(SCRIPT.labels("once")) == ["a", "b", "c"]


@pytest.mark.parametrize("verdict", ["EXECUTED", "NOT_EXECUTED", "PROCEED_UNKNOWN"])
def test_two_unknown_siblings_each_wait_for_their_own_verdict(engine: Engine, verdict: str) -> None:
    differences = watch_requests()
    for label in "ab":
        SCRIPT.do(label, ToolUnknown("no answer"))
    run_id = engine.run(calls(("once", "a"), ("once", "b"), ("look", "c")))
    for label in "ab":
        engine.decide(wait_for(run_id, label))
    drive(run_id)
    engine.reconcile(call_named(run_id, "a"), verdict, then="FAIL" if verdict == "NOT_EXECUTED" else "NONE")
    drive(run_id)
    assert (run_now(run_id).status, call_named(run_id, "b").status) == ("HELD", "UNCERTAIN")
    engine.reconcile(call_named(run_id, "b"), "EXECUTED")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert sorted(SCRIPT.labels("once")) == ["a", "b"]
    assert differences == []


def test_a_worker_that_loses_its_lease_keeps_every_late_answer_as_evidence_only(engine: Engine) -> None:
    meet = meeting(3)

    def lose_and_meet(context: ToolContext) -> ToolOutcome:
        expire_lease(context.run_id)
        return meet(context)

    for label in "ab":
        SCRIPT.do(label, meet, went_well(label))
    SCRIPT.do("c", lose_and_meet, went_well("c"))
    run_id = engine.run(calls(("look", "a"), ("look", "b"), ("look", "c")))
    assert not Result.objects.exists()
    late = Refusal.objects.filter(run_id=run_id, kind="LATE_RESULT").values_list("subject_id", flat=True)
    assert set(late) == set(ToolCall.objects.values_list("id", flat=True))
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert [outcomes(label) for label in "abc"] == [["NO_RESPONSE", "OK"]] * 3


def test_a_stop_while_several_calls_are_out_records_what_they_gave(engine: Engine) -> None:
    def stop(context: ToolContext) -> ToolOutcome:
        engine.stop(context.run_id)
        return went_well("b")

    SCRIPT.do("b", stop)
    run_id = engine.run(calls(("look", "a"), ("look", "b"), ("once", "c")))
    assert run_now(run_id).status == "CANCELLED"
    assert statuses(run_id) == {"a": "SUCCEEDED", "b": "SUCCEEDED", "c": "CANCELLED"}


# ── one barrier of waits ─────────────────────────────────────────────────────


def three_waits(engine: Engine) -> UUID:
    return engine.run(calls(("once", "a"), ("look", "x"), ("once", "b"), ("once", "c")))


def test_b11_only_the_calls_that_need_a_person_ask_and_the_others_have_gone_before(engine: Engine) -> None:
    run_id = three_waits(engine)
    assert statuses(run_id) == dict.fromkeys("abc", "AWAITING_APPROVAL") | {"x": "SUCCEEDED"}
    bound = Wait.objects.filter(run_id=run_id).values_list("checkpoint_revision", "checkpoint_digest")
    head = head_of(run_id)
    assert list(bound) == [(head.revision, head.digest)] * 3
    assert head.phase == "AWAITING_APPROVAL"


def test_a_decision_queues_the_run_only_when_no_wait_of_the_barrier_is_open(engine: Engine) -> None:
    run_id = three_waits(engine)
    engine.decide(wait_for(run_id, "a"))
    engine.decide(wait_for(run_id, "b"), "REJECT")
    assert run_now(run_id).status == "WAITING"
    pass_deadline(wait_for(run_id, "c"))
    assert wait_expire(wait_id=wait_for(run_id, "c").id)
    assert run_now(run_id).status == "QUEUED"


def test_b12_each_call_of_a_barrier_goes_by_its_own_decision_in_one_revision(engine: Engine) -> None:
    run_id = three_waits(engine)
    revision = head_of(run_id).revision
    for label, verdict in (("a", "APPROVE"), ("b", "REJECT"), ("c", "APPROVE")):
        engine.decide(wait_for(run_id, label), verdict)
    drive(run_id)
    assert statuses(run_id) == {"a": "SUCCEEDED", "b": "REJECTED", "c": "SUCCEEDED", "x": "SUCCEEDED"}
    assert sorted(SCRIPT.labels("once")) == ["a", "c"]
    assert Checkpoint.objects.get(run_id=run_id, revision=revision + 1).phase == "AWAITING_TOOL_RESULT"
    assert set(Wait.objects.filter(run_id=run_id).values_list("status", flat=True)) == {"CONSUMED"}
    assert set(Wakeup.objects.filter(run_id=run_id).values_list("status", flat=True)) == {"CONSUMED"}
    assert run_now(run_id).status == "COMPLETED"


def test_a_barrier_of_refusals_only_lets_the_model_decide_again(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b")))
    engine.decide(wait_for(run_id, "a"), "REJECT")
    pass_deadline(wait_for(run_id, "b"))
    wait_expire(wait_id=wait_for(run_id, "b").id)
    drive(run_id)
    told = [message["value"]["error"] for message in SCRIPT.requests[-1].history if message["role"] == "tool"]
    assert told == ["rejected: by a person: I read it", "rejected: nobody decided in time"]
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", [])


def test_a_failed_check_voids_the_decided_siblings_too_and_all_are_asked_again(engine: Engine) -> None:
    """Ruling 31."""
    run_id = engine.run(calls(("once", "a"), ("once", "b")))
    for label, verdict in (("a", "APPROVE"), ("b", "REJECT")):
        engine.decide(wait_for(run_id, label), verdict)
    sql("UPDATE approvals_wait SET valid_until = clock_timestamp() - interval '1 second' WHERE status = 'APPROVED'")
    drive(run_id)
    assert sorted(Wait.objects.filter(run_id=run_id).values_list("status", flat=True)) == [
        *["INVALIDATED"] * 2,
        *["OPEN"] * 2,
    ]
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("WAITING", [])
    for label in "ab":
        engine.decide(wait_for(run_id, label))
    drive(run_id)
    assert (run_now(run_id).status, sorted(SCRIPT.labels("once"))) == ("COMPLETED", ["a", "b"])


def test_a_goal_revised_between_two_decisions_asks_about_both_again(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b"), ("once", "c")))
    decided = wait_for(run_id, "a")
    engine.decide(decided)
    pass_deadline(wait_for(run_id, "c"))
    wait_expire(wait_id=wait_for(run_id, "c").id)
    engine.revise(run_id, "Another goal.")
    drive(run_id)
    assert isinstance(engine.decide(decided), AlreadyDecided)
    assert statuses(run_id) == {"a": "AWAITING_APPROVAL", "b": "AWAITING_APPROVAL", "c": "REJECTED"}
    for label in "ab":
        engine.decide(wait_for(run_id, label))
    drive(run_id)
    assert (run_now(run_id).status, sorted(SCRIPT.labels("once"))) == ("COMPLETED", ["a", "b"])


def test_a_worker_killed_after_it_consumed_a_barrier_leaves_each_call_unknown_and_repeats_none(
    engine: Engine, at_point: At
) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b")))
    for label in "ab":
        engine.decide(wait_for(run_id, label))
    at_point("after_wake_consumed", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    assert statuses(run_id) == {"a": "UNCERTAIN", "b": "UNCERTAIN"}
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("HELD", [])
