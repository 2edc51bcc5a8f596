"""Verdicts that meet other verdicts, stops and workers at the same instant: none is lost, none is stored twice."""

from functools import partial
from importlib import import_module

import pytest
from django.db import DatabaseError

from checkpoints.selectors import load_head
from receipts.errors import VerdictGiven
from receipts.models import Attempt, Contradiction, Reconciliation, Result, ToolCall
from receipts.selectors import result_bytes
from runs.models import Wakeup
from runtime import ending
from runtime.contracts import ToolOutcome
from runtime.loop import drive
from runtime.services import Reconciled, StopState
from tests.engine.engine import (
    Engine,
    added,
    call_named,
    counts,
    run_now,
    sql,
)
from tests.engine.lost import UNKNOWN, lose_answer, tool_budget
from tests.engine.races import Aside, Gate, gate_at, terminate, together
from tests.scripted import SCRIPT, calls, went_well

VERDICTS = [("EXECUTED", "NONE"), ("NOT_EXECUTED", "RETRY"), ("NOT_EXECUTED", "FAIL"), ("PROCEED_UNKNOWN", "NONE")]


@pytest.fixture
def call(engine: Engine) -> ToolCall:
    """A publication of unknown outcome."""
    return lose_answer(engine)


# ── at the same instant ──────────────────────────────────────────────────────


def test_of_many_verdicts_at_once_one_is_stored(engine: Engine) -> None:
    for _ in range(2):
        call = lose_answer(engine)
        outcomes = together(
            *[
                partial(engine.reconcile, call, verdict, then, by)
                for verdict, then in VERDICTS[:3]
                for by in ("rolf", "olga")
            ]
        )
        (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Reconciled)]
        losers = [outcome for outcome in outcomes if outcome is not winner]
        assert all(isinstance(loser, VerdictGiven) and loser.facts["verdict"] == winner.verdict for loser in losers)
        assert Reconciliation.objects.filter(tool_call=call).count() == 1
        assert run_now(call.run_id).status == "QUEUED"


def test_a_verdict_and_a_stop_at_once_both_count(engine: Engine) -> None:
    for _ in range(4):
        call = lose_answer(engine)
        said, stopped = together(partial(engine.reconcile, call, "EXECUTED"), partial(engine.stop, call.run_id))
        assert isinstance(said, Reconciled)
        assert isinstance(stopped, StopState)
        call.refresh_from_db()
        assert (call.status, run_now(call.run_id).status) == ("SUCCEEDED", "CANCELLED")
        assert not Wakeup.objects.filter(run_id=call.run_id, status="PENDING").exists()


def held_back(engine: Engine, patch: pytest.MonkeyPatch) -> tuple[ToolCall, Gate, Aside]:
    """A worker that has said that nobody knows, and is about to park the run."""
    SCRIPT.do("a", UNKNOWN, went_well("a"))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    gate = gate_at(patch, import_module("runtime.loop.unknown"), "park")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    return call_named(run_id, "a"), gate, worker


