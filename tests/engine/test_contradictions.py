"""Evidence against what was accepted raises a flag, keeps a retry from being sent, and flips nothing (T29, T38)."""

from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction

from accounts.errors import Refused
from receipts.models import Contradiction, Publication, Reconciliation, Result, ToolCall
from receipts.services import Against, call_lock, contradiction_raise
from receipts.states import Closing, EvidenceSource, Verdict
from runs.models import Refusal
from runtime.contracts import ToolFailed, ToolOutcome, ToolRetryable
from runtime.loop import drive
from runtime.services import Flagged
from tests.engine.engine import Engine, attempts_of, call_named, expire_lease, run_now, sql
from tests.engine.flags import TOKEN, UNKNOWN, approved, late, nothing, say, settle, while_sending
from tests.engine.races import Aside, gate_at, together
from tests.scripted import SCRIPT, calls, went_well

# ── late answers are kept as evidence ────────────────────────────────────────


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        (went_well("a"), ("OK", "elsewhere", "ref-a")),
        (ToolFailed("403: not today"), ("ERROR_FINAL", "403: not today", None)),
        (ToolRetryable("503: busy"), ("ERROR_RETRYABLE", "503: busy", None)),
    ],
)
def test_a_late_answer_is_kept_and_changes_nothing(engine: Engine, outcome: Any, kept: tuple[Any, ...]) -> None:
    run_id = late(engine, outcome, nothing)
    call = call_named(run_id, "a")
    assert (call.status, run_now(run_id).hold_reason) == ("UNCERTAIN", "UNCERTAIN_CALL")
    [row] = Refusal.objects.filter(run_id=run_id, kind="LATE_RESULT")
    assert (row.detail["outcome"], row.detail["said"], row.detail["external_ref"]) == kept
    assert row.evidence_digest is not None and row.subject_id == call.id
    assert not Contradiction.objects.exists() and not Result.objects.filter(tool_call=call).exists()


def test_a_secret_in_a_late_answer_is_not_kept(engine: Engine) -> None:
    outcome = ToolOutcome({"x": 1}, external_ref=TOKEN, target=f"see {TOKEN}")
    late(engine, outcome, nothing)
    [row] = Refusal.objects.filter(kind="LATE_RESULT")
    assert TOKEN not in str(row.detail)
    assert row.detail["said"] == row.detail["external_ref"] == "withheld: it looks like a GitHub token"


# ── a late answer against a verdict ──────────────────────────────────────────


def said_not_executed(engine: Engine, then: str) -> Callable[[UUID], None]:
    def say_so(run_id: UUID) -> None:
        engine.reconcile(call_named(run_id, "a"), "NOT_EXECUTED", then, by="rolf")

    return say_so


def test_a_late_answer_against_a_verdict_raises_a_flag_and_stops_the_retry(engine: Engine) -> None:
    run_id = late(engine, went_well("a"), said_not_executed(engine, "RETRY"))
    call = call_named(run_id, "a")
    [flag] = Contradiction.objects.all()
    assert (flag.source, flag.accepted, flag.says, flag.attempt_no) == ("LATE_RESULT", "NOT_EXECUTED", "EXECUTED", 1)
    assert flag.external_ref == "ref-a"
    assert call.status == "RETRY_WAIT" and call.contradicted
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "UNCERTAIN_CALL")
    assert "Evidence speaks against" in run.hold_detail
    assert SCRIPT.labels("once") == ["a"]
    assert Reconciliation.objects.get().verdict == "NOT_EXECUTED"


def test_the_database_keeps_a_contradicted_call_from_being_sent(engine: Engine) -> None:
    """The statement that sends asks on the call's own row, whoever has looked before."""
    run_id = late(engine, went_well("a"), said_not_executed(engine, "RETRY"))
    sent_before = len(SCRIPT.sent)
    for _ in range(3):
        engine.resume(run_id)
        drive(run_id)
    assert len(SCRIPT.sent) == sent_before
    assert len(attempts_of(call_named(run_id, "a"))) == 1


