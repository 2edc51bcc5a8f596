"""Retention (D-054 to D-056, A-040, T23): bodies go, never envelopes, never what anything rests on, and nothing else."""

from uuid import UUID

import pytest
from django.db import DatabaseError, transaction
from pytest_django import Settings

from accounts.audit import audit_verify
from accounts.errors import Invalid, NotAllowed
from accounts.models import AuditEvent
from accounts.selectors import plain_body
from checkpoints import states
from checkpoints.errors import Purged, RevisionPurged, Unreadable
from checkpoints.models import Checkpoint
from checkpoints.selectors import load_head, load_snapshot, stored_bodies
from checkpoints.services import revision_keep
from console.records.checkpoints import checkpoint_read, checkpoints_compared
from runs.models import Refusal
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.services import Started, fork_preview, retain, run_retain
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    added,
    counts,
    head_of,
    kill,
    open_wait,
    run_now,
    sql,
    sql_past_triggers,
)
from tests.engine.races import Aside, Gate
from tests.engine.revisions import first, next_one, ref, rows
from tests.scripted import SCRIPT, calls, done


@pytest.fixture(autouse=True)
def policy(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full revisions are 1, 6, 11, …; the newest two are kept."""
    settings.RETAIN_LATEST, settings.RETAIN_DAILY = 2, False
    monkeypatch.setattr(states, "FULL_EVERY", 5)


def history(engine: Engine, revisions: int = 12) -> UUID:
    """A queued run with so many revisions."""
    run_id, position = first(engine)
    for n in range(revisions - 1):
        position = next_one(position, turn_no=n)
    return run_id


def purged(run_id: UUID) -> list[int]:
    return [row.revision for row in rows(run_id) if row.purged_at]


def envelopes(run_id: UUID) -> list[tuple[object, ...]]:
    fields = [field.attname for field in Checkpoint._meta.fields if field.attname not in ("body", "purged_at")]
    return list(Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list(*fields))


OLD = [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]

# ── what goes ────────────────────────────────────────────────────────────────


def test_a_look_ahead_lists_what_goes_and_writes_nothing(engine: Engine) -> None:
    run_id = history(engine)
    before = counts()
    assert engine.would_go(run_id) == OLD
    assert added(before) == {} and purged(run_id) == []


def test_bodies_go_and_envelopes_stay(engine: Engine) -> None:
    run_id = history(engine)
    before, sizes = envelopes(run_id), {body.revision: body.size for body in stored_bodies(run_id)}
    gone = engine.retain(run_id)
    assert [body.revision for body in gone.going] == OLD and gone.kept == 2
    assert gone.size == sum(sizes[revision] for revision in OLD)
    assert envelopes(run_id) == before
    assert purged(run_id) == sorted(OLD)
    assert [row.revision for row in rows(run_id) if row.body is None] == sorted(OLD)
    assert load_head(run_now(run_id)).revision == 12
    assert engine.would_go(run_id) == [] and engine.retain(run_id).going == ()


def test_a_finished_run_keeps_every_receipt_and_report_and_the_audit_verifies(engine: Engine) -> None:
    """A-040, D-056."""
    run_id = engine.run(calls(("look", "a")), calls(("note", "b")), calls(("look", "c")), calls(("look", "d")), done())
    before, audit = counts(), list(AuditEvent.objects.order_by("seq").values_list("hash", flat=True))
    gone = engine.retain(run_id)
    assert len(gone.going) >= 1 and run_now(run_id).status == "COMPLETED"
    assert added(before) == {"accounts_auditevent": 1, "accounts_auditreason": 1}
    assert list(AuditEvent.objects.order_by("seq").values_list("hash", flat=True))[:-1] == audit
    assert audit_verify(engine.tenant.id) == len(audit) + 1


def test_each_batch_is_a_transaction_with_its_audit_row(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retain, "BATCH", 4)
    run_id = history(engine)
    engine.retain(run_id)
    events = AuditEvent.objects.filter(action="run.retain", object_id=str(run_id)).order_by("seq")
    assert [event.detail["revisions"] for event in events] == [[10, 9, 8, 7], [6, 5, 4, 3], [2, 1]]
    assert {event.actor for event in events} == {f"person:gail-{engine.tenant.slug}"}
    assert all(event.detail["policy"] == {"latest": 2, "daily": False} for event in events)
    assert len({event.why.reason for event in events}) == 1


def test_the_nonce_is_nowhere_afterwards(engine: Engine) -> None:
    """T23: a digest of few possible texts can't be guessed from what is left."""
    run_id = history(engine)
    nonces = [load_snapshot(row).nonce for row in rows(run_id)]
    engine.retain(run_id)
    left = b"".join(
        plain_body(key_id=row.data_key_id, body=row.body) for row in rows(run_id) if row.body is not None
    ).decode()
    tables = sql(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(accounts|runs|receipts|check|appr)'"
    )
    for (table,) in tables:
        left += "".join(text for (text,) in sql(f"SELECT to_jsonb(t)::text FROM {table} t"))
    assert [nonce in left for nonce in nonces] == [False] * 10 + [True] * 2


@pytest.mark.parametrize("person", ["olga", "ann", "vera"])
def test_only_governance_may_and_a_reason_is_needed(engine: Engine, person: str) -> None:
    run_id = history(engine)
    assert isinstance(engine.retain(run_id, by=person), NotAllowed)
    assert isinstance(engine.retain(run_id, reason=" "), Invalid)
    assert purged(run_id) == []
    assert [action for action, _, _ in engine.audited()][-2:] == ["run.retain.refused"] * 2


# ── what stays ───────────────────────────────────────────────────────────────


def test_what_a_live_wait_is_bound_to_stays_and_can_be_approved(engine: Engine) -> None:
    run_id = engine.run(*(calls(("look", str(n))) for n in range(6)), calls(("once", "a")), done())
    wait = open_wait(run_id)
    assert wait.checkpoint_revision == head_of(run_id).revision
    assert engine.retain(run_id).going
    assert wait.checkpoint_revision not in purged(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_a_call_of_unknown_outcome_keeps_the_revision_that_it_was_proposed_at(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RETAIN_LATEST = 1
    monkeypatch.setattr(states, "FULL_EVERY", 1)
    SCRIPT.do("a", ToolUnknown("no answer"))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    engine.stop(run_id)
    bound = sql("SELECT proposed_revision FROM receipts_toolcall WHERE run_id = %s", run_id)[0][0]
    assert (run_now(run_id).status, head_of(run_id).revision, bound) == ("CANCELLED", 4, 2)
    assert engine.would_go(run_id) == [3, 1]


def test_the_revision_that_another_run_was_begun_at_stays(engine: Engine) -> None:
    run_id = history(engine)
    assert isinstance(engine.fork(run_id, 8), Started)
    assert [body.revision for body in engine.retain(run_id).going] == [10, 9, 5, 4, 3, 2, 1]


def test_a_held_run_keeps_everything(engine: Engine) -> None:
    run_id = history(engine)
    sql_past_triggers("UPDATE runs_run SET status = 'HELD', hold_reason = 'BUDGET' WHERE id = %s", run_id)
    assert engine.would_go(run_id) == [] and engine.retain(run_id).going == ()


def test_the_database_keeps_heads_and_what_is_rebuilt_from(engine: Engine) -> None:
    run_id = history(engine)
    purge = "UPDATE checkpoints_checkpoint SET body = NULL, purged_at = clock_timestamp() WHERE run_id = %s"
    for which, why in (
        ("revision = 12", "the head of a run"),
        ("revision = 11", "since this one"),
        ("revision < 4", "since this"),
    ):
        with pytest.raises(DatabaseError, match=why):
            sql(f"{purge} AND {which}", run_id)
    sql(f"{purge} AND revision < 6", run_id)
    assert purged(run_id) == [1, 2, 3, 4, 5]


# ── in the middle, and side by side ──────────────────────────────────────────


def test_who_dies_in_the_middle_has_purged_whole_batches_only(
    engine: Engine, at_point: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P28: the batch that was under way is there again, without an audit row; the rest goes another time."""
    monkeypatch.setattr(retain, "BATCH", 4)
    run_id = history(engine)
    at_point("inside_retain_tx", lambda: at_point("inside_retain_tx", kill))
    with pytest.raises(Killed):
        engine.retain(run_id)
    assert purged(run_id) == [7, 8, 9, 10]
    assert AuditEvent.objects.filter(action="run.retain").count() == 1
    assert [body.revision for body in engine.retain(run_id).going] == OLD[4:]


def test_two_at_once_purge_each_body_once(engine: Engine, at_point: At) -> None:
    run_id = history(engine)
    gate = Gate()
    at_point("inside_retain_tx", gate)
    one = Aside(lambda: engine.retain(run_id))
    gate.wait_reached()
    two = Aside(lambda: engine.retain(run_id))
    two.wait_blocked()
    gate.open()
    assert [len(one.result().going), len(two.result().going)] == [10, 0]
    assert AuditEvent.objects.filter(action="run.retain").count() == 1


def test_a_revision_at_which_a_run_begins_right_now_is_left(engine: Engine) -> None:
    """Without the lock of the fork it would be purged between its reading and its commit."""
    run_id = history(engine)
    with transaction.atomic():
        revision_keep(run_id=run_id, revision=8)
        gone = Aside(lambda: run_retain(actor=engine.person("gail"), run_id=run_id, reason="old"))
        assert [body.revision for body in gone.result().going] == [10, 9, 5, 4, 3, 2, 1]
        assert load_snapshot(Checkpoint.objects.get(run_id=run_id, revision=8)).revision == 8


def test_a_fork_waits_for_retention_and_is_told_that_the_body_is_gone(engine: Engine, at_point: At) -> None:
    run_id = history(engine)
    gate = Gate()
    at_point("inside_retain_tx", gate)
    retaining = Aside(lambda: engine.retain(run_id))
    gate.wait_reached()
    forking = Aside(lambda: engine.fork(run_id, 8))
    forking.wait_blocked()
    gate.open()
    assert len(retaining.result().going) == 10
    assert isinstance(forking.result(), RevisionPurged)


def test_a_worker_saves_while_old_bodies_go(engine: Engine, at_point: At) -> None:
    run_id = history(engine)
    gate = Gate()
    at_point("inside_retain_tx", gate)
    retaining = Aside(lambda: engine.retain(run_id))
    gate.wait_reached()
    next_one(load_head(run_now(run_id)))
    gate.open()
    assert len(retaining.result().going) == 10
    assert load_head(run_now(run_id)).revision == 13


# ── afterwards ───────────────────────────────────────────────────────────────


def test_a_purged_revision_is_refused_as_purged_with_its_digest_and_when(engine: Engine) -> None:
    run_id = history(engine)
    engine.retain(run_id)
    row = rows(run_id)[7]
    with pytest.raises(Purged, match=row.digest) as caught:
        load_snapshot(row)
    assert (caught.value.kind, caught.value.revision, caught.value.at) == ("PURGED", 8, row.purged_at)
    reading = checkpoint_read(actor=engine.person("vera"), run_id=run_id, revision=8)
    assert reading.body is None and "the body was purged on" in str(reading.unreadable)
    for refused in (
        engine.fork(run_id, 8),
        fork_preview(actor=engine.person("vera"), run_id=run_id, revision=8),
        checkpoints_compared(actor=engine.person("vera"), run_id=run_id, before=8, after=12),
    ):
        assert isinstance(refused, RevisionPurged) and refused.code == "PURGED"
        assert (refused.facts["revision"], refused.facts["digest"]) == (8, row.digest)
    assert isinstance(engine.fork(run_id, 12), Started)


def test_a_run_goes_on_is_continued_and_replayed_after_its_old_bodies_went(engine: Engine) -> None:
    run_id = engine.run(*(calls(("look", str(n))) for n in range(6)), calls(("once", "a")), done())
    before = engine.replay(run_id)
    assert len(engine.retain(run_id).going) >= 5
    after = engine.replay(run_id)
    assert (after.steps, after.phases) == (before.steps, before.phases)
    engine.stop(run_id)
    outcome = engine.carry_on(run_id)
    assert isinstance(outcome, Started)
    drive(outcome.run_id)
    engine.approve(outcome.run_id)
    drive(outcome.run_id)
    assert run_now(outcome.run_id).status == "COMPLETED"


def test_a_head_that_was_purged_past_the_guards_holds_the_run_as_purged(engine: Engine) -> None:
    run_id = history(engine, 3)
    sql_past_triggers(
        "UPDATE checkpoints_checkpoint SET body = NULL, purged_at = clock_timestamp() WHERE run_id = %s AND revision = 3",
        run_id,
    )
    with pytest.raises(Unreadable, match="PURGED"):
        load_head(run_now(run_id))
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED") and run.hold_detail.startswith("PURGED: ")
    assert Refusal.objects.get(run_id=run_id).kind == "PURGED"
    assert isinstance(engine.revise(run_id, "another goal"), RevisionPurged)


# ── growth ───────────────────────────────────────────────────────────────────


def test_under_retention_what_is_stored_stays_bounded_however_long_a_run_is(engine: Engine, settings: Settings) -> None:
    """B40: a state that grows for ever, 600 revisions. What is kept is the newest 20 and the chain they rest on."""
    settings.RETAIN_LATEST = 20
    run_id, position = first(engine)
    bodies, bytes_stored = [], []
    for n in range(600):
        results = position.snapshot.results
        position = next_one(position, results=(*(results if len(results) < 40 else ()), ref()))
        if n % 50 == 49:
            engine.retain(run_id)
            stored = stored_bodies(run_id)
            bodies.append(len(stored))
            bytes_stored.append(sum(body.size for body in stored))
    assert max(bodies) <= 20 + 4
    assert max(bytes_stored[6:]) <= 1.5 * max(bytes_stored[:6])
    assert Checkpoint.objects.filter(run_id=run_id).count() == 601
    assert load_head(run_now(run_id)).snapshot == position.snapshot
