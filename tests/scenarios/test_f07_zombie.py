"""F07: a worker freezes, its lease expires, another one goes on, and the frozen one wakes up. It changes nothing."""

import os
import re
import signal

import pytest

from receipts.models import Attempt, ModelCall, Result, ToolCall
from runs.models import Refusal
from tests.scenarios.records import Records
from tests.scenarios.world import World, thaw
from tests.waiting import wait_until

pytestmark = pytest.mark.process

READ, DRAFT = "fetch_reference", "send_answer_part"
ZOMBIE, TAKER = 1, 2
STALE = ("STALE_FENCE", ZOMBIE)
LATE = ("LATE_RESULT", ZOMBIE)


def wait_refused(records: Records, *refusals: tuple[str, int]) -> None:
    """Wait until the zombie has been refused, and see that this is all."""
    wait_until(lambda: len(records.refusals) >= len(refusals), "the zombie is refused")
    assert records.refusals == list(refusals)


def everything_since(records: Records, revision: int) -> set[int | None]:
    """The fences of everything that was written after a revision."""
    calls, turns = ToolCall.objects.filter(run_id=records.run_id), ModelCall.objects.filter(run_id=records.run_id)
    since = records.phases[revision:]
    return {
        *(fence for _, fence in since),
        *Result.objects.filter(tool_call__in=calls.filter(proposed_revision__gt=revision)).values_list(
            "fence", flat=True
        ),
        *turns.filter(at_revision__gte=revision, sealed_fence__isnull=False).values_list("sealed_fence", flat=True),
        *Attempt.objects.filter(
            tool_call__in=calls, outcome="OK", tool_call__proposed_revision__gt=revision
        ).values_list("fence", flat=True),
    }


def test_a_late_save_is_refused(world: World) -> None:
    frozen = world.freeze_at("after_model_response")
    run_id = world.start_run()
    zombie = frozen.wait()
    records = Records(run_id)
    assert records.phases == [("READY_TO_DECIDE", 0)]
    world.open_wait(run_id)
    before = records.same("head", "phases", "statuses", "turns", "transitions", "lease")

    thaw(zombie)
    wait_refused(records, STALE)

    assert records.same("head", "phases", "statuses", "turns", "transitions", "lease") == before
    assert everything_since(records, 1) == {TAKER}
    turn = records.turn(1)
    assert records.tries(turn) == [("NO_RESPONSE", ZOMBIE, "agent"), ("OK", TAKER, "agent")]
    assert records.budget(turn, "model_calls") == [
        (1, "RESERVE", 1),
        (1, "HOLD_UNKNOWN", 1),
        (2, "RESERVE", 1),
        (2, "SETTLE", 1),
    ]


def test_a_late_result_is_refused_and_its_digest_kept(world: World) -> None:
    frozen = world.freeze_at("after_response", READ)
    run_id = world.start_run()
    zombie = frozen.wait()
    records = Records(run_id)
    revision, phase = records.head
    assert phase == "AWAITING_TOOL_RESULT"
    world.open_wait(run_id)
    read = records.call(READ)
    before = records.same("head", "phases", "statuses", "turns", "transitions", "lease")

    thaw(zombie)
    wait_refused(records, LATE, STALE)

    assert records.same("head", "phases", "statuses", "turns", "transitions", "lease") == before
    late = Refusal.objects.get(run_id=run_id, kind="LATE_RESULT")
    assert re.fullmatch("[0-9a-f]{64}", late.evidence_digest or "")
    assert late.subject_id == read.id
    assert records.tries(read) == [("NO_RESPONSE", ZOMBIE, "policy:builtin-1"), ("OK", TAKER, "policy:read-only")]
    assert records.result(read) == ("LIVE", True, 2, TAKER)
    assert everything_since(records, revision) == {TAKER}
    assert world.readings(read) == 2


def test_a_late_adoption_of_a_stop_is_refused(world: World) -> None:
    world.tell_outside(mode="hang", times=1, **{"for": "reference"})
    frozen = world.freeze_at("after_result_commit", READ)
    run_id = world.start_run()
    world.wait_held("reference")
    # The result comes back after the stop was accepted, and the worker freezes on its way to adopt it.
    world.stop(run_id)
    world.tell_outside(mode="ok", **{"for": "reference"})
    zombie = frozen.wait()
    world.wait_status(run_id, "CANCELLED")
    records = Records(run_id)
    before = records.same("head", "phases", "statuses", "turns", "transitions", "lease", "stop_request")

    thaw(zombie)
    wait_refused(records, STALE)

    assert records.same("head", "phases", "statuses", "turns", "transitions", "lease", "stop_request") == before
    assert records.phases[-2:] == [("TOOL_RESULT_RECORDED", ZOMBIE), ("STOPPED", TAKER)]
    assert records.transitions[-1] == ("CANCELLED", "STOPPED", TAKER)
    assert records.stop_request.status == "SETTLED"
    assert records.statuses[f"{READ}/sheet"] == ("SUCCEEDED", 1)


