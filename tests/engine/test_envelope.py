"""The handoff note: what its digest covers, what it refuses, and what is done about one that was changed."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError

from accounts.selectors import sealed_body
from approvals.errors import CheckpointChanged
from approvals.services import Decided
from checkpoints.envelope import Contract, Material, Promise, ResultRef, Snapshot, snapshot_digest
from checkpoints.errors import Unreadable
from checkpoints.models import Checkpoint
from checkpoints.selectors import Difference, load_head, snapshot_diff, verified_body
from receipts.models import Attempt
from runs.canonical import parse
from runs.models import Refusal, Thread
from runtime.loop import drive
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    expire_lease,
    head_of,
    kill,
    open_wait,
    phases,
    run_now,
    sql,
    sql_past_triggers,
)
from tests.scripted import SCRIPT, calls

DIGEST = "a" * 64
OTHER = "b" * 64


def snapshot(**differently: Any) -> Snapshot:
    usual: dict[str, Any] = {
        "tenant": uuid4(),
        "thread": uuid4(),
        "run": uuid4(),
        "revision": 2,
        "parent_digest": DIGEST,
        "manifest_digest": DIGEST,
        "phase": "READY_TO_DECIDE",
        "next_node": "think",
        "turn_no": 1,
        "message_seq": 1,
        "contract": Contract(
            version=1, goal="Compare.", obligations=(Promise(step_name="s", statement="Do s.", status="OPEN"),)
        ),
        "barrier": (uuid4(),),
        "results": (ResultRef(call=uuid4(), step_name="s", key=DIGEST, digest=DIGEST, ok=True),),
        "nonce": "0" * 32,
    }
    return Snapshot.model_validate(usual | differently)


BASE = snapshot()
CHANGES: dict[str, Any] = {
    "tenant": uuid4(),
    "thread": uuid4(),
    "run": uuid4(),
    "revision": 3,
    "parent_digest": OTHER,
    "manifest_digest": OTHER,
    "phase": "READY_TO_VERIFY",
    "next_node": "verify",
    "turn_no": 2,
    "superstep": 1,
    "compacted_through": 1,
    "message_seq": 2,
    "contract": Contract(version=2, goal="Compare.", obligations=BASE.contract.obligations),
    "materials": (Material(name="a", digest=OTHER),),
    "barrier": (),
    "results": (BASE.results[0].model_copy(update={"ok": False}),),
    "nonce": "1" * 32,
}


def test_every_field_is_tried_below() -> None:
    assert set(CHANGES) | {"format_version"} == set(Snapshot.model_fields)


@pytest.mark.parametrize("field", CHANGES)
def test_the_digest_covers_every_field(field: str) -> None:
    changed = BASE.model_copy(update={field: CHANGES[field]})
    assert snapshot_digest(changed.body()) != snapshot_digest(BASE.body())


def test_a_note_is_read_back_equal_from_its_bytes() -> None:
    assert Snapshot.model_validate_json(BASE.body()) == BASE
    assert Snapshot.model_validate(parse(BASE.body())) == BASE


@pytest.mark.parametrize(
    "wrong",
    [
        {"unknown": 1},
        {"format_version": 2},
        {"revision": 0},
        {"parent_digest": "A" * 64},
        {"manifest_digest": "a" * 63},
        {"phase": "ready"},
        {"next_node": "x" * 129},
        {"turn_no": -1},
        {"nonce": "0" * 31},
        {"barrier": tuple(uuid4() for _ in range(65))},
        {"contract": {"version": 0, "goal": "g", "obligations": ()}},
        {"contract": {"version": 1, "goal": "", "obligations": ()}},
        {"contract": {"version": 1, "goal": "x" * 4001, "obligations": ()}},
        {"contract": {"version": 1, "goal": "g", "obligations": (), "note": "free text"}},
        {
            "contract": {
                "version": 1,
                "goal": "g",
                "obligations": ({"step_name": "s", "statement": "x", "status": "?"},),
            }
        },
        {"results": ({"call": uuid4(), "step_name": "s" * 201, "key": DIGEST, "digest": DIGEST, "ok": True},)},
        {"results": ({"call": uuid4(), "step_name": "s", "key": DIGEST, "digest": DIGEST, "ok": True, "value": 1},)},
    ],
)
def test_what_does_not_belong_in_a_note_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        snapshot(**wrong)


def test_a_difference_is_named_by_its_place() -> None:
    before = {"a": [1, {"b": 2}], "gone": 1, "same": True}
    after = {"a": [1, {"b": 3}, 4], "same": True, "new": None}
    assert snapshot_diff(before, after) == [
        Difference("$.a[1].b", 2, 3),
        Difference("$.a[2]", None, 4),
        Difference("$.gone", 1, None),
    ]


# ── stored notes ─────────────────────────────────────────────────────────────


def test_every_revision_is_chained_to_the_one_before(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "a")), calls(("note", "b")))
    stored = list(Checkpoint.objects.filter(run_id=run_id).order_by("revision"))
    assert [row.revision for row in stored] == list(range(1, len(stored) + 1))
    assert [row.parent_digest for row in stored] == [None, *(row.digest for row in stored[:-1])]
    assert all(snapshot_digest(verified_body(row)) == row.digest for row in stored)
    assert (head_of(run_id).revision, head_of(run_id).digest) == (stored[-1].revision, stored[-1].digest)
    assert len({row.save_id for row in stored}) == len(stored)


def change_note(run_id: UUID, change: str) -> None:
    """Change the revision that the head names, past its guards."""
    where = "WHERE run_id = %s AND revision = %s"
    sql_past_triggers(f"UPDATE checkpoints_checkpoint SET {change} {where}", run_id, head_of(run_id).revision)


def put_other_bytes(run_id: UUID) -> None:
    """Bytes that open under the right key, but are not those of the digest."""
    head = Checkpoint.objects.get(run_id=run_id, revision=head_of(run_id).revision)
    other = verified_body(head).replace(b'"wake"', b'"woke"')
    Checkpoint.objects.filter(save_id=head.save_id).update(body=sealed_body(key_id=head.data_key_id, plain=other))


def put_body_of_revision_one(run_id: UUID) -> None:
    change_note(run_id, f"body = (SELECT body FROM checkpoints_checkpoint WHERE run_id = '{run_id}' AND revision = 1)")


def put_in_another_thread(run_id: UUID) -> None:
    run = run_now(run_id)
    thread = Thread.objects.create(tenant=run.tenant, agent=run.thread.agent, key="another")
    sql_past_triggers("UPDATE runs_run SET thread_id = %s WHERE id = %s", thread.id, run_id)


SPOILED: dict[str, tuple[Callable[[UUID], None], str]] = {
    "a bit": (
        lambda run_id: change_note(run_id, "body = set_byte(body, 30, get_byte(body, 30) # 1)"),
        "DIGEST_MISMATCH",
    ),
    "cut": (lambda run_id: change_note(run_id, "body = substr(body, 1, 20)"), "DIGEST_MISMATCH"),
    "purged": (lambda run_id: change_note(run_id, "body = NULL, purged_at = clock_timestamp()"), "PURGED"),
    "other bytes": (put_other_bytes, "DIGEST_MISMATCH"),
    "another revision": (put_body_of_revision_one, "DIGEST_MISMATCH"),
    "another format": (lambda run_id: change_note(run_id, "format_version = 2"), "SCHEMA"),
}


# What only a worker asks: the bytes of the note are those that were shown, but they do not belong where they stand.
MISPLACED: dict[str, tuple[Callable[[UUID], None], str]] = {
    "another parent": (lambda run_id: change_note(run_id, f"parent_digest = '{OTHER}'"), "DIGEST_MISMATCH"),
    "another thread": (put_in_another_thread, "DIGEST_MISMATCH"),
}


@pytest.mark.parametrize(("spoil", "kind"), (SPOILED | MISPLACED).values(), ids=SPOILED | MISPLACED)
def test_a_note_that_was_changed_holds_the_run_and_nothing_is_sent(
    engine: Engine, spoil: Callable[[UUID], None], kind: str
) -> None:
    run_id = engine.run(calls(("once", "a")))
    before = phases(run_id)
    engine.approve(run_id)
    spoil(run_id)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    assert run.hold_detail.startswith(kind)
    assert list(Refusal.objects.filter(run_id=run_id).values_list("kind", flat=True)) == [kind]
    assert list(run.wakeups.values_list("status", flat=True)) == ["REFUSED"]
    assert run.waits.get().status == "APPROVED"
    assert phases(run_id) == before
    assert not Attempt.objects.filter(tool_call__run_id=run_id).exists()
    assert SCRIPT.labels("once") == []


@pytest.mark.parametrize(("spoil", "kind"), SPOILED.values(), ids=SPOILED)
def test_nothing_is_decided_on_a_note_that_was_changed(
    engine: Engine, spoil: Callable[[UUID], None], kind: str
) -> None:
    wait = open_wait(engine.run(calls(("once", "a"))))
    spoil(wait.run_id)
    outcome = engine.decide(wait)
    if kind == "SCHEMA":  # its bytes are the ones that were shown; whether they can be used is for the worker to say
        assert isinstance(outcome, Decided)
    else:
        assert isinstance(outcome, CheckpointChanged)
        assert open_wait(wait.run_id) == wait


def test_a_note_of_an_unknown_format_can_be_tried_again(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    change_note(run_id, "format_version = 2")
    drive(run_id)
    assert run_now(run_id).hold_reason == "RESUME_REFUSED"
    change_note(run_id, "format_version = 1")
    engine.resume(run_id)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


def test_a_head_that_names_another_digest_is_refused(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    sql_past_triggers("UPDATE checkpoints_head SET digest = %s WHERE run_id = %s", DIGEST, run_id)
    with pytest.raises(Unreadable, match="DIGEST_MISMATCH"):
        load_head(run_now(run_id))


def test_a_note_cut_short_and_found_at_a_takeover_holds_the_run(engine: Engine, at_point: At) -> None:
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    at_point("after_acquire", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    sql("UPDATE checkpoints_checkpoint SET body = '' WHERE run_id = %s AND revision > 1", run_id)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason, run.takeovers) == ("HELD", "RESUME_REFUSED", 1)
