"""Waits are bound to a head that does not move meanwhile; wakeups are heard once, and whoever wrote them."""

from functools import partial
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from accounts.errors import Refused
from accounts.selectors import actor_named
from approvals.errors import AlreadyDecided, ArgsChanged, CheckpointDiffers, Expired, StaleRevision
from approvals.models import Decision, Wait
from approvals.policies import Demand, Ruling
from approvals.services import (
    Decided,
    Seen,
    Voted,
    wait_consume,
    wait_expire,
    waits_cancel,
    waits_supersede,
)
from approvals.states import DecisionVerdict, OnDeadline, PolicyOutcome, Risk
from checkpoints.services import head_lock
from receipts.services import calls_cancel
from runs.leases import lease_pass
from runs.models import Run, Wakeup
from runs.services import run_lock, run_move
from runs.states import RunStatus, WakeupCause
from runs.wakeups import wakeup_pending, wakeup_write, wakeups_cancel, wakeups_consume, wakeups_refuse
from runtime.services import wait_decide
from tests.contract.refusals import refused
from tests.contract.store import Store, Worker, stored
from tests.engine.engine import pass_deadline, sql
from tests.engine.races import Aside, together, uncommitted, undone


def waiting(worker: Worker, *labels: str) -> list[Wait]:
    """One wait for each call, and the run parked for them."""
    calls = [worker.new_call(label, effect="NON_IDEMPOTENT", send=False) for label in labels or ("a",)]
    worker.turn_with(*calls)
    waits = [worker.open_wait(call) for call in calls]
    with worker.held() as run:
        run_move(run, RunStatus.WAITING, cause="WAIT_OPENED", actor="worker:w1", fence=worker.holding.fence)
    return waits


def decide(wait: Wait, verdict: str = "APPROVE", seen: Seen | None = None) -> Decided | Voted | Refused:
    return wait_decide(
        actor=actor_named(username="ann-north", door="page"),
        wait_id=wait.id,
        verdict=DecisionVerdict(verdict),
        seen=seen or Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest),
        reason="I read it",
    )


def status(worker: Worker) -> str:
    return Run.objects.get(id=worker.run.id).status


def test_a_wait_is_bound_to_the_head_the_call_and_its_arguments(worker: Worker) -> None:
    (wait,) = waiting(worker)
    assert (wait.checkpoint_revision, wait.checkpoint_digest) == (worker.position.revision, worker.position.digest)
    assert wait.args_digest == wait.tool_call.args_digest
    assert (wait.status, wait.opened_fence, wait.required_role) == ("OPEN", 1, "approver")


def test_a_wait_has_its_time_by_the_database(settings: Settings, store: Store) -> None:
    settings.WAIT_DEADLINE_SECONDS = 1000
    (wait,) = waiting(store.worker())
    wait.refresh_from_db()
    assert 999 < (wait.deadline - wait.opened_at).total_seconds() < 1001


def test_a_wait_keeps_what_its_rule_demands_of_people(worker: Worker) -> None:
    asked: dict[str, Any] = {
        "quorum": 2,
        "required_group": "finance",
        "starter_may_decide": False,
        "dwell_seconds": 30,
        "step_up": True,
    }
    asked |= {"risk": Risk.HIGH, "on_deadline": OnDeadline.REJECT, "validity_seconds": 60, "reminder_seconds": 600}
    asked |= {"escalate_seconds": 1200, "escalate_to": "group:board"}
    call = worker.new_call("a", effect="NON_IDEMPOTENT", send=False)
    worker.turn_with(call)
    ruling = Ruling(PolicyOutcome.REQUIRE_APPROVAL, "two of finance", Demand(**asked, deadline_seconds=90), "v7")
    wait = worker.open_wait(call, ruling)
    wait.refresh_from_db()
    assert {name: getattr(wait, name) for name in asked} == asked
    assert 89 < (wait.deadline - wait.opened_at).total_seconds() < 91
    assert (wait.policy_version, wait.policy_rule) == ("v7", "two of finance")


