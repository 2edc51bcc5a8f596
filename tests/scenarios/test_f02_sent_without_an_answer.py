"""F02, F05, F06 and X13: a reading, a turn or a post was on its way when its worker was killed. What may be repeated is, under the
same id and key; what may not be waits for a person.
"""

from collections.abc import Callable

import pytest

from console.pages.inbox.items import unknown_calls
from receipts.models import Proposal, ToolCall
from receipts.selectors import call_arguments
from runs.canonical import idempotency_key, parse
from runs.models import TraceEvent
from runtime.services import Reconciled
from tests.scenarios.records import Records
from tests.scenarios.test_x11_trace import deleted, doubled
from tests.scenarios.world import World, thaw

pytestmark = pytest.mark.process

READ, DRAFT, POST, STEP = "fetch_reference", "send_answer_part", "publish_report", "publish_report/overlap-v2"
HELD_THEN_DONE = [(1, "RESERVE"), (1, "HOLD_UNKNOWN"), (2, "RESERVE"), (2, "SETTLE")]


def untouched() -> None:
    """The trace stays as it is."""


@pytest.mark.parametrize(
    "trace", [pytest.param(untouched, id="traced", marks=pytest.mark.matrix), pytest.param(deleted, id="trace deleted")]
)
def test_a_reading_without_an_answer_is_read_again_as_the_same_call(world: World, trace: Callable[[], None]) -> None:
    """F02, and X11 with it."""
    killed = world.kill_at("after_send")
    run_id = world.start_run()
    killed.wait()
    records = Records(run_id)
    trace()
    read, (revision, phase) = records.call(READ), records.head
    assert (read.status, read.attempts, phase) == ("DISPATCHED", 1, "AWAITING_TOOL_RESULT")

    world.approve(world.open_wait(run_id))
    world.wait_status(run_id, "COMPLETED")

    again = records.call(READ)
    assert (again.id, again.idempotency_key, again.status) == (read.id, read.idempotency_key, "SUCCEEDED")
    assert records.tries(read) == [("NO_RESPONSE", 1, "policy:builtin-1"), ("OK", 2, "policy:read-only")]
    assert records.result(read) == ("LIVE", True, 2, 2)
    assert records.phases[revision - 1 : revision + 1] == [("AWAITING_TOOL_RESULT", 1), ("TOOL_RESULT_RECORDED", 2)]
    assert [(no, kind) for no, kind, _ in records.budget(read)] == HELD_THEN_DONE
    assert world.readings(read) <= 2
    assert all(attempts == 1 for _, attempts in records.turns)
    assert not unknown_calls(world.person()).filter(run_id=run_id).exists()
    assert records.refusals == []
    assert trace is untouched or not TraceEvent.objects.filter(run_id=run_id, name="run_moved", attrs__cause="ADMITTED")


@pytest.mark.parametrize(
    "point", [pytest.param("after_model_dispatch_commit", marks=pytest.mark.matrix), "after_model_response"]
)
def test_a_turn_without_an_answer_is_asked_again_as_the_same_turn(world: World, point: str) -> None:
    """F05: before and after the model has answered; nobody has stored what it said."""
    killed = world.kill_at(point)
    run_id = world.start_run()
    killed.wait()
    records = Records(run_id)
    turn = records.turn(1)
    assert (turn.status, records.head, Proposal.objects.filter(model_call=turn).count()) == (
        "DISPATCHED",
        (1, "READY_TO_DECIDE"),
        0,
    )

    world.open_wait(run_id)

    sealed = records.turn(1)
    assert (sealed.id, sealed.status, sealed.attempts, sealed.sealed_fence) == (turn.id, "SEALED", 2, 2)
    assert records.tries(turn) == [("NO_RESPONSE", 1, "agent"), ("OK", 2, "agent")]
    assert Proposal.objects.filter(model_call=turn).count() == 1
    reserved, held, again, used = records.budget(turn, "tokens")
    assert [(no, kind) for no, kind, _ in (reserved, held, again, used)] == HELD_THEN_DONE
    assert reserved[2] == held[2] == again[2] > used[2] == (sealed.input_tokens or 0) + (sealed.output_tokens or 0)
    assert records.phases[:2] == [("READY_TO_DECIDE", 0), ("AWAITING_TOOL_RESULT", 2)]
    assert all(attempts == 1 for _, attempts in records.turns[1:])


def test_a_sealed_turn_is_not_asked_again(world: World) -> None:
    """F06, where the decision is a revision of its own: killed between it and the first dispatch."""
    frozen = world.freeze_at("after_result_commit", "compute_overlap")
    run_id = world.start_run()
    worker = frozen.wait()
    killed = world.kill_at("after_turn_sealed")
    thaw(worker)
    killed.wait()
    records = Records(run_id)
    turn, draft, (revision, phase) = records.turn(4), records.call(DRAFT), records.head
    assert (turn.status, turn.attempts, turn.sealed_fence, phase) == ("SEALED", 1, 1, "DECISION_RECORDED")
    assert (draft.status, draft.attempts) == ("PROPOSED", 0)

    world.approve(world.open_wait(run_id))
    world.wait_status(run_id, "COMPLETED")

    assert [attempts for _, attempts in records.turns] == [1] * 7
    assert records.phases[revision - 1 : revision + 2] == [
        ("DECISION_RECORDED", 1),
        ("AWAITING_TOOL_RESULT", 2),
        ("TOOL_RESULT_RECORDED", 2),
    ]
    assert records.tries(draft) == [("OK", 2, "policy:builtin-1")]
    assert records.run.takeovers == 1
    for call in ToolCall.objects.filter(run_id=run_id):
        args = parse(call_arguments(call))
        assert call.idempotency_key == idempotency_key(run_id=run_id, step_name=call.step_name, args=args)
    assert len(records.statuses) == 6


@pytest.mark.parametrize(
    "trace", [pytest.param(untouched, id="traced", marks=pytest.mark.matrix), pytest.param(doubled, id="trace doubled")]
)
def test_a_post_that_never_left_waits_for_a_person_like_one_that_did(world: World, trace: Callable[[], None]) -> None:
    """X13: nobody can tell the two apart, so nothing is sent on a guess. X11 with it."""
    run_id, wait = world.run_to_wait()
    killed = world.kill_at("after_attempt_commit", POST)
    world.approve(wait)
    killed.wait()
    trace()
    held = world.wait_status(run_id, "HELD")
    records = Records(run_id)
    call = records.call(POST)
    assert (held.hold_reason, call.status, call.attempts, world.executions(call)) == (
        "UNCERTAIN_CALL",
        "UNCERTAIN",
        1,
        0,
    )

    said = world.reconcile(call, "NOT_EXECUTED", then="RETRY")
    assert said == Reconciled(call.id, "NOT_EXECUTED", "RETRY_WAIT")
    world.wait_status(run_id, "COMPLETED")

    assert records.tries(call) == [("NO_RESPONSE", 2, "person:operator"), ("OK", 4, "person:operator")]
    assert records.result(call) == ("LIVE", True, 2, 4)
    assert records.reports[1] == (2, "wiki", "PUBLISHED")
    assert records.obligations[STEP] == "FULFILLED"
    assert world.executions(call) == 1
