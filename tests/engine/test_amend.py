"""A person's call in the place of one that waits (T42): rejected and written anew, never edited in place."""

from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent, Tenant
from approvals.errors import AlreadyDecided, GroundWithdrawn, RunStopped, SelfWritten, StaleRevision
from approvals.models import Decision, Wait
from approvals.services import Decided, Seen
from checkpoints.models import Checkpoint
from receipts.errors import ArgumentsUnusable, NothingAmended
from receipts.models import ToolCall
from receipts.selectors import written_arguments
from runs.models import Run, Wakeup
from runtime.loop import drive
from runtime.services import Amended, Started, Terms, Written, call_amend, commitment_withdraw, run_bind, run_pause
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    added,
    attempts_of,
    call_named,
    counts,
    expire_lease,
    head_of,
    kill,
    open_wait,
    people,
    phases,
    run_now,
    shown,
    sql,
    watch_requests,
)
from tests.engine.races import Aside, gate_at, terminate, together
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, done


def amend(
    engine: Engine,
    wait: Wait,
    label: str = "b",
    by: str = "ann",
    seen: Seen | None = None,
    reason: str = "b is the right one",
    arguments: dict[str, Any] | None = None,
) -> Amended | Refused:
    written = Written(arguments if arguments is not None else {"label": label}, seen or shown(wait), reason)
    return call_amend(actor=engine.person(by), wait_id=wait.id, written=written)


def amended(engine: Engine, wait: Wait, label: str = "b", by: str = "ann") -> Amended:
    outcome = amend(engine, wait, label, by)
    assert isinstance(outcome, Amended), outcome
    return outcome


@pytest.fixture
def wait(engine: Engine) -> Wait:
    return open_wait(engine.run(calls(("once", "a")), calls(("look", "z")), done()))


def test_the_call_of_a_person_is_asked_about_and_sent_in_the_place_of_the_rejected_one(
    engine: Engine, wait: Wait
) -> None:
    run_id, before = wait.run_id, head_of(wait.run_id)
    outcome = amended(engine, wait)
    new, old = ToolCall.objects.get(id=outcome.call_id), ToolCall.objects.get(id=wait.tool_call_id)
    assert (old.status, old.attempts, old.error) == (
        "REJECTED",
        0,
        "by a person, who put another call in its place: b is the right one",
    )
    assert (new.status, new.proposed_by, new.author, new.instead_of_id) == (
        "PROPOSED",
        "HUMAN",
        engine.person("ann").label,
        old.id,
    )
    assert (new.step_name, new.turn_no) == ("once/b", old.turn_no)
    assert new.args_digest != old.args_digest and new.idempotency_key != old.idempotency_key
    wait.refresh_from_db()
    assert (wait.status, wait.decision.verdict, run_now(run_id).status) == ("CONSUMED", "REJECT", "QUEUED")
    head = head_of(run_id)
    assert (head.revision, head.phase, head.trigger) == (before.revision + 1, "AWAITING_APPROVAL", "INTENT")
    assert engine.audited()[-1] == ("wait.amend", "person:ann", None)
    assert AuditEvent.objects.latest("seq").detail["args_digest"] == new.args_digest

    drive(run_id)
    fresh = open_wait(run_id)
    assert (fresh.tool_call_id, fresh.args_digest, fresh.checkpoint_revision) == (
        new.id,
        new.args_digest,
        head.revision,
    )
    assert SCRIPT.labels("once") == []
    engine.decide(fresh, by="abe")
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["b"])
    assert attempts_of(new) == [(1, "OK", engine.person("abe").label)]
    answers = [m["value"] for m in SCRIPT.requests[1].history if m["role"] == "tool"]
    assert answers == [{"label": "b"}]
    assert any(
        "put once/b with other arguments in the place of once/a" in m.get("text", "")
        for m in SCRIPT.requests[1].history
    )
    assert not Wakeup.objects.filter(run_id=run_id, status="PENDING").exists()
    assert broken_invariants() == {}


@pytest.mark.parametrize("point", ["after_wake_consumed", "after_attempt_commit", "after_result_commit"])
def test_a_worker_that_takes_over_tells_the_model_the_same(
    engine: Engine, wait: Wait, at_point: At, point: str
) -> None:
    differences = watch_requests()
    amended(engine, wait)
    drive(wait.run_id)
    engine.approve(wait.run_id)
    at_point(point, kill)
    with pytest.raises(Killed):
        drive(wait.run_id)
    expire_lease(wait.run_id)
    drive(wait.run_id)
    call = call_named(wait.run_id, "b")
    if call.status == "UNCERTAIN":
        engine.reconcile(call, "EXECUTED")
        drive(wait.run_id)
    assert (run_now(wait.run_id).status, differences) == ("COMPLETED", [])
    assert SCRIPT.labels("once") in ([], ["b"])
    assert next(m["ok"] for m in SCRIPT.requests[-1].history if m["role"] == "tool")