@pytest.mark.parametrize(
    "unsound", ["quorum = 0", "risk = 'NONE'", "on_deadline = 'APPROVE'", "escalate_seconds = 5", "dwell_seconds = -1"]
)
def test_a_demand_that_makes_no_sense_is_refused_by_the_database(worker: Worker, unsound: str) -> None:
    (wait,) = waiting(worker)
    with undone():
        sql("ALTER TABLE approvals_wait DISABLE TRIGGER USER")
        said = refused(lambda: sql(f"UPDATE approvals_wait SET {unsound} WHERE id = %s", wait.id))
    assert "violates check constraint" in said


def test_a_wait_can_not_be_bound_to_a_revision_that_is_not_there(worker: Worker) -> None:
    (wait,) = waiting(worker)
    wait.pk, wait.checkpoint_revision = None, 99
    assert refused(wait.save)


def test_a_call_has_one_live_wait(worker: Worker) -> None:
    call = worker.new_call(effect="NON_IDEMPOTENT", send=False)
    worker.turn_with(call)
    worker.open_wait(call)
    assert "one_live_wait_per_call" in refused(lambda: worker.open_wait(call))


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_a_decision_is_stored_with_what_was_seen(worker: Worker, verdict: str) -> None:
    (wait,) = waiting(worker)
    assert isinstance(decide(wait, verdict), Decided)
    decision = Decision.objects.get(wait=wait)
    assert (decision.verdict, decision.seen_revision) == (verdict, wait.checkpoint_revision)
    assert (decision.seen_digest, decision.seen_args_digest) == (wait.checkpoint_digest, wait.args_digest)


def test_a_decision_queues_the_run_and_leaves_a_wakeup(worker: Worker) -> None:
    (wait,) = waiting(worker)
    decide(wait)
    wakeup = Wakeup.objects.get(run=worker.run)
    assert (status(worker), wakeup.cause, wakeup.wait_id, wakeup.status) == ("QUEUED", "DECISION", wait.id, "PENDING")


def test_a_barrier_is_queued_by_its_last_decision(worker: Worker) -> None:
    a, b = waiting(worker, "a", "b")
    decide(a)
    assert status(worker) == "WAITING"
    decide(b, "REJECT")
    assert status(worker) == "QUEUED"


def test_the_last_two_decisions_at_once_queue_the_run(store: Store) -> None:
    """Ruling 26: who is last is read under the lock of the run."""
    for _ in range(5):
        worker = store.worker()
        a, b = waiting(worker, "a", "b")
        together(partial(decide, a), partial(decide, b))
        assert status(worker) == "QUEUED"


def test_of_two_decisions_the_second_is_told_of_the_first(worker: Worker) -> None:
    (wait,) = waiting(worker)
    decide(wait)
    assert isinstance(decide(wait, "REJECT"), AlreadyDecided)
    assert Decision.objects.get(wait=wait).verdict == "APPROVE"


def test_of_many_decisions_at_once_one_is_stored(worker: Worker) -> None:
    (wait,) = waiting(worker)
    outcomes = together(*(partial(decide, wait, ("APPROVE", "REJECT")[n % 2]) for n in range(8)))
    assert [type(outcome) for outcome in outcomes].count(Decided) == 1
    assert Decision.objects.filter(wait=wait).count() == 1


@pytest.mark.parametrize(
    ("part", "error"), [("revision", StaleRevision), ("digest", CheckpointDiffers), ("args_digest", ArgsChanged)]
)
def test_what_was_not_seen_is_not_decided(worker: Worker, part: str, error: type) -> None:
    (wait,) = waiting(worker)
    seen = {"revision": wait.checkpoint_revision, "digest": wait.checkpoint_digest, "args_digest": wait.args_digest}
    other = 1 if part == "revision" else "f" * 64
    assert isinstance(decide(wait, seen=Seen(**(seen | {part: other}))), error)  # type: ignore[arg-type]
    assert Wait.objects.get(id=wait.id).status == "OPEN"


