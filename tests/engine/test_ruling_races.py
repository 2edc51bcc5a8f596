"""Races of the rulings on live connections: each without what keeps it from happening, and then with it.

Which ruling is held by which test, here and elsewhere, is the table of test_rulings.py.
"""

from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, transaction

from approvals.models import Wait
from approvals.selectors import wait_is_open
from approvals.services import decide
from checkpoints.models import Commitment
from receipts.errors import VerdictGiven
from receipts.models import Attempt, Result, ToolCall
from receipts.services import call_lock
from receipts.states import LIVE_CALL
from runs.models import Budget, Wakeup
from runs.states import WakeupCause
from runs.wakeups import wakeup_pending, wakeup_write
from runtime import ending, guards
from runtime.contracts import ToolUnknown
from runtime.loop import dispatch, drive
from runtime.requeue import requeue_woken
from runtime.services import GoalRevised, Started, StartRequest, Terms, Withdrawn, commitment_withdraw, run_start
from runtime.statements import GROUND
from runtime.tasks import sweep
from tests.engine.engine import At, Engine, call_named, open_wait, run_now, sql
from tests.engine.lost import lose_answer
from tests.engine.races import Aside, gate_at, uncommitted
from tests.scripted import SCRIPT, calls


def wait_for(run_id: UUID, label: str) -> Wait:
    return Wait.objects.filter(run_id=run_id, tool_call__step_name__endswith=f"/{label}").latest("opened_at")


# ── ruling 4: everything is checked again in the commit that consumes the wait ──


def rests_on_something(engine: Engine) -> UUID:
    """An approved run that rests on an assumption, not yet continued."""
    SCRIPT.tell(calls(("once", "a")))
    wanted = StartRequest("told", {}, terms=Terms(assumptions=("The wiki is up.",)))
    outcome = run_start(actor=engine.person("olga"), wanted=wanted)
    assert isinstance(outcome, Started)
    drive(outcome.run_id)
    engine.approve(outcome.run_id)
    return outcome.run_id


def withdraw(engine: Engine, run_id: UUID) -> Any:
    commitment = Commitment.objects.get(run_id=run_id)
    return commitment_withdraw(actor=engine.person("otto"), commitment_id=commitment.id, reason="it is down")