def test_a_verdict_against_an_answer_that_was_there_already_is_flagged_too(engine: Engine) -> None:
    run_id = late(engine, went_well("a"), nothing)
    engine.reconcile(call_named(run_id, "a"), "NOT_EXECUTED", "RETRY", by="rolf")
    assert Contradiction.objects.get().accepted == "NOT_EXECUTED"
    drive(run_id)
    assert (run_now(run_id).hold_reason, SCRIPT.labels("once")) == ("UNCERTAIN_CALL", ["a"])


@pytest.mark.parametrize(
    ("outcome", "verdict", "then"),
    [(went_well("a"), "EXECUTED", "NONE"), (ToolFailed("no"), "NOT_EXECUTED", "FAIL")],
)
def test_a_late_answer_that_agrees_raises_nothing(engine: Engine, outcome: Any, verdict: str, then: str) -> None:
    def agree(run_id: UUID) -> None:
        engine.reconcile(call_named(run_id, "a"), verdict, then, by="rolf")

    late(engine, outcome, agree)
    assert Refusal.objects.filter(kind="LATE_RESULT").exists()
    assert not Contradiction.objects.exists()


@pytest.mark.parametrize(
    ("outcome", "verdict", "then", "status"),
    [(ToolFailed("no"), "EXECUTED", "NONE", "SUCCEEDED"), (went_well("a"), "NOT_EXECUTED", "FAIL", "FAILED")],
)
def test_a_verdict_that_was_adopted_is_flagged_and_stays(
    engine: Engine, outcome: Any, verdict: str, then: str, status: str
) -> None:
    def adopt(run_id: UUID) -> None:
        engine.reconcile(call_named(run_id, "a"), verdict, then, by="rolf")
        drive(run_id)

    run_id = late(engine, outcome, adopt)
    assert (run_now(run_id).status, call_named(run_id, "a").status) == ("COMPLETED", status)
    [flag] = Contradiction.objects.all()
    refused = settle(engine, Closing.SEND_AGAIN)
    assert isinstance(refused, Refused) and refused.code == "INVALID"
    assert isinstance(settle(engine, Closing.NOTED, by="rita"), Flagged)
    flag.refresh_from_db()
    assert (flag.closing, call_named(run_id, "a").status) == ("NOTED", status)
    assert not call_named(run_id, "a").contradicted


def test_a_read_that_answers_late_contradicts_nobody(engine: Engine) -> None:
    run_id = engine.start()
    SCRIPT.tell(calls(("look", "a")))

    def meanwhile() -> None:
        expire_lease(run_id)
        drive(run_id)

    SCRIPT.do("a", while_sending(meanwhile, ToolFailed("gone")), went_well("a"))
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert Refusal.objects.filter(kind="LATE_RESULT").count() == 1
    assert not Contradiction.objects.exists()


# ── closing a flag ───────────────────────────────────────────────────────────


def flagged(engine: Engine) -> UUID:
    run_id = late(engine, went_well("a"), said_not_executed(engine, "RETRY"))
    drive(run_id)
    return run_id


def test_an_approver_may_have_it_sent_again_all_the_same(engine: Engine) -> None:
    run_id = flagged(engine)
    refused = settle(engine, Closing.SEND_AGAIN, by="rita")
    assert isinstance(refused, Refused) and refused.code == "RETRY_NEEDS_APPROVER"
    assert isinstance(settle(engine, Closing.SEND_AGAIN), Flagged)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a", "a"])
    assert attempts_of(call_named(run_id, "a"))[1] == (2, "OK", "person:rolf-north")


def test_a_retry_that_is_given_up_leaves_the_outcome_unknown(engine: Engine) -> None:
    run_id = flagged(engine)
    assert isinstance(settle(engine, Closing.DO_NOT_SEND, by="rita"), Flagged)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, call.blocking, run_now(run_id).status) == ("UNCERTAIN", False, "COMPLETED")
    assert SCRIPT.labels("once") == ["a"]
    assert [row.verdict for row in Reconciliation.objects.order_by("at")] == ["NOT_EXECUTED", "PROCEED_UNKNOWN"]
    again = engine.reconcile(call, "EXECUTED", by="rita")
    assert isinstance(again, Refused) and again.code == "VERDICT_GIVEN"