def test_after_its_deadline_a_wait_is_not_decided_though_nobody_swept(worker: Worker) -> None:
    """B25."""
    (wait,) = waiting(worker)
    pass_deadline(wait)
    assert isinstance(decide(wait), Expired)
    assert not Decision.objects.filter(wait=wait).exists()


def test_an_expiry_queues_the_run_and_leaves_a_wakeup(worker: Worker) -> None:
    (wait,) = waiting(worker)
    pass_deadline(wait)
    assert wait_expire(wait_id=wait.id)
    assert not wait_expire(wait_id=wait.id)
    assert (status(worker), Wakeup.objects.get(run=worker.run).cause) == ("QUEUED", "TIMER")


def test_a_wait_before_its_deadline_does_not_expire(worker: Worker) -> None:
    (wait,) = waiting(worker)
    assert not wait_expire(wait_id=wait.id)
    assert Wait.objects.get(id=wait.id).status == "OPEN"


def test_a_wait_is_consumed_once_under_a_fence(store: Store, worker: Worker) -> None:
    (wait,) = waiting(worker)
    decide(wait)
    taker = store.worker(worker.run)
    wait.refresh_from_db()
    with taker.held():
        assert wait_consume(wait, fence=taker.holding.fence)
        assert not wait_consume(wait, fence=taker.holding.fence)
    wakeup = Wakeup.objects.get(run=worker.run)
    assert (wakeup.status, wakeup.consumed_fence) == ("CONSUMED", 2)


def test_an_approval_that_has_lapsed_is_not_consumed(settings: Settings, store: Store, worker: Worker) -> None:
    settings.WAIT_VALIDITY_SECONDS = 0
    (wait,) = waiting(worker)
    decide(wait)
    wait.refresh_from_db()
    with store.worker(worker.run).held():
        assert not wait_consume(wait, fence=2)


def test_a_head_can_move_once_its_waits_are_consumed(store: Store, worker: Worker) -> None:
    (wait,) = waiting(worker)
    decide(wait)
    taker = store.worker(worker.run)
    wait.refresh_from_db()
    with taker.held():
        wait_consume(wait, fence=taker.holding.fence)
    assert taker.save("AWAITING_TOOL_RESULT").revision == worker.position.revision + 1


def test_superseding_takes_back_what_is_open_and_what_is_decided(worker: Worker) -> None:
    """Ruling 30: the decision stays as evidence, and its wakeup is cancelled."""
    a, b = waiting(worker, "a", "b")
    decide(a)
    with transaction.atomic():
        lease_pass(worker.run.id, "person:olga")
        run = run_lock(worker.run.id)
        head_lock(run.id)
        assert waits_supersede(run=run, cause=WakeupCause.INTENT, why="the goal was revised") == 2
    assert [Wait.objects.get(id=wait.id).status for wait in (a, b)] == ["INVALIDATED", "SUPERSEDED"]
    assert Decision.objects.filter(wait=a).exists()
    causes = Wakeup.objects.filter(run=worker.run).order_by("created_at").values_list("cause", "status")
    assert sorted(causes) == [("DECISION", "CANCELLED"), ("INTENT", "PENDING"), ("INTENT", "PENDING")]


def test_a_superseded_call_can_be_asked_about_anew(store: Store, worker: Worker) -> None:
    (wait,) = waiting(worker)
    with transaction.atomic():
        lease_pass(worker.run.id, "person:olga")
        run = run_lock(worker.run.id)
        waits_supersede(run=run, cause=WakeupCause.INTENT, why="the goal was revised")
        run_move(run, RunStatus.QUEUED, cause="GOAL_REVISED", actor="person:olga")
    taker = store.worker(worker.run)
    fresh = taker.open_wait_of(wait.tool_call_id)
    assert (fresh.status, Wait.objects.get(id=wait.id).status) == ("OPEN", "SUPERSEDED")
    assert stored_status(fresh) == "AWAITING_APPROVAL"


