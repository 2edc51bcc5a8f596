"""Verdicts on calls of unknown outcome: each with its facts at once, on a live and on an ended run, and only one."""

from functools import partial
from importlib import import_module
from typing import Any

import pytest
from django.db import DatabaseError

from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent
from checkpoints.models import Obligation
from checkpoints.selectors import load_head
from receipts.errors import AttemptsMoved, NotUncertain, RetryNeedsApprover, RetryOnEndedRun, VerdictGiven
from receipts.models import Attempt, Claim, Contradiction, Effect, Publication, Reconciliation, Result, ToolCall
from receipts.selectors import result_bytes
from receipts.states import FollowUp, Verdict
from runs.models import BudgetEntry, Wakeup
from runtime import ending
from runtime.contracts import ToolOutcome
from runtime.loop import drive
from runtime.services import Reconciled, StopState, VerdictRequest, call_reconcile
from runtime.tasks import sweep
from tests.agents import SCRIPT, calls, went_well
from tests.engine.engine import (
    Engine,
    added,
    attempts_of,
    call_named,
    counts,
    head_of,
    lease_of,
    people,
    phases,
    run_now,
    sql,
)
from tests.engine.lost import UNKNOWN, lose_answer, tool_budget
from tests.engine.races import Aside, Gate, gate_at, terminate, together

VERDICTS = [("EXECUTED", "NONE"), ("NOT_EXECUTED", "RETRY"), ("NOT_EXECUTED", "FAIL"), ("PROCEED_UNKNOWN", "NONE")]


@pytest.fixture
def call(engine: Engine) -> ToolCall:
    """A publication of unknown outcome."""
    return lose_answer(engine)


def entries(call: ToolCall) -> list[tuple[int, str]]:
    rows = BudgetEntry.objects.filter(receipt_id=call.id).order_by("at", "kind")
    return list(rows.values_list("attempt_no", "kind"))


def publication(call: ToolCall) -> str:
    return str(Publication.objects.get(tool_call=call).status)


def test_a_call_without_an_answer_holds_the_run_and_is_not_sent_again(engine: Engine, call: ToolCall) -> None:
    run = run_now(call.run_id)
    assert (run.status, run.hold_reason) == ("HELD", "UNCERTAIN_CALL")
    assert run.hold_detail == "Nobody knows whether post/a happened."
    assert (call.status, attempts_of(call)) == ("UNCERTAIN", [(1, "NO_RESPONSE", "person:ann-north")])
    assert (lease_of(run.id).owner, head_of(run.id).phase) == (None, "AWAITING_TOOL_RESULT")
    assert not Result.objects.filter(tool_call=call).exists()
    assert (publication(call), run.waits.get().status) == ("UNCERTAIN", "CONSUMED")
    assert (tool_budget(run.id), entries(call)) == ((0, 1, 0), [(1, "RESERVE"), (1, "HOLD_UNKNOWN")])
    engine.hints.clear()
    for _ in range(3):
        sweep()
        drive(run.id)
    assert (engine.hints, SCRIPT.labels("post"), run_now(run.id).status) == ([], ["a"], "HELD")


# ── each verdict on a live run ───────────────────────────────────────────────


def test_it_happened(engine: Engine, call: ToolCall) -> None:
    before = phases(call.run_id)
    outcome = engine.reconcile(call, "EXECUTED", external_ref="post-7")
    assert outcome == Reconciled(call.id, "EXECUTED", "SUCCEEDED")
    call.refresh_from_db()
    verdict = Reconciliation.objects.get(tool_call=call)
    assert (verdict.method, verdict.seen_attempts, verdict.actor) == ("HUMAN", 1, "person:rolf-north")
    assert (verdict.evidence, verdict.external_ref) == ("I looked", "post-7")
    result = Result.objects.get(tool_call=call)
    assert (result.source, result.ok, result.reconciliation, result.attempt_no) == ("HUMAN", True, verdict, None)
    assert (call.status, call.attempts, call.external_ref) == ("SUCCEEDED", 1, "post-7")
    assert (Effect.objects.get(tool_call=call).external_ref, publication(call)) == ("post-7", "PUBLISHED")
    assert (tool_budget(call.run_id), entries(call)[2:]) == ((0, 0, 1), [(1, "SETTLE")])
    assert (run_now(call.run_id).status, phases(call.run_id)) == ("QUEUED", before)
    drive(call.run_id)
    assert run_now(call.run_id).status == "COMPLETED"
    assert phases(call.run_id)[len(before) :] == ["TOOL_RESULT_RECORDED", "READY_TO_VERIFY", "FINISHED"]
    assert Wakeup.objects.get(run_id=call.run_id, cause="RECONCILED").status == "CONSUMED"
    assert SCRIPT.labels("post") == ["a"]
    told = SCRIPT.requests[-1].history[-1]
    assert (told["ok"], told["value"]["external_ref"]) == (True, "post-7")