def test_who_wrote_a_call_approves_it_only_where_the_tenant_lets_them(engine: Engine, wait: Wait) -> None:
    Tenant.objects.filter(id=engine.tenant.id).update(self_approval=False)
    amended(engine, wait)
    drive(wait.run_id)
    refused = engine.decide(open_wait(wait.run_id), by="ann")
    assert isinstance(refused, SelfWritten) and refused.code == "SELF_APPROVAL"
    assert isinstance(engine.decide(open_wait(wait.run_id), by="abe"), Decided)
    drive(wait.run_id)
    assert SCRIPT.labels("once") == ["b"]


def test_it_can_be_rejected_and_written_anew_again(engine: Engine, wait: Wait) -> None:
    amended(engine, wait, "b")
    drive(wait.run_id)
    amended(engine, open_wait(wait.run_id), "c", by="abe")
    drive(wait.run_id)
    third = open_wait(wait.run_id)
    assert third.tool_call.instead_of_id == wait.tool_call_id
    assert written_arguments(third.tool_call) == {"label": "c"}
    engine.decide(third, "REJECT", reason="none of them")
    drive(wait.run_id)
    (told,) = [m["value"]["error"] for m in SCRIPT.requests[1].history if m["role"] == "tool"]
    assert told == "rejected: by a person: none of them"
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", [])
    assert {call_named(wait.run_id, label).status for label in "abc"} == {"REJECTED"}


def test_calls_that_waited_beside_it_are_asked_about_again(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("post", "z")), done())
    waits = {wait.tool_call.step_name: wait for wait in Wait.objects.filter(run_id=run_id)}
    engine.decide(waits["post/z"])
    assert run_now(run_id).status == "WAITING"
    amended(engine, waits["once/a"])
    assert Wait.objects.get(id=waits["post/z"].id).status == "INVALIDATED"
    drive(run_id)
    fresh = Wait.objects.filter(run_id=run_id, status="OPEN").order_by("opened_at")
    assert {wait.tool_call.step_name for wait in fresh} == {"once/b", "post/z"}
    for one in fresh:
        engine.decide(one)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once"), SCRIPT.labels("post")) == ("COMPLETED", ["b"], ["z"])
    assert [m["id"] for m in SCRIPT.requests[-1].history if m["role"] == "tool"] == ["t1-0", "t1-1"]
    assert broken_invariants() == {}


# ── refused ──────────────────────────────────────────────────────────────────

STALE = Seen(1, "0" * 64, "0" * 64)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ({"by": "otto"}, NotAllowed),
        ({"by": "vera"}, NotAllowed),
        ({"reason": " "}, Invalid),
        ({"reason": "x" * 4001}, Invalid),
        ({"seen": STALE}, StaleRevision),
        ({"label": "a"}, NothingAmended),
        ({"arguments": {}}, ArgumentsUnusable),
        ({"arguments": {"label": "b", "more": 1}}, ArgumentsUnusable),
        ({"arguments": {"label": 7}}, ArgumentsUnusable),
        ({"arguments": {"label": "\ud800"}}, ArgumentsUnusable),
        ({"arguments": {"label": "x" * 300}}, ArgumentsUnusable),
    ],
)
def test_what_can_not_be_put_in_its_place_changes_nothing(
    engine: Engine, wait: Wait, said: dict[str, Any], refused: type[Refused]
) -> None:
    before, head = counts(), head_of(wait.run_id)
    outcome = amend(engine, wait, **said)
    assert isinstance(outcome, refused), outcome
    assert added(before) == {"accounts_auditevent": 1}
    wait.refresh_from_db()
    assert (wait.status, run_now(wait.run_id).status, head_of(wait.run_id)) == ("OPEN", "WAITING", head)


def test_a_wait_that_is_closed_takes_no_other_call(engine: Engine, wait: Wait) -> None:
    engine.decide(wait)
    assert isinstance(amend(engine, wait), AlreadyDecided)
    other = open_wait(engine.run(calls(("once", "a"))))
    engine.stop(other.run_id)
    assert isinstance(amend(engine, other), RunStopped)


def test_nothing_is_written_on_withdrawn_ground(engine: Engine, wait: Wait) -> None:
    run_bind(actor=engine.person("otto"), run_id=wait.run_id, terms=Terms(("Only b.",)), reason="it has to be")
    drive(wait.run_id)
    (term,) = run_now(wait.run_id).commitments.all()
    commitment_withdraw(actor=engine.person("otto"), commitment_id=term.id, reason="not any more")
    assert isinstance(amend(engine, open_wait(wait.run_id)), GroundWithdrawn)