def test_a_late_renewal_is_refused(world: World) -> None:
    world.tell_outside(mode="hang", times=1, **{"for": "reference"})
    run_id = world.start_run()
    world.wait_held("reference")
    records = Records(run_id)
    zombie = int(str(records.lease.owner).rpartition("-")[2])
    os.kill(zombie, signal.SIGSTOP)
    world.open_wait(run_id)
    before = records.same("head", "phases", "statuses", "transitions", "lease")

    thaw(zombie)
    not_renewed = f"run {run_id}: no lease under fence {ZOMBIE} to renew"
    wait_until(lambda: any(not_renewed in worker.log() for worker in world.workers), "the renewal is refused")
    assert records.same("head", "phases", "statuses", "transitions", "lease") == before

    # Its request still hangs. When that answers, the result is too late as well.
    world.tell_outside(mode="ok", **{"for": "reference"})
    wait_refused(records, LATE, STALE)
    assert records.same("head", "phases", "statuses", "transitions", "lease") == before
    assert world.readings(records.call(READ)) == 2


@pytest.mark.parametrize(("point", "subject", "kept"), [
    ("after_attempt_commit", "publish_report", []),
    # With a connection already open. That nothing was sent is known then, and is evidence for whoever looks at the call.
    ("before_send", "", [("LATE_RESULT", 2)]),
])  # fmt: skip
def test_a_call_that_was_not_sent_in_time_is_not_sent(
    world: World, point: str, subject: str, kept: list[tuple[str, int]]
) -> None:
    run_id, wait = world.run_to_wait()
    frozen = world.freeze_at(point, subject)
    world.approve(wait)
    zombie = frozen.wait()
    world.wait_status(run_id, "HELD")
    records = Records(run_id)
    before = records.same("head", "phases", "statuses", "reports", "transitions", "lease")

    thaw(zombie)
    wait_refused(records, ("UNCERTAIN_CALL", 3), *kept, ("STALE_FENCE", 2))

    assert records.same("head", "phases", "statuses", "reports", "transitions", "lease") == before
    call = records.call("publish_report")
    assert records.tries(call) == [("NO_RESPONSE", 2, "person:operator")]
    assert call.idempotency_key not in [request["key"] for request in world.outside_counts()["received"]["wiki"]]


def test_a_transaction_that_was_frozen_half_way_leaves_nothing(world: World) -> None:
    frozen = world.freeze_at("inside_result_tx", DRAFT)
    run_id = world.start_run()
    zombie = frozen.wait()
    records = Records(run_id)
    # Its report version is written and not committed; the next worker's own one has to wait for it.
    assert records.reports == []
    world.open_wait(run_id)
    before = records.same("head", "phases", "statuses", "reports", "transitions", "lease")

    lost = sessions_lost(world)
    thaw(zombie)
    wait_until(lambda: sessions_lost(world) > lost, "the zombie's commit fails")

    assert records.same("head", "phases", "statuses", "reports", "transitions", "lease") == before
    draft = records.call(DRAFT)
    assert records.tries(draft) == [("NO_RESPONSE", ZOMBIE, "policy:builtin-1"), ("OK", TAKER, "probe")]
    assert records.result(draft) == ("LIVE", True, 2, TAKER)
    assert records.effects(draft) == 1
    assert records.report(1).fence == TAKER
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "REQUESTED")]


def test_a_transaction_that_was_frozen_with_the_lease_locked_is_ended(world: World) -> None:
    run_id, wait = world.run_to_wait()
    frozen = world.freeze_at("inside_dispatch_tx", "publish_report")
    world.approve(wait)
    zombie = frozen.wait()
    world.wait_status(run_id, "COMPLETED")
    records = Records(run_id)
    before = records.same("head", "phases", "statuses", "reports", "transitions", "lease")

    lost = sessions_lost(world)
    thaw(zombie)
    wait_until(lambda: sessions_lost(world) > lost, "the zombie's commit fails")

    assert records.same("head", "phases", "statuses", "reports", "transitions", "lease") == before
    call = records.call("publish_report")
    assert records.tries(call) == [("OK", 3, "person:operator")]
    assert records.wakeups == [("DECISION", "CONSUMED", 3)]
    assert world.executions(call) == 1


def sessions_lost(world: World) -> int:
    """How often workers have said that the server ended their idle transaction."""
    return sum(worker.log().count("psycopg.errors.IdleInTransactionSessionTimeout: ") for worker in world.workers)
