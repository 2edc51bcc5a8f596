"""Decisions on live connections: one per wait, on exactly what was shown, or nothing at all."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from accounts.audit import audit_verify
from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent, Tenant
from approvals import services
from approvals.errors import AlreadyDecided, ArgsChanged, Expired, RunStopped, SelfApproval, StaleRevision
from approvals.models import Decision, Vote, Wait
from approvals.selectors import waits_past_deadline
from approvals.services import Decided, wait_expire
from receipts.models import Attempt, ToolCall
from runs.models import Refusal, Wakeup
from runtime.loop import drive
from runtime.services import StopState
from runtime.tasks import sweep
from tests.agents import SCRIPT, Told, calls
from tests.engine.engine import (
    At,
    Engine,
    added,
    attempts_of,
    call_named,
    counts,
    head_of,
    open_wait,
    people,
    run_now,
    shown,
    sql,
)
from tests.engine.races import Aside, gate_at, terminate, together

ROUNDS = 20


@pytest.fixture
def wait(engine: Engine) -> Wait:
    """The open wait of a run that asks for one call."""
    return open_wait(engine.run(calls(("once", "a"))))


def pass_deadline(wait: Wait) -> None:
    sql("UPDATE approvals_wait SET deadline = clock_timestamp() - interval '1 second' WHERE id = %s", wait.id)


def assert_one_decision(wait: Wait, outcomes: list[Decided | Refused]) -> Decided:
    """One was stored, everybody else was told by whom, what and when; one wakeup; all of it is in the audit."""
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Decided)]
    decision = Decision.objects.get(wait=wait)
    assert (decision.verdict, decision.actor) == (winner.verdict, winner.by)
    wait.refresh_from_db()
    assert wait.status == {"APPROVE": "APPROVED", "REJECT": "REJECTED"}[winner.verdict]
    assert Vote.objects.filter(wait=wait).count() == 1
    assert list(Wakeup.objects.filter(wait_id=wait.id).values_list("cause", "status")) == [("DECISION", "PENDING")]
    assert run_now(wait.run_id).status == "QUEUED"
    losers = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    for loser in losers:
        assert isinstance(loser, AlreadyDecided)
        assert f"person:{loser.facts['by']}" == winner.by
        assert loser.facts["decided_at"] == decision.at.isoformat()
        assert {"APPROVE": "approved", "REJECT": "rejected"}[winner.verdict] in loser.sentence
    audited = AuditEvent.objects.filter(object_id=str(wait.id)).values_list("action", flat=True)
    assert sorted(audited) == ["wait.decide"] + ["wait.decide.refused"] * len(losers)
    return winner


# ── who decides at the same instant ──────────────────────────────────────────


def test_approve_and_reject_at_once_give_one_decision(engine: Engine) -> None:
    verdicts = set()
    for _ in range(ROUNDS):
        wait = open_wait(engine.run(calls(("once", "a"))))
        outcomes = together(
            partial(engine.decide, wait, "APPROVE", "ann"),
            partial(engine.decide, wait, "REJECT", "abe"),
        )
        winner = assert_one_decision(wait, outcomes)
        drive(wait.run_id)
        call = ToolCall.objects.get(run_id=wait.run_id)
        assert (call.status, call.attempts) == {"APPROVE": ("SUCCEEDED", 1), "REJECT": ("REJECTED", 0)}[winner.verdict]
        verdicts.add(winner.verdict)
    assert audit_verify(engine.tenant.id) == AuditEvent.objects.count()


def test_thirty_at_once_give_one_decision(engine: Engine, wait: Wait) -> None:
    voices = product(["APPROVE", "REJECT"], ["ann", "abe", "olga"], range(5))
    acts = [partial(engine.decide, wait, verdict, by) for verdict, by, _ in voices]
    assert len(acts) == 30
    assert_one_decision(wait, together(*acts))


def test_without_the_locks_both_go_on_and_the_database_refuses_one(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the locks are for: the loser of the race would hear of a broken constraint instead of a decision."""
    monkeypatch.setattr(services, "run_lock", run_now)
    unlocked = Wait.objects.select_related("tool_call")
    monkeypatch.setattr(Wait.objects, "select_for_update", lambda **_: unlocked, raising=False)
    looked = gate_at(monkeypatch, services, "_store_decision", parties=2)
    both = [Aside(partial(engine.decide, wait, "APPROVE", by)) for by in ("ann", "abe")]
    looked.wait_reached()
    looked.open()
    errors = [aside.error() for aside in both]
    assert len([error for error in errors if isinstance(error, DatabaseError)]) == 1
    assert Decision.objects.count() == 1