@pytest.mark.parametrize(("verdict", "then"), VERDICTS)
def test_a_verdict_that_comes_before_the_run_is_parked_is_not_lost(
    engine: Engine, verdict: str, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 27: the commit that parks finds its blocker gone, and queues the run instead."""
    call, gate, worker = held_back(engine, monkeypatch)
    assert isinstance(engine.reconcile(call, verdict, then), Reconciled)
    assert run_now(call.run_id).status == "RUNNING"
    gate.open()
    worker.result()
    assert run_now(call.run_id).status == "QUEUED"
    assert engine.hints[-1] == call.run_id
    drive(call.run_id)
    assert run_now(call.run_id).status == "COMPLETED"
    assert SCRIPT.labels("once") == ["a"] * (2 if then == "RETRY" else 1)


def test_without_another_look_the_verdict_would_be_lost(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the second look is for: the run would be held for a call that is not unknown any more."""
    call, gate, worker = held_back(engine, monkeypatch)
    engine.reconcile(call, "EXECUTED")
    monkeypatch.setattr(ending, "wakeup_pending", lambda **_: False)
    monkeypatch.setattr(import_module("runtime.loop.unknown"), "_still_unknown", lambda _: True)
    gate.open()
    worker.result()
    assert (run_now(call.run_id).status, run_now(call.run_id).hold_reason) == ("HELD", "UNCERTAIN_CALL")
    call.refresh_from_db()
    assert call.status == "SUCCEEDED"


@pytest.mark.parametrize(("verdict", "then"), VERDICTS)
def test_a_verdict_that_comes_before_a_repetition_is_kept(
    engine: Engine, verdict: str, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is about to repeat a call that only reads; a person who is faster is heard, and nothing leaks."""
    SCRIPT.tell(calls(("look", "a")))
    SCRIPT.do("a", UNKNOWN, went_well("a"))
    run_id = engine.start()
    gate = gate_at(monkeypatch, import_module("runtime.loop.unknown"), "dispatch_again")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    call = call_named(run_id, "a")
    assert isinstance(engine.reconcile(call, verdict, then), Reconciled)
    gate.open()
    worker.result()
    call.refresh_from_db()
    run = run_now(run_id)
    assert (run.status, run.takeovers) == ("COMPLETED", 0)
    assert tool_budget(run_id)[0] == 0
    again = then == "RETRY" or verdict == "PROCEED_UNKNOWN"
    assert call.attempts == (2 if again else 1)
    assert Attempt.objects.filter(tool_call=call).count() == call.attempts
    assert Result.objects.get(tool_call=call).source == ("LIVE" if again else "HUMAN")


def test_a_repetition_waits_for_a_verdict_that_is_being_stored(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever locks the lease first is heard; a verdict is never written over an attempt that it did not see."""
    SCRIPT.tell(calls(("look", "a")))
    SCRIPT.do("a", UNKNOWN, went_well("a"))
    run_id = engine.start()
    sending = gate_at(monkeypatch, import_module("runtime.loop.unknown"), "dispatch_again")
    worker = Aside(lambda: drive(run_id))
    sending.wait_reached()
    storing = gate_at(monkeypatch, import_module("runtime.services.reconcile"), "verdict_store")
    person = Aside(lambda: engine.reconcile(call_named(run_id, "a"), "EXECUTED"))
    storing.wait_reached()
    sending.open()
    worker.wait_blocked()
    storing.open()
    assert isinstance(person.result(), Reconciled)
    worker.result()
    assert (call_named(run_id, "a").attempts, run_now(run_id).status) == (1, "COMPLETED")


@pytest.mark.parametrize("found", [went_well("a"), False, None])
@pytest.mark.parametrize(("verdict", "then"), VERDICTS)
def test_a_verdict_that_comes_while_a_worker_looks_is_kept(
    engine: Engine, verdict: str, then: str, found: ToolOutcome | bool | None
) -> None:
    gate = Gate()
    SCRIPT.do("a", UNKNOWN, went_well("a"))
    SCRIPT.find("a", gate.before(lambda _: found))
    run_id = engine.run(calls(("asked", "a")))
    engine.approve(run_id)
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    call = call_named(run_id, "a")
    assert isinstance(engine.reconcile(call, verdict, then), Reconciled)
    gate.open()
    worker.result()
    drive(run_id)
    assert Reconciliation.objects.filter(tool_call=call, method="HUMAN").count() == 1
    if then == "RETRY" and found:  # the probe speaks against the person, so nothing is sent (T38)
        assert (run_now(run_id).hold_reason, SCRIPT.labels("asked")) == ("UNCERTAIN_CALL", ["a"])
        assert Contradiction.objects.get(tool_call=call).source == "PROBE"
        return
    assert (run_now(run_id).status, run_now(run_id).takeovers) == ("COMPLETED", 0)
    assert SCRIPT.labels("asked") == ["a"] * (2 if then == "RETRY" else 1)
    assert tool_budget(run_id)[0] == 0


@pytest.mark.parametrize("place", ["verdict_store", "budget_settle_held", "run_move", "audit"])
def test_a_verdict_that_is_cut_off_leaves_nothing(
    engine: Engine, call: ToolCall, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counts()
    with monkeypatch.context() as patch:
        gate = gate_at(patch, import_module("runtime.services.reconcile"), place)
        cut = Aside(lambda: engine.reconcile(call, "EXECUTED"))
        gate.wait_reached()
        terminate(cut.pid)
        gate.open()
        assert isinstance(cut.error(), DatabaseError)
    assert added(before) == {}
    assert (call_named(call.run_id, "a").status, tool_budget(call.run_id)) == ("UNCERTAIN", (0, 1, 0))
    assert isinstance(engine.reconcile(call, "EXECUTED"), Reconciled)


def test_the_bytes_of_a_result_that_a_person_gave_say_who_gave_it(engine: Engine, call: ToolCall) -> None:
    engine.reconcile(call, "EXECUTED", external_ref="post-7")
    assert result_bytes(Result.objects.get(tool_call=call)) == (
        b'{"asserted_by":"person:rolf-north","external_ref":"post-7"}'
    )
    drive(call.run_id)
    (ref,) = load_head(run_now(call.run_id)).snapshot.results
    assert (ref.call, ref.ok, ref.digest) == (call.id, True, Result.objects.get(tool_call=call).digest)
    assert sql("SELECT count(*) FROM receipts_result")[0][0] == 1
