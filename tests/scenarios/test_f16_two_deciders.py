"""F16: two operators decide one wait at the same time, one approving, one rejecting. One decision, whoever wins."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from threading import Barrier
from uuid import UUID

import pytest
from django.db import connection

from accounts.errors import Refused
from accounts.selectors import audit_of
from approvals.errors import AlreadyDecided
from approvals.models import Wait
from approvals.services import Decided, Voted
from tests.scenarios.records import Records
from tests.scenarios.world import APPROVER, SECOND_APPROVER, World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

REPETITIONS = 50
STEP = "publish_report/overlap-v2"
DECIDERS = {APPROVER: "APPROVE", SECOND_APPROVER: "REJECT"}
Outcome = Decided | Voted | Refused


def test_fifty_races_have_one_winner_each(world: World) -> None:
    world.stop_beat()  # fifty queued runs would be hinted at again and again
    run_ids = [world.start_run() for _ in range(REPETITIONS)]
    races = [race(world, run_id, first) for run_id, first in zip(run_ids, cycle(DECIDERS), strict=False)]
    for run_id, (wait, outcomes) in zip(run_ids, races, strict=True):
        winner, loser = sorted(outcomes, key=lambda outcome: isinstance(outcome, Refused))
        assert isinstance(winner, Decided)
        assert_loser_is_told(winner, loser)
        assert_both_audited(world, wait, winner)
        (approved if winner.verdict == "APPROVE" else rejected)(world, run_id, winner)
    winners = {next(o.verdict for o in outcomes if isinstance(o, Decided)) for _, outcomes in races}
    assert winners == {"APPROVE", "REJECT"}, "the same side won every race: they did not meet"


def race(world: World, run_id: UUID, first: str) -> tuple[Wait, list[Outcome]]:
    """Both decide at the same instant, each on a connection of its own; `first` is the thread that starts first."""
    wait, together = world.open_wait(run_id), Barrier(len(DECIDERS))

    def decider(name: str, verdict: str) -> Callable[[], Outcome]:
        def decide() -> Outcome:
            try:
                connection.ensure_connection()
                together.wait(timeout=10)
                return world.decide(wait, verdict, by=name)
            finally:
                connection.close()

        return decide

    with ThreadPoolExecutor(len(DECIDERS)) as pool:
        starting = sorted(DECIDERS.items(), key=lambda item: item[0] != first)
        deciding = [pool.submit(decider(name, verdict)) for name, verdict in starting]
        return wait, [decided.result() for decided in deciding]


def assert_loser_is_told(winner: Decided, loser: Outcome) -> None:
    assert isinstance(loser, AlreadyDecided)
    assert loser.status == 409
    assert winner.by.partition(":")[2] in loser.sentence
    assert ("approved" if winner.verdict == "APPROVE" else "rejected") in loser.sentence


def assert_both_audited(world: World, wait: Wait, winner: Decided) -> None:
    events = audit_of(tenant_id=world.tenant.id, object_type="wait", object_id=str(wait.id))
    assert [event.action for event in events] == ["wait.decide", "wait.decide.refused"]
    assert (events[0].actor, events[0].detail["verdict"]) == (winner.by, winner.verdict)
    assert events[1].detail["code"] == "ALREADY_DECIDED"
    assert {event.actor for event in events} == {f"person:{name}" for name in DECIDERS}


def approved(world: World, run_id: UUID, winner: Decided) -> None:
    world.wait_status(run_id, "COMPLETED")
    records = assert_decided_once(run_id, winner)
    assert records.statuses[STEP] == ("SUCCEEDED", 1)
    assert world.executions(records.call("publish_report")) == 1


def rejected(world: World, run_id: UUID, winner: Decided) -> None:
    wait_until(lambda: Records(run_id).run.hold_reason == "OBLIGATION_OPEN", f"run {run_id} is held by its promise")
    records = assert_decided_once(run_id, winner)
    assert records.statuses[STEP] == ("REJECTED", 0)
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "FAILED")]
    assert world.executions(records.call("publish_report")) == 0


def assert_decided_once(run_id: UUID, winner: Decided) -> Records:
    records = Records(run_id)
    assert records.decisions == [(winner.verdict, winner.by)]
    assert [wait.status for wait in records.waits] == ["CONSUMED"]
    assert records.wakeups == [("DECISION", "CONSUMED", 2)]
    return records
