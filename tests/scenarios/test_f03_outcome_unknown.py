"""F03: a call that must not be repeated was sent, and its worker was killed before the answer came.

Nothing is sent again until a person has looked. The four verdicts lead to four different ends.
"""

import json
from dataclasses import dataclass
from uuid import UUID

import pytest
from django.db import transaction

from accounts.selectors import audit_of
from approvals.models import Wait
from console.pages.inbox.items import unknown_calls
from receipts.errors import RetryNeedsApprover
from receipts.models import Reconciliation, ToolCall
from receipts.selectors import report_body, sealed_turns
from runtime.services import Reconciled
from runtime.tasks import look, sweep
from tests.scenarios.records import Records
from tests.scenarios.world import RECONCILER, World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

POST, STEP = "publish_report", "publish_report/overlap-v2"
HELD = [("DECISION", "CONSUMED", 2)]


@dataclass(frozen=True)
class Unknown:
    """A held run with a publication of which nobody knows whether it happened."""

    run_id: UUID
    call: ToolCall
    records: Records


@pytest.fixture
def executed(world: World) -> Unknown:
    """The wiki executed the post, and the answer was lost with the worker."""
    run_id, wait = world.run_to_wait()
    unknown = held_by_its_post(world, run_id, wait)
    wait_until(lambda: world.executions(unknown.call) == 1, "the wiki has executed the post")
    return unknown


@pytest.fixture
def not_executed(world: World) -> Unknown:
    """The post reached the wiki, which did nothing with it."""
    run_id, wait = world.run_to_wait()
    world.tell_outside(mode="hang", times=1, execute="never")
    unknown = held_by_its_post(world, run_id, wait)
    world.tell_outside(mode="ok")
    assert world.executions(unknown.call) == 0
    return unknown


def held_by_its_post(world: World, run_id: UUID, wait: Wait) -> Unknown:
    killed = world.kill_at("after_send")
    world.approve(wait)
    killed.wait()
    world.wait_status(run_id, "HELD")
    records = Records(run_id)
    return Unknown(run_id, records.call(POST), records)


def test_the_run_is_held_and_nothing_is_sent_however_long(world: World, executed: Unknown) -> None:
    records, call = executed.records, executed.call
    assert records.run.hold_reason == "UNCERTAIN_CALL"
    assert records.lease.owner is None
    revision, phase = records.head
    assert (phase, records.phases[revision - 1]) == ("AWAITING_TOOL_RESULT", ("AWAITING_TOOL_RESULT", 2))
    assert [wait.status for wait in records.waits] == ["CONSUMED"]
    assert records.wakeups == HELD
    assert (call.status, call.attempts) == ("UNCERTAIN", 1)
    assert records.tries(call) == [("NO_RESPONSE", 2, "person:operator")]
    assert records.result(call) is None
    assert records.effects(call) == 0
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "UNCERTAIN")]
    assert "NWGC" in report_body(records.report(1))
    assert records.budget(call) == [(1, "RESERVE", 1), (1, "HOLD_UNKNOWN", 1)]
    assert list(unknown_calls(world.person()).filter(run_id=executed.run_id)) == [call]

    before = records.same("run", "lease", "head", "transitions", "statuses")
    for _ in range(3):
        sweep()
        look(str(executed.run_id))
    assert records.same("run", "lease", "head", "transitions", "statuses") == before
    assert records.lease.fence == 3
    assert world.executions(call) == 1


def test_executed_is_published_without_another_request(world: World, executed: Unknown) -> None:
    records, call = executed.records, executed.call
    revision, _ = records.head
    said = world.reconcile(call, "EXECUTED", ref="post-77")
    assert said == Reconciled(call.id, "EXECUTED", "SUCCEEDED")
    world.wait_status(executed.run_id, "COMPLETED")

    verdict = Reconciliation.objects.get(tool_call=call)
    assert (verdict.seen_attempts, verdict.method, verdict.actor) == (1, "HUMAN", "person:operator")
    assert records.result(call) == ("HUMAN", True, None, None)
    assert records.statuses[STEP] == ("SUCCEEDED", 1)
    assert records.effects(call) == 1
    assert records.reports[1] == (2, "wiki", "PUBLISHED")
    assert records.report(2).publications.get().external_ref == "post-77"
    assert records.wakeups == [*HELD, ("RECONCILED", "CONSUMED", 4)]
    assert records.transitions[-3:] == [
        ("QUEUED", "RECONCILED", None),
        ("RUNNING", "ACQUIRED", 4),
        ("COMPLETED", "FINISHED", 4),
    ]
    assert records.phases[revision] == ("TOOL_RESULT_RECORDED", 4)
    assert records.obligations[STEP] == "FULFILLED"
    assert records.budget(call) == [(1, "RESERVE", 1), (1, "HOLD_UNKNOWN", 1), (1, "SETTLE", 1)]
    assert world.executions(call) == 1
    events = audit_of(tenant_id=world.tenant.id, object_type="call", object_id=str(call.id))
    assert [event.action for event in events] == ["call.reconcile"]