def stored_status(wait: Wait) -> str:
    wait.tool_call.refresh_from_db()
    return wait.tool_call.status


def test_a_cancelled_run_leaves_no_live_wait_call_or_wakeup(worker: Worker) -> None:
    """B26, B28."""
    (wait,) = waiting(worker)
    decide(wait)
    with transaction.atomic():
        run = run_lock(worker.run.id)
        assert calls_cancel(run_id=run.id, why="stopped") == 1
        assert waits_cancel(run_id=run.id, why="stopped") == 1
        wakeups_cancel(run_id=run.id)
        run_move(run, RunStatus.CANCELLED, cause="STOPPED", actor="person:olga")
    assert Wait.objects.get(id=wait.id).status == "CANCELLED"
    assert not wakeup_pending(run_id=worker.run.id, causes=frozenset(WakeupCause))
    assert stored_status(wait) == "CANCELLED"


def test_a_decision_waits_for_a_stop_that_is_being_committed(worker: Worker) -> None:
    (wait,) = waiting(worker)
    with uncommitted():
        run = run_lock(worker.run.id)
        waits_cancel(run_id=run.id, why="stopped")
        late = Aside(partial(decide, wait))
        late.wait_blocked()
    assert isinstance(late.result(), Refused)
    assert not Decision.objects.filter(wait=wait).exists()


@pytest.mark.parametrize("cause", list(WakeupCause))
def test_every_cause_is_stored_and_heard(store: Store, cause: WakeupCause) -> None:
    run = store.admit()
    wakeup_write(tenant_id=store.tenant.id, run_id=run.id, cause=cause, dedupe_key=f"{cause}:{run.id}")
    assert wakeup_pending(run_id=run.id, causes=frozenset({cause}))
    assert not wakeup_pending(run_id=run.id, causes=frozenset(WakeupCause) - {cause})


def test_only_the_causes_that_are_named_are_consumed(store: Store) -> None:
    run = store.admit()
    for cause in (WakeupCause.RESUME, WakeupCause.TIMER):
        wakeup_write(tenant_id=store.tenant.id, run_id=run.id, cause=cause, dedupe_key=f"{cause}:{run.id}")
    assert wakeups_consume(run_id=run.id, fence=3, causes=frozenset({WakeupCause.RESUME})) == 1
    assert sorted(run.wakeups.values_list("cause", "status")) == [("RESUME", "CONSUMED"), ("TIMER", "PENDING")]


def test_a_refused_wakeup_is_not_heard_again(store: Store) -> None:
    run = store.admit()
    wakeup_write(tenant_id=store.tenant.id, run_id=run.id, cause=WakeupCause.RESUME, dedupe_key=f"x:{run.id}")
    wakeups_refuse(run_id=run.id)
    assert not wakeup_pending(run_id=run.id, causes=frozenset(WakeupCause))


def test_a_wakeup_that_is_rolled_back_was_never_there(store: Store) -> None:
    run = store.admit()
    with transaction.atomic():
        wakeup_write(tenant_id=store.tenant.id, run_id=run.id, cause=WakeupCause.RESUME, dedupe_key=f"y:{run.id}")
        transaction.set_rollback(True)
    assert not run.wakeups.exists()


def test_a_call_that_is_asked_about_is_not_sent_without_the_head(worker: Worker) -> None:
    """While its wait is live, a dispatch of it can't move the head, so nothing of it is written."""
    call = worker.new_call(effect="NON_IDEMPOTENT", send=False)
    worker.turn_with(call)
    worker.open_wait(call)
    assert "frozen while a wait is live" in refused(lambda: worker.dispatch(call))
    assert (stored(call).status, stored(call).attempts) == ("AWAITING_APPROVAL", 0)
