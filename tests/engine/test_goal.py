"""Revising the goal of a run, which takes back what was asked; and releasing what it promised."""

from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent
from approvals.errors import AlreadyDecided, StaleRevision, Superseded
from approvals.models import Decision, Wait
from approvals.services import Decided
from checkpoints.errors import GoalMoved, GoalUnchanged, ObligationClosed
from checkpoints.models import Checkpoint, Intent, Obligation
from checkpoints.selectors import current_intent, load_head
from receipts.models import ModelCall
from runs.errors import RunEnded, RunHeldByWorker
from runs.leases import lease_acquire, lease_lock
from runs.models import Wakeup
from runs.states import Holding
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.services import GoalRevised, Released, RunUnreadable, goal_revise
from runtime.tasks import sweep
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    added,
    call_named,
    counts,
    expire_lease,
    head_of,
    kill,
    lease_of,
    open_wait,
    people,
    phases,
    run_now,
    shown,
    sql,
)
from tests.engine.races import Aside, gate_at, terminate, together, undone
from tests.scripted import SCRIPT, calls

GOAL = "Do it, and say why."


def wakeups_of(run_id: UUID) -> list[tuple[str, str]]:
    return list(Wakeup.objects.filter(run_id=run_id).order_by("created_at").values_list("cause", "status"))


def test_a_goal_that_somebody_has_revised_since_is_not_written_over(engine: Engine, wait: Wait) -> None:
    run_id = wait.run_id
    assert isinstance(engine.revise(run_id, "Do it, and publish nothing."), GoalRevised)
    late = goal_revise(actor=engine.person("otto"), run_id=run_id, goal=GOAL, reason="late", version=1)
    assert isinstance(late, GoalMoved) and "at version 2 by now, by otto-north" in late.sentence
    assert current_intent(run_id).goal == "Do it, and publish nothing."
    assert isinstance(
        goal_revise(actor=engine.person("otto"), run_id=run_id, goal=GOAL, reason="r", version=2), GoalRevised
    )


# ── what a revision does ─────────────────────────────────────────────────────


def test_a_revised_goal_supersedes_the_wait_and_asks_again_at_a_later_revision(engine: Engine, wait: Wait) -> None:
    """F17: what was posted from the page of the old wait decides nothing."""
    before = head_of(wait.run_id)
    outcome = engine.revise(wait.run_id, GOAL)
    assert outcome == GoalRevised(version=2, revision=before.revision + 1, superseded=1)
    wait.refresh_from_db()
    assert (wait.status, wait.status_reason) == ("SUPERSEDED", "the goal was revised")
    head = head_of(wait.run_id)
    assert (head.revision, head.phase, head.trigger) == (before.revision + 1, "AWAITING_APPROVAL", "INTENT")
    assert (run_now(wait.run_id).status, wakeups_of(wait.run_id)) == ("QUEUED", [("INTENT", "PENDING")])
    assert engine.hints[-1] == wait.run_id
    drive(wait.run_id)
    fresh = open_wait(wait.run_id)
    assert (fresh.tool_call_id, fresh.args_digest) == (wait.tool_call_id, wait.args_digest)
    assert (fresh.checkpoint_revision, fresh.checkpoint_digest) == (head.revision, head.digest)
    assert wakeups_of(wait.run_id) == [("INTENT", "CONSUMED")]

    late = engine.decide(wait)
    assert isinstance(late, Superseded)
    assert str(fresh.id) in late.sentence
    assert isinstance(engine.decide(fresh, seen=shown(wait)), StaleRevision)
    assert not Decision.objects.exists()
    assert open_wait(wait.run_id) == fresh

    assert isinstance(engine.decide(fresh), Decided)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_a_decision_that_was_not_used_yet_is_void_and_kept(engine: Engine, wait: Wait, verdict: str) -> None:
    engine.decide(wait, verdict)
    assert engine.revise(wait.run_id, GOAL) == GoalRevised(2, head_of(wait.run_id).revision, 1)
    wait.refresh_from_db()
    assert (wait.status, Decision.objects.get(wait=wait).verdict) == ("INVALIDATED", verdict)
    assert wakeups_of(wait.run_id) == [("DECISION", "CANCELLED"), ("INTENT", "PENDING")]
    drive(wait.run_id)
    fresh = open_wait(wait.run_id)
    assert (SCRIPT.labels("once"), call_named(wait.run_id, "a").status) == ([], "AWAITING_APPROVAL")
    assert isinstance(engine.decide(wait), AlreadyDecided)
    engine.decide(fresh)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


