"""Decisions on live connections: one per wait, on exactly what was shown, or nothing at all."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
from django.db import DatabaseError

from accounts.audit import audit_verify
from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent, Tenant
from approvals.errors import AlreadyDecided, ArgsChanged, Expired, RunStopped, SelfApproval, StaleRevision
from approvals.models import Decision, Vote, Wait
from approvals.services import Decided, Voted, wait_expire, wait_found
from approvals.services import decide as deciding
from approvals.services import wait as waiting
from receipts.models import Attempt, ToolCall
from runs.models import Wakeup
from runtime.loop import drive
from runtime.services import StopState
from runtime.tasks import sweep
from tests.engine.engine import (
    Engine,
    added,
    counts,
    head_of,
    open_wait,
    pass_deadline,
    people,
    run_now,
    shown,
    sql,
)
from tests.engine.races import Aside, gate_at, terminate, together
from tests.scripted import SCRIPT, calls

ROUNDS = 20
FEWER_ROUNDS = 8


Outcome = Decided | Voted | Refused


def assert_one_decision(wait: Wait, outcomes: list[Outcome]) -> Decided:
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
    """What the locks are for: the loser of the race would hear of a broken rule of the database instead of a decision."""
    monkeypatch.setattr(deciding, "run_lock", run_now)
    monkeypatch.setattr(deciding, "wait_locked", lambda _, wait_id: wait_found(Wait.objects.get(id=wait_id)))
    gate = gate_at(monkeypatch, deciding, "queue_if_all_are_closed")
    first = Aside(partial(engine.decide, wait, "APPROVE", "ann"))
    gate.wait_reached()
    second = Aside(partial(engine.decide, wait, "APPROVE", "abe"))
    second.wait_blocked()
    gate.open()
    assert isinstance(first.result(), Decided)
    assert "only while its wait is open" in str(second.error())
    assert (Decision.objects.count(), Vote.objects.count()) == (1, 1)


def test_the_second_waits_for_the_first_and_is_told(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_at(monkeypatch, deciding, "queue_if_all_are_closed")
    first = Aside(lambda: engine.decide(wait, "REJECT", "ann"))
    gate.wait_reached()
    second = Aside(lambda: engine.decide(wait, "APPROVE", "abe"))
    second.wait_blocked()
    gate.open()
    assert_one_decision(wait, [first.result(), second.result()])


def test_approve_and_stop_at_once_never_dispatch(engine: Engine) -> None:
    """X12: either the decision came first and is void with the run, or the approval was refused."""
    for _ in range(FEWER_ROUNDS):
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
    for _ in range(FEWER_ROUNDS):
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
    for n in range(FEWER_ROUNDS):
        wait = open_wait(engine.run(calls(("once", "a"))))
        sql("UPDATE approvals_wait SET deadline = clock_timestamp() + %s * interval '2 ms' WHERE id = %s", n, wait.id)
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


NOT_SHOWN: list[tuple[dict[str, Any], type[Refused]]] = [
    ({"revision": 1}, StaleRevision),
    ({"revision": -1}, StaleRevision),
    ({"revision": 10**30}, StaleRevision),
    ({"digest": "0" * 64}, StaleRevision),
    ({"digest": ""}, StaleRevision),
    ({"digest": "\0\ud800"}, StaleRevision),
    ({"args_digest": "0" * 64}, ArgsChanged),
    ({"args_digest": ""}, ArgsChanged),
    ({"revision": 1, "args_digest": "0" * 64}, StaleRevision),
]


def test_what_was_not_shown_is_not_decided(engine: Engine, wait: Wait) -> None:
    for (differently, refused), verdict in product(NOT_SHOWN, ["APPROVE", "REJECT"]):
        seen = replace(shown(wait), **differently)
        assert_refused_without_trace(engine, wait, refused, partial(engine.decide, wait, verdict, seen=seen))
    assert isinstance(engine.decide(wait), Decided)


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


MAY_NOT: list[tuple[str, str, type[Refused]]] = [
    ("otto", "I read it", NotAllowed),
    ("rita", "I read it", NotAllowed),
    ("vera", "I read it", NotAllowed),
    ("ann", "", Invalid),
    ("ann", " \n ", Invalid),
    ("ann", "\u200b", Invalid),
    ("ann", "a\ufffdb", Invalid),
    ("ann", "x" * 4001, Invalid),
    ("ann", "a\0b", Invalid),
    ("ann", "a\ud800b", Invalid),
]


def test_who_may_not_decide_or_gives_no_reason_is_refused(engine: Engine, wait: Wait) -> None:
    for by, reason, refused in MAY_NOT:
        assert_refused_without_trace(engine, wait, refused, partial(engine.decide, wait, by=by, reason=reason))
    assert isinstance(engine.decide(wait), Decided)


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
    mine = assert_refused_without_trace(engine, queued, AlreadyDecided, lambda: engine.decide(wait, again, "ann"))
    assert mine.sentence.startswith("You rejected this call at ") and "that stands" in mine.sentence
    drive(wait.run_id)
    consumed = Wait.objects.get(id=wait.id)
    assert consumed.status == "CONSUMED"
    other = assert_refused_without_trace(engine, consumed, AlreadyDecided, lambda: engine.decide(wait, again, "abe"))
    assert "Already decided: ann-north rejected" in other.sentence and "Your decision was not stored" in other.sentence


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


@pytest.mark.parametrize("place", ["_store_decision", "queue_if_all_are_closed", "run_move", "audit_append"])
def test_a_decision_that_is_cut_off_leaves_nothing(
    engine: Engine, wait: Wait, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        gate = gate_at(patch, waiting if place == "run_move" else deciding, place)
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