def test_it_did_not_happen_send_it_again(engine: Engine, call: ToolCall) -> None:
    outcome = engine.reconcile(call, "NOT_EXECUTED", "RETRY", by="rolf")
    assert outcome == Reconciled(call.id, "NOT_EXECUTED", "RETRY_WAIT")
    assert (tool_budget(call.run_id), entries(call)[2:]) == ((0, 0, 0), [(1, "RELEASE")])
    drive(call.run_id)
    call.refresh_from_db()
    assert (call.status, publication(call), run_now(call.run_id).status) == ("SUCCEEDED", "PUBLISHED", "COMPLETED")
    assert attempts_of(call) == [(1, "NO_RESPONSE", "person:ann-north"), (2, "OK", "person:rolf-north")]
    assert len({sent.key for sent in SCRIPT.sent}) == 1
    assert (Result.objects.get(tool_call=call).source, Result.objects.get(tool_call=call).attempt_no) == ("LIVE", 2)
    assert (call.waits.count(), ToolCall.objects.filter(run_id=call.run_id).count()) == (1, 1)
    assert tool_budget(call.run_id) == (0, 0, 1)


def test_a_reading_that_a_person_says_was_done_leaves_no_effect(engine: Engine) -> None:
    SCRIPT.do("a", UNKNOWN)
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    sql("UPDATE runs_budget SET cap = %s WHERE run_id = %s AND unit = 'tool_calls'", 1, run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, run_now(run_id).hold_reason) == ("UNCERTAIN", "BUDGET")
    assert isinstance(engine.reconcile(call, "EXECUTED"), Reconciled)
    assert Result.objects.get(tool_call=call).ok
    assert not Effect.objects.exists()


def test_it_did_not_happen_go_on_without_it(engine: Engine, call: ToolCall) -> None:
    outcome = engine.reconcile(call, "NOT_EXECUTED", "FAIL", by="rita")
    assert outcome == Reconciled(call.id, "NOT_EXECUTED", "FAILED")
    result = Result.objects.get(tool_call=call)
    assert (result.source, result.ok, publication(call)) == ("HUMAN", False, "FAILED")
    assert not Effect.objects.exists()
    assert not Claim.objects.filter(tool_call=call, released_at=None).exists()
    drive(call.run_id)
    assert (run_now(call.run_id).status, SCRIPT.labels("post")) == ("COMPLETED", ["a"])
    told = SCRIPT.requests[-1].history[-1]
    assert (told["ok"], told["value"]["error"]) == (False, "did not happen")
    assert tool_budget(call.run_id) == (0, 0, 0)


def test_nobody_knows_go_on(engine: Engine, call: ToolCall) -> None:
    outcome = engine.reconcile(call, "PROCEED_UNKNOWN")
    assert outcome == Reconciled(call.id, "PROCEED_UNKNOWN", "UNCERTAIN")
    drive(call.run_id)
    call.refresh_from_db()
    assert (call.status, call.blocking, publication(call)) == ("UNCERTAIN", False, "UNCERTAIN")
    assert not Result.objects.exists()
    assert (run_now(call.run_id).status, SCRIPT.labels("post")) == ("COMPLETED", ["a"])
    assert "nobody knows" in SCRIPT.requests[-1].history[-1]["value"]["error"]
    assert tool_budget(call.run_id) == (0, 1, 0)


# ── on an ended run ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(("verdict", "then"), VERDICTS)
def test_a_verdict_on_an_ended_run_settles_everything_but_the_run(engine: Engine, verdict: str, then: str) -> None:
    call = lose_answer(engine, "once", "promised", "promising")
    engine.stop(call.run_id)
    run, transitions, head = run_now(call.run_id), counts()["runs_runtransition"], head_of(call.run_id).revision
    outcome = engine.reconcile(call, verdict, then, external_ref="post-7")
    call.refresh_from_db()
    if then == "RETRY":
        assert isinstance(outcome, RetryOnEndedRun)
        assert (call.status, Reconciliation.objects.count()) == ("UNCERTAIN", 0)
    else:
        assert isinstance(outcome, Reconciled)
    expected = {"EXECUTED": "SUCCEEDED", "NOT_EXECUTED": "FAILED" if then == "FAIL" else "UNCERTAIN"}
    assert call.status == expected.get(verdict, "UNCERTAIN")
    assert Obligation.objects.get(run_id=call.run_id).status == ("FULFILLED" if verdict == "EXECUTED" else "OPEN")
    assert not Wakeup.objects.filter(run_id=call.run_id, status="PENDING").exists()
    after = run_now(call.run_id)
    assert (after.status, after.ended_at) == ("CANCELLED", run.ended_at)
    assert (counts()["runs_runtransition"], head_of(call.run_id).revision) == (transitions, head)
    sweep()
    drive(call.run_id)
    assert (run_now(call.run_id).status, SCRIPT.labels("once")) == ("CANCELLED", ["promised"])


