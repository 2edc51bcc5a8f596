"""Verdicts on calls of unknown outcome: each with its facts at once, on a live and on an ended run, and only one."""

from typing import Any

import pytest

from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent
from checkpoints.models import Obligation
from receipts.errors import AttemptsMoved, NotUncertain, RetryNeedsApprover, RetryOnEndedRun, VerdictGiven
from receipts.models import Claim, Effect, Publication, Reconciliation, Result, ToolCall
from receipts.states import FollowUp, Verdict
from runs.models import BudgetEntry, Wakeup
from runtime.loop import drive
from runtime.services import Reconciled, VerdictRequest, call_reconcile
from runtime.tasks import sweep
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
from tests.scripted import SCRIPT, calls

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
    mine = engine.reconcile(call, verdict, then, by="rolf")
    assert isinstance(mine, VerdictGiven) and mine.sentence.startswith(f"You said {verdict} of this call at ")


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