def test_arguments_of_a_call_that_happened_are_not_sent_again_this_way(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "b")), calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    refused = amend(engine, open_wait(run_id), "b")
    assert isinstance(refused, NothingAmended)
    assert str(call_named(run_id, "b").id) in refused.sentence


def test_a_wait_of_another_tenant_is_not_there(engine: Engine, wait: Wait) -> None:
    with pytest.raises(NotFound):
        amend(Engine(people("south")), wait)


# ── races ────────────────────────────────────────────────────────────────────


def test_of_an_approval_and_another_call_at_once_one_counts(engine: Engine) -> None:
    for number in range(6):
        wait = open_wait(engine.run(calls(("once", f"a{number}")), done()))
        approve, other = together(
            partial(engine.decide, wait, by="abe"), partial(amend, engine, wait, f"b{number}", by="ann")
        )
        assert isinstance(approve, Decided) != isinstance(other, Amended), (approve, other)
        assert Decision.objects.filter(wait=wait).count() == 1
        drive(wait.run_id)
        if isinstance(other, Amended):
            engine.approve(wait.run_id)
            drive(wait.run_id)
        sent = f"b{number}" if isinstance(other, Amended) else f"a{number}"
        assert SCRIPT.labels("once")[-1] == sent
    assert len(SCRIPT.labels("once")) == 6
    assert broken_invariants() == {}


@pytest.mark.parametrize("place", ["wait_reject_for_another", "call_author", "snapshot_save", "_audit"])
def test_one_that_is_cut_off_leaves_nothing(
    engine: Engine, wait: Wait, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, head = counts(), head_of(wait.run_id)
    with monkeypatch.context() as patch:
        gate = gate_at(patch, import_module("runtime.services.amend"), place)
        cut = Aside(lambda: amend(engine, wait))
        gate.wait_reached()
        terminate(cut.pid)
        gate.open()
        assert isinstance(cut.error(), DatabaseError)
    assert (added(before), head_of(wait.run_id)) == ({}, head)
    amended(engine, wait)


def test_a_paused_run_stays_paused(engine: Engine, wait: Wait) -> None:
    run_pause(actor=engine.person("otto"), run_id=wait.run_id, reason="a moment")
    amended(engine, wait)
    run = run_now(wait.run_id)
    assert (run.status, run.hold_reason) == ("HELD", "PAUSED")
    engine.resume(wait.run_id)
    drive(wait.run_id)
    assert open_wait(wait.run_id).tool_call.step_name == "once/b"


# ── what comes after ─────────────────────────────────────────────────────────


def test_a_replay_shows_both_calls(engine: Engine, wait: Wait) -> None:
    amended(engine, wait)
    drive(wait.run_id)
    engine.approve(wait.run_id)
    drive(wait.run_id)
    steps = [(one.name, one.status) for one in engine.replay(wait.run_id).steps if one.kind == "CALL"]
    assert steps == [("once/a", "REJECTED"), ("once/b", "SUCCEEDED"), ("look/z", "SUCCEEDED"), ("finish", "FINISH")]


def test_a_fork_from_before_and_one_from_after_hear_what_became_of_it(engine: Engine, wait: Wait) -> None:
    at = head_of(wait.run_id).revision
    amended(engine, wait)
    drive(wait.run_id)
    early = forked(engine, wait.run_id, at)
    assert run_now(early).inherited_turns == 0  # the call that stands in is open: the turn is asked for again
    engine.approve(wait.run_id)
    drive(wait.run_id)
    SCRIPT.requests.clear()
    late = forked(engine, wait.run_id, Checkpoint.objects.filter(run_id=wait.run_id).count() - 2)
    drive(late)
    assert next(m["value"] for m in SCRIPT.requests[0].history if m["role"] == "tool") == {"label": "b"}


def forked(engine: Engine, run_id: UUID, revision: int) -> UUID:
    outcome = engine.fork(run_id, revision)
    assert isinstance(outcome, Started), outcome
    return outcome.run_id


def test_every_call_is_a_models_proposal_or_a_persons_with_its_audit_row(engine: Engine, wait: Wait) -> None:
    """A-047."""
    amended(engine, wait)
    drive(wait.run_id)
    engine.approve(wait.run_id)
    drive(wait.run_id)
    rows = sql(
        "SELECT c.id FROM receipts_toolcall c WHERE NOT EXISTS (SELECT FROM receipts_proposal p WHERE p.tool_call_id = c.id) "
        "AND NOT (c.proposed_by = 'HUMAN' AND EXISTS (SELECT FROM accounts_auditevent a "
        "WHERE a.action = 'wait.amend' AND a.object_id = c.id::text))"
    )
    assert rows == []
    assert Run.objects.count() == 1 and phases(wait.run_id)[-1] == "FINISHED"