def test_the_goal_is_stored_and_the_model_hears_of_it_in_the_right_place(engine: Engine, wait: Wait) -> None:
    engine.revise(wait.run_id, GOAL)
    intent = Intent.objects.get(run_id=wait.run_id, version=2)
    assert (intent.goal, intent.revised_by, intent.reason) == (GOAL, "person:otto-north", "it changed")
    contract = load_head(run_now(wait.run_id)).snapshot.contract
    assert (contract.version, contract.goal) == (2, GOAL)
    drive(wait.run_id)
    engine.approve(wait.run_id)
    drive(wait.run_id)
    request = SCRIPT.requests[-1]
    assert request.goal == GOAL
    assert [message["role"] for message in request.history] == ["user", "assistant", "tool", "notice"]
    assert GOAL in request.history[-1]["text"]
    assert Checkpoint.objects.filter(run_id=wait.run_id).latest("revision").intent_version == 2


def test_a_run_that_is_queued_or_held_keeps_its_place(engine: Engine) -> None:
    queued = engine.start()
    assert engine.revise(queued, GOAL) == GoalRevised(2, 2, 0)
    assert (run_now(queued).status, phases(queued)) == ("QUEUED", ["READY_TO_DECIDE", "READY_TO_DECIDE"])
    SCRIPT.do("a", ToolUnknown("no answer"))
    held = engine.run(calls(("once", "a")))
    engine.approve(held)
    drive(held)
    assert engine.revise(held, GOAL) == GoalRevised(2, head_of(held).revision, 0)
    assert (run_now(held).status, head_of(held).phase) == ("HELD", "AWAITING_TOOL_RESULT")
    engine.reconcile(call_named(held, "a"), "EXECUTED")
    drive(held)
    assert (run_now(held).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


def test_a_turn_that_is_asked_again_after_a_revision_records_what_it_was_asked(engine: Engine, at_point: At) -> None:
    run_id = engine.start()
    sql("UPDATE runs_run SET max_takeovers = 0 WHERE id = %s", run_id)
    at_point("after_model_dispatch_commit", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    assert run_now(run_id).hold_reason == "TAKEOVER_LIMIT"
    first = ModelCall.objects.get().request_digest
    engine.revise(run_id, GOAL)
    engine.resume(run_id)
    drive(run_id)
    turn = ModelCall.objects.get()
    assert (turn.status, turn.attempts, SCRIPT.requests[-1].goal) == ("SEALED", 2, GOAL)
    assert turn.request_digest != first


def test_a_goal_can_be_revised_again_and_again(engine: Engine, wait: Wait) -> None:
    for n in range(2, 6):
        outcome = engine.revise(wait.run_id, f"goal {n}")
        assert isinstance(outcome, GoalRevised)
        assert outcome.version == n
        if n % 2:
            drive(wait.run_id)
    assert list(Wait.objects.order_by("opened_at").values_list("status", flat=True)) == [
        "SUPERSEDED",
        "SUPERSEDED",
        "OPEN",
    ]
    assert len(set(wakeups_of(wait.run_id))) == 1


def test_a_person_passes_the_fence_so_that_a_worker_from_before_writes_nothing(engine: Engine) -> None:
    run_id = engine.start()
    holding = lease_acquire(run_id=run_id, owner="w1")
    assert holding is not None
    sql("UPDATE runs_run SET status = 'QUEUED' WHERE id = %s", run_id)
    sql("UPDATE runs_lease SET owner = NULL, expires_at = NULL WHERE run_id = %s", run_id)
    assert isinstance(engine.revise(run_id, GOAL), GoalRevised)
    assert (lease_of(run_id).owner, lease_of(run_id).fence) == (None, 2)
    assert Checkpoint.objects.get(run_id=run_id, revision=2).fence == 2
    with undone():
        assert lease_lock(holding) is None


# ── what is refused ──────────────────────────────────────────────────────────


def assert_refused_without_trace(run_id: UUID, refused: type[Refused], act: Any) -> Refused:
    before = counts()
    outcome = act()
    assert isinstance(outcome, refused), outcome
    assert added(before) == {"accounts_auditevent": 1}
    assert AuditEvent.objects.latest("id").detail["code"] == refused.code
    return outcome


MAY_NOT: list[tuple[str, str, type[Refused]]] = [
    (GOAL, "ann", NotAllowed),
    (GOAL, "vera", NotAllowed),
    ("", "otto", Invalid),
    ("  ", "otto", Invalid),
    ("x" * 4001, "otto", Invalid),
    ("a\0", "otto", Invalid),
    ("a\ud800", "otto", Invalid),
    ("Do what the test has told.", "otto", GoalUnchanged),
    (" Do what the test has told. ", "otto", GoalUnchanged),
]


def test_a_goal_that_may_not_be_set_changes_nothing(engine: Engine, wait: Wait) -> None:
    for goal, by, refused in MAY_NOT:
        assert_refused_without_trace(wait.run_id, refused, partial(engine.revise, wait.run_id, goal, by))
    assert open_wait(wait.run_id) == wait


def test_a_run_that_a_worker_holds_or_that_has_ended_is_not_revised(engine: Engine) -> None:
    run_id = engine.start()
    assert lease_acquire(run_id=run_id, owner="w1")
    assert_refused_without_trace(run_id, RunHeldByWorker, lambda: engine.revise(run_id, GOAL))
    ended = engine.run()
    assert_refused_without_trace(ended, RunEnded, lambda: engine.revise(ended, GOAL))


def test_a_run_whose_head_can_not_be_read_is_not_revised(engine: Engine, wait: Wait) -> None:
    sql("UPDATE checkpoints_checkpoint SET body = '' WHERE run_id = %s", wait.run_id)
    assert_refused_without_trace(wait.run_id, RunUnreadable, lambda: engine.revise(wait.run_id, GOAL))


def test_a_run_of_another_tenant_is_not_there(engine: Engine, wait: Wait) -> None:
    with pytest.raises(NotFound):
        Engine(people("south")).revise(wait.run_id, GOAL)


# ── at the same instant ──────────────────────────────────────────────────────


def test_a_decision_and_a_revision_at_once_never_run_what_was_taken_back(engine: Engine) -> None:
    for _ in range(8):
        wait = open_wait(engine.run(calls(("once", "a"))))
        decided, revised = together(partial(engine.decide, wait), partial(engine.revise, wait.run_id, GOAL))
        assert isinstance(revised, GoalRevised)
        assert isinstance(decided, Decided | Superseded)
        wait.refresh_from_db()
        assert wait.status == ("INVALIDATED" if isinstance(decided, Decided) else "SUPERSEDED")
        drive(wait.run_id)
        assert open_wait(wait.run_id).checkpoint_revision == revised.revision
    assert SCRIPT.labels("once") == []


def test_revisions_at_once_are_numbered_one_after_the_other(engine: Engine, wait: Wait) -> None:
    outcomes = together(*[partial(engine.revise, wait.run_id, f"goal {n}") for n in range(8)])
    assert sorted(outcome.version for outcome in outcomes if isinstance(outcome, GoalRevised)) == list(range(2, 10))
    assert list(Intent.objects.order_by("version").values_list("version", flat=True)) == list(range(1, 10))
    assert load_head(run_now(wait.run_id)).snapshot.contract.version == 9


def test_a_worker_and_a_revision_at_once_follow_each_other(engine: Engine) -> None:
    for n in range(6):
        run_id = engine.start()
        holding, revised = together(
            partial(lease_acquire, run_id=run_id, owner="w1"), partial(engine.revise, run_id, f"goal {n}")
        )
        assert isinstance(holding, Holding)
        assert isinstance(revised, RunHeldByWorker) == (holding.fence == 1)


@pytest.mark.parametrize("place", ["waits_supersede", "goal_store", "message_append", "snapshot_save", "audit"])
def test_a_revision_that_is_cut_off_leaves_nothing(
    engine: Engine, wait: Wait, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, head = counts(), head_of(wait.run_id).revision
    with monkeypatch.context() as patch:
        gate = gate_at(patch, import_module("runtime.services.goal"), place)
        cut = Aside(lambda: engine.revise(wait.run_id, GOAL))
        gate.wait_reached()
        terminate(cut.pid)
        gate.open()
        assert isinstance(cut.error(), DatabaseError)
    assert added(before) == {}
    assert (open_wait(wait.run_id), head_of(wait.run_id).revision) == (wait, head)


# ── promises ─────────────────────────────────────────────────────────────────


def unfulfilled(engine: Engine) -> UUID:
    """A run that is at its end but for one promise."""
    run_id = engine.run(agent="promising")
    run = run_now(run_id)
    assert (run.status, run.hold_reason, phases(run_id)[-1]) == ("HELD", "OBLIGATION_OPEN", "READY_TO_VERIFY")
    assert "Do it once." in run.hold_detail
    return run_id


def test_a_promise_is_fulfilled_by_its_step_and_lets_the_run_complete(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "promised")), agent="promising")
    engine.approve(run_id)
    drive(run_id)
    obligation = Obligation.objects.get(run_id=run_id)
    assert (obligation.status, obligation.fulfilled_by) == ("FULFILLED", call_named(run_id, "promised").id)
    assert run_now(run_id).status == "COMPLETED"
    assert load_head(run_now(run_id)).snapshot.contract.obligations[0].status == "FULFILLED"
    assert isinstance(engine.release(run_id), ObligationClosed)


def test_a_run_with_an_open_promise_is_held_until_it_is_released(engine: Engine) -> None:
    run_id = unfulfilled(engine)
    sweep()
    drive(run_id)
    assert run_now(run_id).status == "HELD"
    assert isinstance(engine.release(run_id), Released)
    assert (run_now(run_id).status, engine.hints[-1]) == ("QUEUED", run_id)
    drive(run_id)
    obligation = Obligation.objects.get(run_id=run_id)
    assert (obligation.status, obligation.released_by) == ("RELEASED", "person:rita-north")
    assert obligation.release_reason == "not needed any more"
    assert (run_now(run_id).status, wakeups_of(run_id)) == ("COMPLETED", [("RESUME", "CONSUMED")])
    assert load_head(run_now(run_id)).snapshot.contract.obligations[0].status == "RELEASED"
    assert_refused_without_trace(run_id, ObligationClosed, lambda: engine.release(run_id))


def test_a_promise_released_early_does_not_hold_the_run(engine: Engine) -> None:
    run_id = engine.start("promising")
    assert isinstance(engine.release(run_id), Released)
    assert run_now(run_id).status == "QUEUED"
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_one_of_two_promises_is_not_enough(engine: Engine) -> None:
    run_id = unfulfilled(engine)
    Obligation.objects.create(tenant=engine.tenant, run_id=run_id, statement="And this.", step_name="once/other")
    assert isinstance(engine.release(run_id), Released)
    assert run_now(run_id).status == "HELD"
    sweep()
    drive(run_id)
    assert (run_now(run_id).status, run_now(run_id).hold_detail) == ("HELD", "Promised, and not done yet: “And this.”")


def test_a_promise_of_an_ended_run_is_released_without_waking_it(engine: Engine) -> None:
    run_id = unfulfilled(engine)
    engine.stop(run_id)
    assert isinstance(engine.release(run_id), Released)
    assert (run_now(run_id).status, wakeups_of(run_id)) == ("CANCELLED", [])


@pytest.mark.parametrize("by", ["otto", "vera"])
def test_who_may_not_release_is_refused(engine: Engine, by: str) -> None:
    run_id = unfulfilled(engine)
    assert_refused_without_trace(run_id, NotAllowed, lambda: engine.release(run_id, by))


def test_a_promise_of_another_tenant_is_not_there(engine: Engine) -> None:
    run_id = unfulfilled(engine)
    with pytest.raises(NotFound):
        Engine(people("south")).release(run_id)


def test_a_release_that_comes_before_the_run_is_held_is_not_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 27: the commit that holds the run finds its blocker gone, and queues it instead."""
    run_id = engine.start("promising")
    gate = gate_at(monkeypatch, import_module("runtime.loop.verify"), "park")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    assert isinstance(engine.release(run_id), Released)
    gate.open()
    worker.result()
    assert run_now(run_id).status == "QUEUED"
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_two_that_release_at_once_release_it_once(engine: Engine) -> None:
    run_id = unfulfilled(engine)
    outcomes = together(*[partial(engine.release, run_id, by) for by in ("rita", "ann", "rolf", "olga")])
    assert [type(outcome) for outcome in outcomes].count(Released) == 1
    assert [type(outcome) for outcome in outcomes].count(ObligationClosed) == 3
