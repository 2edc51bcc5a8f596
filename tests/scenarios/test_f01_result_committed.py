"""F01: the result is committed, then the worker is killed. The stored result is used, never asked for again."""

from uuid import UUID

import pytest

from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process

READ, ASKED_NEXT = "fetch_reference", 6


def killed_after_the_result(world: World, policy: str) -> UUID:
    """Start a run whose worker dies when the reading of the sheet has been committed."""
    killed = world.kill_at("after_result_commit", READ)
    run_id = world.start_run(policy=policy)
    killed.wait()
    return run_id


def test_the_next_worker_goes_on_from_the_stored_result(world: World) -> None:
    run_id = killed_after_the_result(world, "RESUME_IN_PLACE")
    records = Records(run_id)
    at_the_fault = records.head
    assert at_the_fault[1] == "TOOL_RESULT_RECORDED"

    world.approve(world.open_wait(run_id))
    world.wait_status(run_id, "COMPLETED")

    assert records.run.takeovers == 1
    assert records.transitions == [
        ("QUEUED", "ADMITTED", None),
        ("RUNNING", "ACQUIRED", 1),
        ("RUNNING", "TAKEOVER", 2),
        ("WAITING", "WAIT_OPENED", 2),
        ("QUEUED", "DECISION", None),
        ("RUNNING", "ACQUIRED", 3),
        ("COMPLETED", "FINISHED", 3),
    ]
    assert (records.lease.owner, records.lease.fence) == (None, 3)
    revision = at_the_fault[0]
    assert records.phases[revision - 1 :] == [
        ("TOOL_RESULT_RECORDED", 1),
        ("DECISION_RECORDED", 2),
        ("AWAITING_APPROVAL", 2),
        ("AWAITING_TOOL_RESULT", 3),
        ("TOOL_RESULT_RECORDED", 3),
        ("READY_TO_VERIFY", 3),
        ("FINISHED", 3),
    ]
    read = records.call(READ)
    assert (read.status, records.tries(read)) == ("SUCCEEDED", [("OK", 1, "policy:builtin-1")])
    assert records.result(read) == ("LIVE", True, 1, 1)
    assert world.readings(read) == 1
    assert records.budget(read) == [(1, "RESERVE", 1), (1, "SETTLE", 1)]
    # The next request was committed with the result and perhaps sent: it alone is asked twice (ruling 2).
    assert [attempts for _, attempts in records.turns] == [1, 1, 1, 1, 1, 2, 1]
    asked = records.turn(ASKED_NEXT)
    assert records.tries(asked) == [("NO_RESPONSE", 1, "agent"), ("OK", 2, "agent")]
    assert records.budget(asked, "model_calls") == [
        (1, "RESERVE", 1),
        (1, "HOLD_UNKNOWN", 1),
        (2, "RESERVE", 1),
        (2, "SETTLE", 1),
    ]
    assert records.refusals == []


def test_a_run_that_settles_ends_by_what_is_known(world: World) -> None:
    run_id = killed_after_the_result(world, "SETTLE")
    records = Records(run_id)
    at_the_fault = records.head

    run = world.wait_status(run_id, "SETTLED")

    assert run.settlement == {
        "known_calls": 5,
        "unknown_calls": 0,
        "unknown_turns": 1,
        "reports": [{"channel": "console", "slug": "overlap", "version": 1}],
        "open_obligations": ["publish_report/overlap-v2"],
    }
    assert records.transitions[-2:] == [("RUNNING", "TAKEOVER", 2), ("SETTLED", "SETTLED", 2)]
    assert records.head == at_the_fault
    assert records.lease.owner is None
    assert len(records.turns) == ASKED_NEXT
    assert records.tries(records.turn(ASKED_NEXT)) == [("NO_RESPONSE", 1, "agent")]
    assert records.statuses[f"{READ}/sheet"] == ("SUCCEEDED", 1)
    assert records.reports == [(1, "console", "PUBLISHED")]
    assert world.readings(records.call(READ)) == 1