def test_the_second_waits_for_the_first_and_is_told(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_at(monkeypatch, services, "wakeup_write")
    first = Aside(lambda: engine.decide(wait, "REJECT", "ann"))
    gate.wait_reached()
    second = Aside(lambda: engine.decide(wait, "APPROVE", "abe"))
    second.wait_blocked()
    gate.open()
    assert_one_decision(wait, [first.result(), second.result()])


def test_approve_and_stop_at_once_never_dispatch(engine: Engine) -> None:
    """X12: either the decision came first and is void with the run, or the approval was refused."""
    for _ in range(ROUNDS):
        wait = open_wait(engine.run(calls(("once", "a"))))
        decided, stopped = together(partial(engine.decide, wait), partial(engine.stop, wait.run_id))
        assert isinstance(stopped, StopState)
        assert (stopped.status, run_now(wait.run_id).status) == ("SETTLED", "CANCELLED")
        assert isinstance(decided, Decided | RunStopped)
        wait.refresh_from_db()
        assert wait.status == "CANCELLED"
        assert Decision.objects.filter(wait=wait).exists() == isinstance(decided, Decided)
        expected = ["CANCELLED"] if isinstance(decided, Decided) else []
        assert list(Wakeup.objects.filter(run_id=wait.run_id).values_list("status", flat=True)) == expected
        drive(wait.run_id)
        assert ToolCall.objects.get(run_id=wait.run_id).status == "CANCELLED"
        assert not Attempt.objects.filter(tool_call__run_id=wait.run_id).exists()


def test_reject_expiry_and_stop_at_once_close_a_wait_once(engine: Engine) -> None:
    for _ in range(ROUNDS):
        wait = open_wait(engine.run(calls(("once", "a"))))
        pass_deadline(wait)
        decided, expired, stopped = together(
            partial(engine.decide, wait, "REJECT"),
            partial(wait_expire, wait_id=wait.id),
            partial(engine.stop, wait.run_id),
        )
        assert isinstance(decided, Expired | RunStopped)
        wait.refresh_from_db()
        assert wait.status == ("EXPIRED" if expired else "CANCELLED")
        assert isinstance(stopped, StopState)
        assert run_now(wait.run_id).status == "CANCELLED"
        assert not Decision.objects.filter(wait=wait).exists()
        assert not Wakeup.objects.filter(run_id=wait.run_id, status="PENDING").exists()


def test_expiry_and_approval_around_the_deadline_agree(engine: Engine) -> None:
    """Whoever is first, the wait is decided or expired, never both."""
    for n in range(ROUNDS):
        wait = open_wait(engine.run(calls(("once", "a"))))
        sql("UPDATE approvals_wait SET deadline = clock_timestamp() + %s * interval '1 ms' WHERE id = %s", n, wait.id)
        decided, expired = together(partial(engine.decide, wait), partial(wait_expire, wait_id=wait.id))
        wait.refresh_from_db()
        assert wait.status == ("APPROVED" if isinstance(decided, Decided) else wait.status)
        assert not (expired and isinstance(decided, Decided))
        assert Wakeup.objects.filter(run_id=wait.run_id).count() == int(bool(expired) or isinstance(decided, Decided))


# ── what a decision must fit ─────────────────────────────────────────────────


def assert_refused_without_trace(engine: Engine, wait: Wait, refused: type[Refused], act: Callable[[], Any]) -> Refused:
    """The act is refused; one audit row more, and everything else as it was."""
    before, hints = counts(), list(engine.hints)
    outcome = act()
    assert isinstance(outcome, refused), outcome
    assert added(before) == {"accounts_auditevent": 1}
    newest = AuditEvent.objects.latest("id")
    assert (newest.action, newest.object_id, newest.detail["code"]) == (
        "wait.decide.refused",
        str(wait.id),
        refused.code,
    )
    assert Wait.objects.get(id=wait.id).status == wait.status
    assert engine.hints == hints
    return outcome


@pytest.mark.parametrize(
    ("differently", "refused"),
    [
        ({"revision": 1}, StaleRevision),
        ({"revision": -1}, StaleRevision),
        ({"revision": 10**30}, StaleRevision),
        ({"digest": "0" * 64}, StaleRevision),
        ({"digest": ""}, StaleRevision),
        ({"digest": "\0\ud800"}, StaleRevision),
        ({"args_digest": "0" * 64}, ArgsChanged),
        ({"args_digest": ""}, ArgsChanged),
        ({"revision": 1, "args_digest": "0" * 64}, StaleRevision),
    ],
)
@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_what_was_not_shown_is_not_decided(
    engine: Engine, wait: Wait, verdict: str, differently: dict[str, Any], refused: type[Refused]
) -> None:
    seen = replace(shown(wait), **differently)
    assert_refused_without_trace(engine, wait, refused, lambda: engine.decide(wait, verdict, seen=seen))


def test_fifty_changes_of_the_stored_arguments_are_all_noticed(engine: Engine, wait: Wait) -> None:
    stored = bytes(wait.tool_call.args)
    for n in range(50):
        changed = bytearray(stored)
        changed[n * 7919 % len(stored)] ^= 1 + n % 255
        ToolCall.objects.filter(id=wait.tool_call_id).update(args=bytes(changed))
        assert isinstance(engine.decide(wait, ("APPROVE", "REJECT")[n % 2]), ArgsChanged)
    for other in (b"", stored[:-1], stored + b"\0", bytes(12)):
        ToolCall.objects.filter(id=wait.tool_call_id).update(args=other)
        assert isinstance(engine.decide(wait), ArgsChanged)
    assert not Decision.objects.exists()
    ToolCall.objects.filter(id=wait.tool_call_id).update(args=stored)
    assert isinstance(engine.decide(wait), Decided)


@pytest.mark.parametrize(
    ("by", "reason", "refused"),
    [
        ("otto", "I read it", NotAllowed),
        ("rita", "I read it", NotAllowed),
        ("vera", "I read it", NotAllowed),
        ("ann", "", Invalid),
        ("ann", " \n ", Invalid),
        ("ann", "x" * 4001, Invalid),
        ("ann", "a\0b", Invalid),
        ("ann", "a\ud800b", Invalid),
    ],
)
def test_who_may_not_decide_or_gives_no_reason_is_refused(
    engine: Engine, wait: Wait, by: str, reason: str, refused: type[Refused]
) -> None:
    assert_refused_without_trace(engine, wait, refused, lambda: engine.decide(wait, by=by, reason=reason))


def test_a_wait_of_another_tenant_is_not_there(engine: Engine, wait: Wait) -> None:
    stranger = Engine(people("south"))
    before = counts()
    for _ in range(2):
        with pytest.raises(NotFound):
            stranger.decide(wait, by="ann")
    assert added(before) == {}


def test_whoever_started_a_run_decides_only_where_the_tenant_allows_it(engine: Engine, wait: Wait) -> None:
    Tenant.objects.filter(id=engine.tenant.id).update(self_approval=False)
    assert_refused_without_trace(engine, wait, SelfApproval, lambda: engine.decide(wait, by="olga"))
    Tenant.objects.filter(id=engine.tenant.id).update(self_approval=True)
    assert isinstance(engine.decide(wait, by="olga"), Decided)
    assert AuditEvent.objects.latest("id").detail["started_by_same_person"] is True


def test_a_wait_past_its_deadline_is_refused_by_the_clock_of_the_database_alone(engine: Engine, wait: Wait) -> None:
    pass_deadline(wait)
    refused = assert_refused_without_trace(engine, wait, Expired, lambda: engine.decide(wait))
    assert f"{Wait.objects.get(id=wait.id).deadline:%H:%M:%S} UTC" in refused.sentence


@pytest.mark.parametrize("again", ["APPROVE", "REJECT"])
def test_a_later_decision_is_refused_however_late_it_comes(engine: Engine, wait: Wait, again: str) -> None:
    engine.decide(wait, "REJECT", "ann", reason="too early")
    queued = Wait.objects.get(id=wait.id)
    assert_refused_without_trace(engine, queued, AlreadyDecided, lambda: engine.decide(wait, again, "ann"))
    drive(wait.run_id)
    consumed = Wait.objects.get(id=wait.id)
    assert consumed.status == "CONSUMED"
    assert_refused_without_trace(engine, consumed, AlreadyDecided, lambda: engine.decide(wait, again, "abe"))


# ── what commits together ────────────────────────────────────────────────────


def test_a_decision_commits_with_its_wakeup_the_queued_run_and_the_audit_row(engine: Engine, wait: Wait) -> None:
    before, hints = counts(), len(engine.hints)
    assert isinstance(engine.decide(wait, reason=" I read it "), Decided)
    assert added(before) == {
        "accounts_auditevent": 1,
        "approvals_decision": 1,
        "approvals_vote": 1,
        "runs_runtransition": 1,
        "runs_wakeup": 1,
    }
    assert engine.hints[hints:] == [wait.run_id]
    decision = Decision.objects.get(wait=wait)
    assert (decision.seen_revision, decision.seen_digest) == (
        head_of(wait.run_id).revision,
        head_of(wait.run_id).digest,
    )
    assert (decision.seen_args_digest, decision.reason) == (wait.tool_call.args_digest, "I read it")
    detail = AuditEvent.objects.latest("id").detail
    assert (detail["verdict"], detail["digest"], detail["args_digest"]) == (
        "APPROVE",
        wait.checkpoint_digest,
        wait.args_digest,
    )


@pytest.mark.parametrize("place", ["_store_decision", "wakeup_write", "run_move", "audit_append"])
def test_a_decision_that_is_cut_off_leaves_nothing(
    engine: Engine, wait: Wait, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        gate = gate_at(patch, services, place)
        before = counts()
        cut = Aside(lambda: engine.decide(wait))
        gate.wait_reached()
        terminate(cut.pid)
        gate.open()
        assert isinstance(cut.error(), DatabaseError)
    assert added(before) == {}
    assert engine.hints.count(wait.run_id) == 1
    assert (open_wait(wait.run_id), run_now(wait.run_id).status) == (wait, "WAITING")
    assert isinstance(engine.decide(wait, "REJECT", "abe"), Decided)


def test_a_hint_that_is_lost_is_made_good_by_the_sweep(engine: Engine, wait: Wait) -> None:
    engine.decide(wait)
    engine.hints.clear()
    sweep()
    sweep()
    assert engine.hints == [wait.run_id, wait.run_id]
    for _ in range(5):
        drive(wait.run_id)
    assert SCRIPT.labels("once") == ["a"]
    assert Wakeup.objects.get(wait_id=wait.id).status == "CONSUMED"


# ── what a decision leads to ─────────────────────────────────────────────────


def test_an_approved_call_is_dispatched_once_on_the_word_of_who_approved(engine: Engine, wait: Wait) -> None:
    engine.decide(wait)
    drive(wait.run_id)
    wait.refresh_from_db()
    call = call_named(wait.run_id, "a")
    assert (wait.status, call.status) == ("CONSUMED", "SUCCEEDED")
    assert attempts_of(call) == [(1, "OK", "person:ann-north")]
    wakeup = Wakeup.objects.get(wait_id=wait.id)
    assert (wakeup.status, wakeup.consumed_fence) == ("CONSUMED", call.tries.get().fence)
    assert run_now(wait.run_id).status == "COMPLETED"


def test_a_rejected_call_is_never_sent_and_the_model_is_told_why(engine: Engine, wait: Wait) -> None:
    engine.decide(wait, "REJECT", reason="not on a Friday")
    drive(wait.run_id)
    call = call_named(wait.run_id, "a")
    assert (call.status, call.attempts, SCRIPT.labels("once")) == ("REJECTED", 0, [])
    told = SCRIPT.requests[-1].history[-1]
    assert (told["role"], told["ok"]) == ("tool", False)
    assert "not on a Friday" in told["value"]["error"]


def test_an_expired_wait_rejects_its_call_and_the_run_goes_on(engine: Engine, wait: Wait) -> None:
    assert not wait_expire(wait_id=wait.id)
    pass_deadline(wait)
    assert waits_past_deadline() == [wait.id]
    sweep()
    sweep()
    wait.refresh_from_db()
    assert (wait.status, run_now(wait.run_id).status) == ("EXPIRED", "QUEUED")
    assert Wakeup.objects.get(wait_id=wait.id).cause == "TIMER"
    drive(wait.run_id)
    call = call_named(wait.run_id, "a")
    assert (call.status, call.attempts, run_now(wait.run_id).status) == ("REJECTED", 0, "COMPLETED")
    assert Wakeup.objects.get(wait_id=wait.id).status == "CONSUMED"
    assert "nobody decided in time" in SCRIPT.requests[-1].history[-1]["value"]["error"]


def test_each_of_two_calls_of_a_turn_has_a_wait_of_its_own(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b")))
    first = open_wait(run_id)
    assert first.tool_call == call_named(run_id, "a")
    engine.decide(first)
    drive(run_id)
    second = open_wait(run_id)
    assert (second.tool_call, SCRIPT.labels("once")) == (call_named(run_id, "b"), ["a"])
    assert isinstance(engine.decide(first, "REJECT"), AlreadyDecided)
    engine.decide(second, "REJECT")
    drive(run_id)
    assert (call_named(run_id, "a").status, call_named(run_id, "b").status) == ("SUCCEEDED", "REJECTED")
    assert SCRIPT.labels("once") == ["a"]


# ── what makes an approval void ──────────────────────────────────────────────


def assert_asked_again(run_id: UUID, wait: Wait, kind: str) -> Wait:
    """The approval is void, a refusal says why, nothing was sent, and a fresh wait asks again."""
    wait.refresh_from_db()
    assert wait.status == "INVALIDATED"
    assert Decision.objects.filter(wait=wait).exists()
    assert Wakeup.objects.get(wait_id=wait.id).status == "REFUSED"
    assert list(Refusal.objects.filter(run_id=run_id).values_list("kind", "subject_id")) == [(kind, wait.id)]
    assert SCRIPT.labels("once") == []
    assert run_now(run_id).status == "WAITING"
    fresh = open_wait(run_id)
    assert fresh.id != wait.id
    return fresh


def lapse(wait: Wait) -> None:
    sql("UPDATE approvals_wait SET valid_until = clock_timestamp() - interval '1 second' WHERE id = %s", wait.id)


def test_an_approval_that_was_not_used_in_time_is_asked_for_again(engine: Engine, wait: Wait) -> None:
    engine.decide(wait)
    lapse(wait)
    drive(wait.run_id)
    fresh = assert_asked_again(wait.run_id, wait, "AUTHORITY")
    engine.decide(fresh)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


def test_an_approval_that_lapses_between_check_and_commit_is_not_used(engine: Engine, wait: Wait, at_point: At) -> None:
    engine.decide(wait)
    at_point("before_attempt_commit", lambda: lapse(wait))
    drive(wait.run_id)
    assert_asked_again(wait.run_id, wait, "AUTHORITY")


def test_an_approval_under_another_policy_is_asked_for_again(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.decide(wait)
    monkeypatch.setattr(import_module("runtime.loop.wake"), "POLICY_VERSION", "builtin-2")
    drive(wait.run_id)
    assert_asked_again(wait.run_id, wait, "SUPERSEDED")


def test_a_run_whose_agent_was_changed_is_held_until_it_is_there_again(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.decide(wait)
    with monkeypatch.context() as patch:
        patch.setattr(Told, "spec", replace(Told.spec, instructions="Do something else."))
        drive(wait.run_id)
    run = run_now(wait.run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    assert list(Refusal.objects.values_list("kind", flat=True)) == ["PIN_UNAVAILABLE"]
    assert (Wait.objects.get(id=wait.id).status, SCRIPT.labels("once")) == ("APPROVED", [])
    assert Wakeup.objects.get(wait_id=wait.id).status == "REFUSED"
    sweep()
    assert run_now(wait.run_id).status == "HELD"
    engine.resume(wait.run_id)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


FLIPS = [
    "set_byte(args, 0, get_byte(args, 0) # 1)",
    "set_byte(args, 20, get_byte(args, 20) # 128)",
    "set_byte(args, length(args) - 1, get_byte(args, length(args) - 1) # 1)",
    "substr(args, 2)",
    "''::bytea",
    "(SELECT o.args FROM receipts_toolcall o WHERE o.run_id = receipts_toolcall.run_id AND o.step_name = 'look/b')",
]


@pytest.mark.parametrize("flip", FLIPS)
def test_arguments_changed_after_the_approval_dispatch_nothing_and_are_shown(engine: Engine, flip: str) -> None:
    run_id = engine.run(calls(("look", "b"), ("once", "a")))
    engine.approve(run_id)
    sql(f"UPDATE receipts_toolcall SET args = {flip} WHERE run_id = %s AND step_name = 'once/a'", run_id)
    for _ in range(2):
        drive(run_id)
        run = run_now(run_id)
        assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
        assert run.hold_detail.startswith("DIGEST_MISMATCH")
        assert SCRIPT.labels("once") == []
        assert call_named(run_id, "a").attempts == 0
        engine.resume(run_id)
    kinds = Refusal.objects.filter(run_id=run_id).values_list("kind", flat=True)
    assert set(kinds) == {"DIGEST_MISMATCH"}
    assert Wait.objects.get(run_id=run_id).status == "INVALIDATED"