def test_without_the_check_inside_the_commit_a_call_would_go_out_on_withdrawn_ground(
    engine: Engine, at_point: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 4: the check before is not enough, since anything may happen until the commit."""
    run_id = rests_on_something(engine)
    monkeypatch.setattr(dispatch, "_guarded", lambda *_: None)
    at_point("before_attempt_commit", lambda: _withdrawn(engine, run_id))
    drive(run_id)
    sent = Attempt.objects.get(tool_call=call_named(run_id, "a"))
    withdrawn_at = Commitment.objects.get(run_id=run_id).withdrawn_at
    assert withdrawn_at is not None
    assert withdrawn_at < sent.dispatched_at


def _withdrawn(engine: Engine, run_id: UUID) -> None:
    assert isinstance(withdraw(engine, run_id), Withdrawn)


# ── ruling 26: who is the last of a barrier ──


def two_waits(engine: Engine) -> tuple[UUID, list[Wait]]:
    run_id = engine.run(calls(("once", "a"), ("once", "b")))
    return run_id, [wait_for(run_id, label) for label in "ab"]


def test_the_last_two_decisions_at_once_queue_the_run(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ruling 26: the second looks for open waits only once it has the lock of the run."""
    run_id, (a, b) = two_waits(engine)
    gate = gate_at(monkeypatch, import_module("approvals.services.decide"), "audit_append")
    first = Aside(partial(engine.decide, a, "APPROVE", "ann"))
    gate.wait_reached()
    second = Aside(partial(engine.decide, b, "REJECT", "abe"))
    second.wait_blocked()
    gate.open()
    first.result(), second.result()
    assert run_now(run_id).status == "QUEUED"


def test_without_the_lock_of_the_run_each_of_the_last_two_would_see_the_other_open(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is the last, so nobody queues the run; what is left is the sweep, which finds the wakeups."""
    run_id, (a, b) = two_waits(engine)
    monkeypatch.setattr(decide, "run_lock", run_now)
    both_looked = gate_at(monkeypatch, import_module("approvals.services.decide"), "audit_append", parties=2)
    acts = [Aside(partial(engine.decide, wait, "APPROVE", by)) for wait, by in ((a, "ann"), (b, "abe"))]
    both_looked.wait_reached()
    both_looked.open()
    for act in acts:
        act.result()
    assert (run_now(run_id).status, wait_is_open(run_id=run_id)) == ("WAITING", False)
    requeue_woken(run_id)
    assert run_now(run_id).status == "QUEUED"


# ── ruling 28: the facts of a verdict are written with it ──


def test_a_stop_after_a_verdict_finds_its_facts_stored(engine: Engine) -> None:
    """Ruling 28."""
    call = lose_answer(engine, "once")
    engine.reconcile(call, "EXECUTED", external_ref="seen-1")
    engine.stop(call.run_id)
    call.refresh_from_db()
    assert (run_now(call.run_id).status, call.status, call.external_ref) == ("CANCELLED", "SUCCEEDED", "seen-1")
    assert Result.objects.get(tool_call=call).source == "HUMAN"


def test_without_them_a_stop_before_the_adoption_would_bury_the_verdict(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the next worker were to write them: the stop leaves no next worker, and a second verdict is refused."""
    call = lose_answer(engine, "once")
    monkeypatch.setattr(import_module("receipts.services.verdicts"), "_executed", lambda *_: None)
    engine.reconcile(call, "EXECUTED")
    engine.stop(call.run_id)
    call.refresh_from_db()
    assert (run_now(call.run_id).status, call.status) == ("CANCELLED", "UNCERTAIN")
    assert not Result.objects.filter(tool_call=call).exists()
    assert isinstance(engine.reconcile(call, "EXECUTED"), VerdictGiven)


# ── ruling 30: superseding ──


def test_a_goal_is_revised_while_a_wait_is_open(engine: Engine) -> None:
    """Rulings 9 and 30: what is open is taken back first, then the head moves."""
    wait = open_wait(engine.run(calls(("once", "a"))))
    assert isinstance(engine.revise(wait.run_id, "another goal"), GoalRevised)
    assert Wait.objects.get(id=wait.id).status == "SUPERSEDED"


def test_without_taking_the_wait_back_first_the_head_could_not_move(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = open_wait(engine.run(calls(("once", "a"))))
    monkeypatch.setattr(import_module("runtime.services.goal"), "waits_supersede", lambda **_: 0)
    with pytest.raises(DatabaseError, match="frozen while a wait is live"):
        engine.revise(wait.run_id, "another goal")
    assert run_now(wait.run_id).intents.count() == 1


def test_a_wait_that_was_decided_and_then_superseded_wakes_its_run_by_that_cause(engine: Engine) -> None:
    """Ruling 30: the cause is part of the key, and the older wakeup is cancelled."""
    wait = open_wait(engine.run(calls(("once", "a"))))
    engine.decide(wait)
    engine.revise(wait.run_id, "another goal")
    rows = Wakeup.objects.filter(wait_id=wait.id).values_list("cause", "status")
    assert sorted(rows) == [("DECISION", "CANCELLED"), ("INTENT", "PENDING")]


def test_without_the_cause_in_its_key_the_second_wakeup_of_a_wait_would_be_lost(engine: Engine) -> None:
    wait = open_wait(engine.run(calls(("once", "a"))))
    for cause in (WakeupCause.DECISION, WakeupCause.INTENT):
        wakeup_write(tenant_id=wait.tenant_id, run_id=wait.run_id, cause=cause, dedupe_key=f"wait:{wait.id}")
    assert not wakeup_pending(run_id=wait.run_id, causes=frozenset({WakeupCause.INTENT}))


# ── ruling 31: a failed check ends ──


def test_without_voiding_the_siblings_a_decision_of_a_failed_barrier_would_be_used(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 31: with it, test_supersteps.py shows both asked again."""
    run_id, (a, b) = two_waits(engine)
    engine.decide(a, "APPROVE")
    engine.decide(b, "REJECT")
    sql("UPDATE approvals_wait SET valid_until = clock_timestamp() - interval '1 second' WHERE status = 'APPROVED'")

    def only_the_one(*, run_id: UUID, why: str) -> None:
        Wait.objects.filter(id=a.id).update(status="INVALIDATED", status_reason=why)

    monkeypatch.setattr(guards, "decided_waits_invalidate", only_the_one)
    drive(run_id)
    assert Wait.objects.get(id=b.id).status == "CONSUMED"
    assert (call_named(run_id, "b").status, open_wait(run_id).tool_call_id) == ("REJECTED", call_named(run_id, "a").id)


# ── ruling 34: one verdict wakes every run that it held ──


def two_held_by_one(engine: Engine) -> tuple[ToolCall, list[UUID]]:
    """Two forks of one run, held by its call of which nobody knows."""
    call = lose_answer(engine, "once")
    SCRIPT.outcomes.clear()
    forks = []
    for _ in range(2):
        outcome = engine.fork(call.run_id, 1)
        assert isinstance(outcome, Started)
        drive(outcome.run_id)
        assert run_now(outcome.run_id).hold_reason == "UNCERTAIN_CALL"
        forks.append(outcome.run_id)
    return call, forks


def test_one_verdict_wakes_every_run_that_its_call_held(engine: Engine) -> None:
    """Ruling 34."""
    call, forks = two_held_by_one(engine)
    engine.reconcile(call, "EXECUTED")
    sweep()
    assert [run_now(run_id).status for run_id in forks] == ["QUEUED", "QUEUED"]
    keys = Wakeup.objects.filter(run_id__in=forks).values_list("dedupe_key", flat=True)
    assert sorted(keys) == sorted(f"recon:{call.id}:1:{run_id}" for run_id in forks)


def test_without_the_run_in_its_key_one_of_the_two_wakeups_would_be_lost(engine: Engine) -> None:
    call, forks = two_held_by_one(engine)
    for run_id in forks:
        wakeup_write(
            tenant_id=call.tenant_id, run_id=run_id, cause=WakeupCause.RECONCILED, dedupe_key=f"recon:{call.id}:1"
        )
    causes = frozenset({WakeupCause.RECONCILED})
    assert [wakeup_pending(run_id=run_id, causes=causes) for run_id in forks] == [True, False]


# ── ruling 35: what the last check read stays so until the commit ──


def test_without_the_share_lock_a_withdrawal_would_come_between_the_last_check_and_the_commit(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 35: with it, test_commitments.py shows that the withdrawal waits."""
    run_id = rests_on_something(engine)
    monkeypatch.setattr(guards, "GROUND", GROUND.replace("FOR SHARE OF c", ""))
    gate = gate_at(monkeypatch, import_module("runtime.loop.dispatch"), "prepare_effects")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    # Past the services of the withdrawal, which lock the lease: the row alone is what is looked at here.
    sql(
        "UPDATE checkpoints_commitment SET status = 'WITHDRAWN', withdrawn_by = 'person:otto', "
        "withdrawal_reason = 'it is down', withdrawn_at = clock_timestamp() WHERE run_id = %s",
        run_id,
    )
    gate.open()
    worker.result()
    assert (SCRIPT.labels("once"), Commitment.objects.get(run_id=run_id).status) == (["a"], "WITHDRAWN")


# ── ruling 36: reads of unknown outcome ──


def stopped_while_reading(engine: Engine) -> ToolCall:
    """A reading that was stopped while nobody knew its answer."""

    def stop_and_lose(_: Any) -> Any:
        engine.stop(ToolCall.objects.latest("created_at").run_id)
        raise ToolUnknown("no answer")

    SCRIPT.do("a", stop_and_lose)
    return call_named(engine.run(calls(("look", "a"))), "a")


def test_a_reading_of_unknown_outcome_blocks_nobody_once_its_run_has_ended(engine: Engine) -> None:
    """Ruling 36."""
    call = stopped_while_reading(engine)
    assert (run_now(call.run_id).status, call.status, call.blocking) == ("CANCELLED", "UNCERTAIN", False)


def test_without_its_closing_it_would_block_for_ever(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An UNCERTAIN call has no way to CANCELLED: nothing else would ever close it."""
    monkeypatch.setattr(ending, "unknown_reads_release", lambda **_: None)
    call = stopped_while_reading(engine)
    assert (run_now(call.run_id).status, call.status, call.blocking) == ("CANCELLED", "UNCERTAIN", True)
    with pytest.raises(DatabaseError):
        sql("UPDATE receipts_toolcall SET status = 'CANCELLED' WHERE id = %s", call.id)
    assert call.status in LIVE_CALL


# ── ruling 37: the order of locks ──


def lock_call_then_budget(call: ToolCall) -> None:
    with transaction.atomic():
        call_lock(call.id)
        sql("UPDATE runs_budget SET spent = spent + 0 WHERE run_id = %s AND unit = 'tool_calls'", call.run_id)


def test_two_that_lock_in_the_one_order_follow_each_other(engine: Engine) -> None:
    """Ruling 37: call, then budget."""
    call = lose_answer(engine, "once")
    with uncommitted():
        call_lock(call.id)
        other = Aside(partial(lock_call_then_budget, call))
        other.wait_blocked()
        sql("UPDATE runs_budget SET spent = spent + 0 WHERE run_id = %s AND unit = 'tool_calls'", call.run_id)
    other.result()


def test_without_the_order_one_of_two_would_be_cut_off(engine: Engine) -> None:
    call = lose_answer(engine, "once")
    errors: list[BaseException | None] = []
    try:
        with transaction.atomic():
            Budget.objects.select_for_update(no_key=True).get(run_id=call.run_id, unit="tool_calls")
            other = Aside(partial(lock_call_then_budget, call))
            other.wait_blocked()
            call_lock(call.id)
    except OperationalError as error:
        errors.append(error)
    errors.append(other.error())
    (cut_off,) = [error for error in errors if error is not None]
    assert isinstance(cut_off.__cause__, psycopg.errors.DeadlockDetected)