def test_a_flag_is_closed_once(engine: Engine) -> None:
    flagged(engine)
    flag = Contradiction.objects.get()
    settle(engine, Closing.DO_NOT_SEND)
    again = settle(engine, Closing.NOTED, flag=flag)
    assert isinstance(again, Refused) and again.code == "CONTRADICTION_CLOSED"
    with pytest.raises(DatabaseError):
        sql("UPDATE receipts_contradiction SET closing_reason = 'other'")


def test_a_pending_retry_has_to_be_decided(engine: Engine) -> None:
    flagged(engine)
    refused = settle(engine, Closing.NOTED)
    assert isinstance(refused, Refused) and refused.code == "INVALID"
    assert Contradiction.objects.get().closed_at is None


@pytest.mark.parametrize("by", ["vera", "otto", "ann"])
def test_only_a_reconciler_closes_a_flag(engine: Engine, by: str) -> None:
    flagged(engine)
    refused = settle(engine, Closing.DO_NOT_SEND, by=by)
    assert isinstance(refused, Refused) and refused.code == "NOT_ALLOWED"


# ── a person's and a probe's evidence ────────────────────────────────────────


def held(engine: Engine, tool: str = "once") -> ToolCall:
    SCRIPT.do("a", UNKNOWN, went_well("a"))
    return call_named(approved(engine, tool), "a")


def test_a_person_may_speak_against_a_verdict_and_stops_the_retry(engine: Engine) -> None:
    call = held(engine)
    engine.reconcile(call, "NOT_EXECUTED", "RETRY", by="rolf")
    assert isinstance(say(engine, call, Verdict.EXECUTED), Flagged)
    drive(call.run_id)
    assert (run_now(call.run_id).hold_reason, SCRIPT.labels("once")) == ("UNCERTAIN_CALL", ["a"])
    [flag] = Contradiction.objects.all()
    assert (flag.source, flag.raised_by, flag.external_ref) == ("HUMAN", "person:rita-north", "post-9")
    assert ("call.contradict", "person:rita", None) in engine.audited()


def test_what_contradicts_nothing_is_refused(engine: Engine) -> None:
    call = held(engine)
    nothing = say(engine, call, Verdict.EXECUTED)
    assert isinstance(nothing, Refused) and nothing.code == "NOTHING_CONTRADICTED"
    engine.reconcile(call, "EXECUTED", by="rolf")
    agrees = say(engine, call, Verdict.EXECUTED)
    assert isinstance(agrees, Refused) and agrees.code == "NOTHING_CONTRADICTED"
    assert isinstance(say(engine, call, Verdict.NOT_EXECUTED), Flagged)
    twice = say(engine, call, Verdict.NOT_EXECUTED)
    assert isinstance(twice, Refused) and twice.code == "NOTHING_CONTRADICTED"
    denied = say(engine, call, Verdict.NOT_EXECUTED, by="ann")
    assert isinstance(denied, Refused) and denied.code == "NOT_ALLOWED"


def queryable(engine: Engine, *found: Any) -> UUID:
    """A QUERYABLE call that a probe could not look up, that a person says did not happen, and that is looked up again."""
    SCRIPT.do("a", UNKNOWN, went_well("a"))
    SCRIPT.find("a", None, *found)
    run_id = approved(engine, "asked")
    engine.reconcile(call_named(run_id, "a"), "NOT_EXECUTED", "RETRY", by="rolf")
    drive(run_id)
    return run_id


def test_a_probe_is_asked_before_a_person_has_a_call_sent_again(engine: Engine) -> None:
    """A-106: what is found executed is not sent; the person's verdict is flagged, not flipped."""
    run_id = queryable(engine, went_well("a"))
    assert (run_now(run_id).hold_reason, SCRIPT.labels("asked")) == ("UNCERTAIN_CALL", ["a"])
    [flag] = Contradiction.objects.all()
    assert (flag.source, flag.says) == (EvidenceSource.PROBE, "EXECUTED")
    settle(engine, Closing.SEND_AGAIN)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("asked")) == ("COMPLETED", ["a", "a"])
    assert Contradiction.objects.count() == 1


