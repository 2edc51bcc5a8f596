"""X02 and X03, on real processes: what one run has done to the outside world is not done again by a run that goes on from it."""

from uuid import UUID

import pytest

from receipts.models import Result
from runtime.services import Reconciled, Started, SuccessorRequest, run_continue, run_fork, run_replay
from tests.engine.engine import added, counts
from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

POST, STEP = "publish_report", "publish_report/overlap-v2"


def made(outcome: object) -> UUID:
    assert isinstance(outcome, Started), outcome
    return outcome.run_id


def test_a_fork_reuses_the_publication_of_its_source(world: World) -> None:
    source, wait = world.run_to_wait()
    world.approve(wait)
    world.wait_status(source, "COMPLETED")
    before = Records(source)
    told = (before.run, before.head, before.statuses, before.reports, before.transitions)
    wanted = SuccessorRequest("look at it again")
    fork = made(run_fork(actor=world.person(), run_id=source, revision=3, wanted=wanted))

    world.wait_status(fork, "COMPLETED")

    records = Records(fork)
    assert records.run.forked_from_id == source and records.run.lineage_id == source
    assert records.statuses[STEP] == ("SUCCEEDED", 0)
    assert Result.objects.get(tool_call=records.call(POST)).source == "REUSED"
    assert records.waits == [] and records.decisions == []
    assert world.executions(before.call(POST)) == 1
    assert world.executions(records.call(POST)) == 0
    assert (before.run, before.head, before.statuses, before.reports, before.transitions) == told


def test_a_continued_run_waits_for_what_nobody_knows_and_reuses_what_a_person_found(world: World) -> None:
    """T07, ruling 34: the ancestor's worker died with the answer, and the ancestor was stopped."""
    source, wait = world.run_to_wait()
    killed = world.kill_at("after_send")
    world.approve(wait)
    killed.wait()
    world.wait_status(source, "HELD")
    unknown = Records(source).call(POST)
    wait_until(lambda: world.executions(unknown) == 1, "the wiki has executed the post")
    world.stop(source)
    run_id = made(run_continue(actor=world.person(), run_id=source, wanted=SuccessorRequest("it is still wanted")))

    held = world.wait_status(run_id, "HELD")

    assert held.hold_reason == "UNCERTAIN_CALL" and str(unknown.id) in held.hold_detail
    records = Records(run_id)
    assert records.statuses[STEP] == ("PROPOSED", 0)
    assert ("ANCESTOR_INTENT", unknown.id) in list(records.run.refusals.values_list("kind", "subject_id"))
    said = world.reconcile(unknown, "EXECUTED", ref="seen on the wiki")
    assert isinstance(said, Reconciled)

    world.wait_status(run_id, "COMPLETED")

    assert records.statuses[STEP] == ("SUCCEEDED", 0)
    assert ("QUEUED", "ANCESTOR_SETTLED") in [(to, cause) for to, cause, _ in records.transitions]
    assert world.executions(unknown) == 1
    assert world.executions(records.call(POST)) == 0
    assert [promise.status for promise in records.run.obligations.filter(step_name=STEP)] == ["FULFILLED"]
    assert Records(source).run.status == "CANCELLED"


def test_a_replay_asks_nobody_and_writes_one_row(world: World) -> None:
    run_id, wait = world.run_to_wait()
    world.approve(wait)
    world.wait_status(run_id, "COMPLETED")
    outside, before = world.outside_counts(), counts()

    replay = run_replay(actor=world.person(), run_id=run_id)

    gained = added(before)
    gained.pop("runs_traceevent", None)  # what the workers saw of the run itself is written a moment later
    assert gained == {"accounts_auditevent": 1}
    assert world.outside_counts() == outside
    names = [step.name for step in replay.steps if step.kind == "CALL" and step.call_id]
    assert names == list(Records(run_id).statuses)