def test_not_executed_is_sent_again_by_an_approver(world: World, not_executed: Unknown) -> None:
    records, call = not_executed.records, not_executed.call
    refused = world.reconcile(call, "NOT_EXECUTED", then="RETRY", by=RECONCILER)
    assert isinstance(refused, RetryNeedsApprover)
    assert records.statuses[STEP] == ("UNCERTAIN", 1)

    assert world.reconcile(call, "NOT_EXECUTED", then="RETRY") == Reconciled(call.id, "NOT_EXECUTED", "RETRY_WAIT")
    world.wait_status(not_executed.run_id, "COMPLETED")

    assert records.call(POST).idempotency_key == call.idempotency_key
    assert records.tries(call) == [("NO_RESPONSE", 2, "person:operator"), ("OK", 4, "person:operator")]
    assert records.result(call) == ("LIVE", True, 2, 4)
    assert records.effects(call) == 1
    assert [wait.status for wait in records.waits] == ["CONSUMED"]
    assert records.reports[1] == (2, "wiki", "PUBLISHED")
    assert records.obligations[STEP] == "FULFILLED"
    assert records.budget(call) == [
        (1, "RESERVE", 1),
        (1, "HOLD_UNKNOWN", 1),
        (1, "RELEASE", 1),
        (2, "RESERVE", 1),
        (2, "SETTLE", 1),
    ]
    assert world.executions(call) == 1


def test_not_executed_and_given_up_leaves_the_promise_open(world: World, not_executed: Unknown) -> None:
    records, call = not_executed.records, not_executed.call
    assert world.reconcile(call, "NOT_EXECUTED", then="FAIL") == Reconciled(call.id, "NOT_EXECUTED", "FAILED")
    held = wait_until(lambda: records.run.hold_reason == "OBLIGATION_OPEN", "the run is held by its promise")

    assert held
    assert records.statuses[STEP] == ("FAILED", 1)
    assert records.result(call) == ("HUMAN", False, None, None)
    assert records.effects(call) == 0
    assert records.reports[1] == (2, "wiki", "FAILED")
    assert records.budget(call)[-1] == (1, "RELEASE", 1)
    assert "did not happen" in last_words(world, not_executed.run_id)
    assert records.obligations == {"send_answer_part/v1": "FULFILLED", STEP: "OPEN"}

    complete_without_the_promise(world, not_executed)
    assert world.executions(call) == 0


def test_a_stop_before_the_next_try_cancels_the_call_with_its_publication(world: World, not_executed: Unknown) -> None:
    records, call = not_executed.records, not_executed.call
    with transaction.atomic():  # before any worker can send it again
        world.reconcile(call, "NOT_EXECUTED", then="RETRY")
        world.stop(not_executed.run_id)

    assert records.run.status == "CANCELLED"
    assert records.statuses[STEP] == ("CANCELLED", 1)
    assert records.reports[1] == (2, "wiki", "FAILED")
    assert records.budget(call)[-1] == (1, "RELEASE", 1)
    assert world.executions(call) == 0


def test_going_on_without_knowing_keeps_the_call_in_the_inbox(world: World, executed: Unknown) -> None:
    records, call = executed.records, executed.call
    assert world.reconcile(call, "PROCEED_UNKNOWN") == Reconciled(call.id, "PROCEED_UNKNOWN", "UNCERTAIN")
    wait_until(lambda: records.run.hold_reason == "OBLIGATION_OPEN", "the run is held by its promise")

    assert records.statuses[STEP] == ("UNCERTAIN", 1)
    assert not records.call(POST).blocking
    assert records.result(call) is None
    assert records.reports[1] == (2, "wiki", "UNCERTAIN")
    assert records.budget(call)[-1] == (1, "HOLD_UNKNOWN", 1)
    assert list(unknown_calls(world.person()).filter(run_id=executed.run_id)) == [call]

    complete_without_the_promise(world, executed)
    assert list(unknown_calls(world.person()).filter(run_id=executed.run_id)) == [call]
    assert world.executions(call) == 1

    # The truth comes out after the end: its facts are written at once, and nothing moves (ruling 28).
    head = records.head
    assert world.reconcile(call, "EXECUTED", ref="post-78") == Reconciled(call.id, "EXECUTED", "SUCCEEDED")
    assert records.reports[1] == (2, "wiki", "PUBLISHED")
    assert (records.head, records.run.status) == (head, "COMPLETED")
    assert not unknown_calls(world.person()).filter(run_id=executed.run_id).exists()


def complete_without_the_promise(world: World, unknown: Unknown) -> None:
    """The run completes only once its promise has been released."""
    obligation = unknown.records.obligation(STEP)
    world.release(obligation.id)
    world.wait_status(unknown.run_id, "COMPLETED")
    assert unknown.records.obligations[STEP] == "RELEASED"


def last_words(world: World, run_id: UUID) -> str:
    """What the model proposed last, as text."""
    return json.dumps(sealed_turns(tenant_id=world.tenant.id, run_id=run_id)[-1].proposed)