@pytest.mark.parametrize("found", [False, None])
def test_a_probe_that_agrees_or_cannot_tell_stops_nobody(engine: Engine, found: bool | None) -> None:
    run_id = queryable(engine, found)
    assert (run_now(run_id).status, SCRIPT.labels("asked")) == ("COMPLETED", ["a", "a"])
    assert not Contradiction.objects.exists()


def test_a_publication_is_not_flipped_by_a_flag(engine: Engine) -> None:
    SCRIPT.do("a", UNKNOWN)
    run_id = approved(engine, "post")
    engine.reconcile(call_named(run_id, "a"), "NOT_EXECUTED", "FAIL", by="rolf")
    say(engine, call_named(run_id, "a"), Verdict.EXECUTED)
    assert Publication.objects.get().status == "FAILED"


def test_two_flags_keep_a_retry_until_both_are_closed(engine: Engine) -> None:
    run_id = flagged(engine)
    call = call_named(run_id, "a")
    say(engine, call, Verdict.EXECUTED)
    first, second = Contradiction.objects.order_by("raised_at")
    settle(engine, Closing.SEND_AGAIN, flag=first)
    assert call_named(run_id, "a").contradicted
    drive(run_id)
    assert SCRIPT.labels("once") == ["a"]
    settle(engine, Closing.SEND_AGAIN, flag=second)
    drive(run_id)
    assert SCRIPT.labels("once") == ["a", "a"]


# ── races ────────────────────────────────────────────────────────────────────


def test_a_flag_that_is_being_raised_keeps_the_retry_that_waits_for_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has looked and is about to send; the flag is committed first; the statement reads the call's row again."""
    call = held(engine)
    engine.reconcile(call, "NOT_EXECUTED", "RETRY", by="rolf")
    sending = gate_at(monkeypatch, import_module("runtime.loop.unknown"), "dispatch_again")
    worker = Aside(lambda: drive(call.run_id))
    sending.wait_reached()
    with transaction.atomic():
        locked = call_lock(call.id)
        against = Against(1, EvidenceSource.LATE_RESULT, Verdict.EXECUTED, "answered late", None, "worker:x")
        assert contradiction_raise(locked, against) is not None
        sending.open()
        worker.wait_blocked()
    worker.result()
    assert (run_now(call.run_id).hold_reason, SCRIPT.labels("once")) == ("UNCERTAIN_CALL", ["a"])
    assert call_named(call.run_id, "a").attempts == 1


def test_without_the_look_at_the_row_it_would_be_sent(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The race is real: a statement that does not ask for the flag sends."""
    call = held(engine)
    engine.reconcile(call, "NOT_EXECUTED", "RETRY", by="rolf")
    dispatch = import_module("runtime.loop.dispatch")
    blind = dispatch.DISPATCH_AGAIN.replace("AND NOT t.contradicted", "")
    assert blind != dispatch.DISPATCH_AGAIN
    monkeypatch.setattr(dispatch, "DISPATCH_AGAIN", blind)
    sending = gate_at(monkeypatch, import_module("runtime.loop.unknown"), "dispatch_again")
    worker = Aside(lambda: drive(call.run_id))
    sending.wait_reached()
    assert isinstance(say(engine, call, Verdict.EXECUTED), Flagged)
    sending.open()
    worker.result()
    assert SCRIPT.labels("once") == ["a", "a"]


def test_two_people_close_one_flag_once(engine: Engine) -> None:
    flagged(engine)
    outcomes = together(
        lambda: settle(engine, Closing.SEND_AGAIN), lambda: settle(engine, Closing.DO_NOT_SEND, by="rita")
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ContradictionClosed", "Flagged"]


def test_a_late_answer_and_a_verdict_at_the_same_instant_leave_one_flag(engine: Engine) -> None:
    """Whichever is second sees the other: the answer is stored before it is compared, the verdict before late answers are."""
    verdict: list[Aside] = []

    def at_once(run_id: UUID) -> None:
        call = call_named(run_id, "a")
        verdict.append(Aside(lambda: engine.reconcile(call, "NOT_EXECUTED", "RETRY", by="rolf")))

    run_id = late(engine, went_well("a"), at_once)
    verdict[0].result()
    assert Contradiction.objects.filter(tool_call=call_named(run_id, "a")).count() == 1