# ── what is refused ──────────────────────────────────────────────────────────


def assert_refused_without_trace(engine: Engine, call: ToolCall, refused: type[Refused], **said: Any) -> Refused:
    before = counts()
    outcome = engine.reconcile(call, **said)
    assert isinstance(outcome, refused), outcome
    assert added(before) == {"accounts_auditevent": 1}
    newest = AuditEvent.objects.latest("id")
    assert (newest.action, newest.detail["code"]) == ("call.reconcile.refused", refused.code)
    return outcome


MAY_NOT: list[tuple[dict[str, Any], type[Refused]]] = [
    ({"verdict": "EXECUTED", "by": "ann"}, NotAllowed),
    ({"verdict": "EXECUTED", "by": "otto"}, NotAllowed),
    ({"verdict": "EXECUTED", "by": "vera"}, NotAllowed),
    ({"verdict": "NOT_EXECUTED", "then": "RETRY", "by": "rita"}, RetryNeedsApprover),
    ({"verdict": "NOT_EXECUTED"}, Invalid),
    ({"verdict": "EXECUTED", "then": "RETRY"}, Invalid),
    ({"verdict": "EXECUTED", "then": "FAIL"}, Invalid),
    ({"verdict": "PROCEED_UNKNOWN", "then": "FAIL"}, Invalid),
    ({"verdict": "EXECUTED", "external_ref": "x" * 501}, Invalid),
    ({"verdict": "EXECUTED", "external_ref": "a\0"}, Invalid),
]


def test_a_verdict_that_may_not_be_given_changes_nothing(engine: Engine, call: ToolCall) -> None:
    for said, refused in MAY_NOT:
        assert_refused_without_trace(engine, call, refused, **said)
    assert run_now(call.run_id).status == "HELD"


def test_a_verdict_needs_evidence_in_words(engine: Engine, call: ToolCall) -> None:
    for evidence in ("", " ", "x" * 4001, "\0", "\udfff"):
        said = VerdictRequest(Verdict.EXECUTED, evidence)
        assert isinstance(call_reconcile(actor=engine.person("rolf"), call_id=call.id, said=said), Invalid)


def test_a_call_of_another_tenant_is_not_there(call: ToolCall) -> None:
    with pytest.raises(NotFound):
        Engine(people("south")).reconcile(call, "EXECUTED")


def test_a_call_whose_outcome_is_known_takes_no_verdict(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "x")))
    refused = assert_refused_without_trace(engine, call_named(run_id, "x"), NotUncertain, verdict="EXECUTED")
    assert "SUCCEEDED" in refused.sentence


@pytest.mark.parametrize(("verdict", "then"), VERDICTS)
def test_a_second_verdict_is_refused_and_told_of_the_first(engine: Engine, verdict: str, then: str) -> None:
    call = lose_answer(engine)
    engine.reconcile(call, verdict, then, by="rolf")
    refused = assert_refused_without_trace(engine, call, VerdictGiven, verdict=verdict, then=then, by="olga")
    first = Reconciliation.objects.get(tool_call=call)
    assert refused.facts == {"by": "rolf-north", "verdict": verdict, "at": f"{first.at:%Y-%m-%d %H:%M:%S} UTC"}


def test_each_attempt_takes_a_verdict_of_its_own_and_a_stale_page_none(engine: Engine) -> None:
    SCRIPT.do("a", UNKNOWN)
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    engine.reconcile(call, "NOT_EXECUTED", "RETRY")
    drive(run_id)
    stale = VerdictRequest(Verdict.NOT_EXECUTED, "I looked", follow_up=FollowUp.FAIL, seen_attempts=1)
    outcome = call_reconcile(actor=engine.person("rolf"), call_id=call.id, said=stale)
    assert isinstance(outcome, AttemptsMoved)
    assert (run_now(run_id).status, call_named(run_id, "a").attempts) == ("HELD", 2)
    assert isinstance(engine.reconcile(call, "EXECUTED"), Reconciled)
    assert list(Reconciliation.objects.order_by("at").values_list("seen_attempts", "verdict")) == [
        (1, "NOT_EXECUTED"),
        (2, "EXECUTED"),
    ]
    assert entries(call) == [
        *((1, kind) for kind in ("RESERVE", "HOLD_UNKNOWN", "RELEASE")),
        *((2, kind) for kind in ("RESERVE", "HOLD_UNKNOWN", "SETTLE")),
    ]


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
