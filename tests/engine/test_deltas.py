"""Revisions stored as what changed: read back byte for byte, found out when they are changed, and small."""

from dataclasses import replace
from secrets import token_hex
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from accounts.selectors import plain_body, sealed_body
from approvals.errors import CheckpointChanged
from checkpoints import states
from checkpoints.envelope import Snapshot, fit, joined, snapshot_digest
from checkpoints.errors import Unreadable
from checkpoints.models import Checkpoint
from checkpoints.selectors import load_head, load_snapshot, verified_body
from checkpoints.services import prepare, proved
from checkpoints.statements import Candidate
from checkpoints.states import Trigger
from runs.canonical import canonical
from runtime.loop import drive
from tests.engine.engine import Engine, head_of, open_wait, run_now, sql, sql_past_triggers
from tests.engine.revisions import first, next_one, ref, rows
from tests.scripted import SCRIPT, calls


@pytest.fixture
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "FULL_EVERY", 5)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"turn_no": 7, "next_node": "route"},
        {"barrier": ()},
        {"contract": "goal"},
        {"results": "longer"},
        {"results": "shorter"},
        {"results": "other"},
    ],
    ids=str,
)
def test_a_body_is_read_back_byte_for_byte(engine: Engine, change: dict[str, Any]) -> None:
    run_id, position = first(engine)
    position = next_one(position, results=(ref(), ref(step_name='é ❤ \u2028 \U0001f600 "\\\x1f')))
    results, contract = position.snapshot.results, position.snapshot.contract
    made = {
        "goal": contract.model_copy(update={"goal": "Another goal: é"}),
        "longer": (*results, ref(), ref()),
        "shorter": results[:1],
        "other": (ref(), *results[1:]),
    }
    position = next_one(position, **{name: made.get(value, value) for name, value in change.items()})
    row = rows(run_id)[-1]
    assert (row.encoding, row.digest) == ("DELTA", position.digest)
    assert verified_body(row) == canonical(position.snapshot.model_dump(mode="json"))
    assert load_snapshot(row) == position.snapshot
    assert row.body_bytes == len(verified_body(row))


def test_parts_give_the_canonical_body_whatever_is_taken_from_before(engine: Engine) -> None:
    _, position = first(engine)
    one = position.snapshot
    two = one.model_copy(update={"results": (ref(),), "revision": 2})
    three = two.model_copy(update={"results": (*two.results, ref()), "turn_no": 4})
    _, parts = fit(three, after=two, base=fit(two, after=one, base=fit(one)[1])[1])
    assert joined(parts) == canonical(three.model_dump(mode="json"))


@pytest.mark.usefixtures("short_chains")
def test_every_chain_starts_in_full_and_every_revision_is_readable(engine: Engine) -> None:
    run_id, position = first(engine)
    digests = [position.digest]
    for n in range(11):
        position = next_one(position, turn_no=n)
        digests.append(position.digest)
    stored = rows(run_id)
    assert [row.encoding for row in stored] == ["FULL", *["DELTA"] * 4, "FULL", *["DELTA"] * 4, "FULL", "DELTA"]
    assert [load_snapshot(row).revision for row in stored] == [*range(1, 13)]
    assert [row.digest for row in stored] == digests
    assert load_head(run_now(run_id)).snapshot == position.snapshot


def test_a_worker_that_takes_over_goes_on_with_deltas(engine: Engine) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("note", "b")), calls(("once", "c")))
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert [row.encoding for row in rows(run_id)] == ["FULL", *["DELTA"] * (head_of(run_id).revision - 1)]


def test_a_body_that_was_written_with_fewer_fields_is_followed_by_a_full_one(engine: Engine) -> None:
    """Its bytes are not what its fields give today, so a delta on it would not be the body that was digested."""
    run_id, position = first(engine)
    bare = position.snapshot.model_dump(mode="json")
    del bare["superstep"]
    plain = canonical(bare)
    digest = snapshot_digest(plain)
    row = rows(run_id)[0]
    sql_past_triggers(
        "UPDATE checkpoints_checkpoint SET body = %s, digest = %s WHERE run_id = %s",
        sealed_body(key_id=row.data_key_id, plain=plain),
        digest,
        run_id,
    )
    sql_past_triggers("UPDATE checkpoints_head SET digest = %s WHERE run_id = %s", digest, run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert [row.encoding for row in rows(run_id)][:3] == ["FULL", "FULL", "DELTA"]


# ── changed in the store ─────────────────────────────────────────────────────


def chain(engine: Engine) -> tuple[UUID, list[Checkpoint]]:
    run_id, position = first(engine)
    for n in range(4):
        position = next_one(position, turn_no=n, results=(*position.snapshot.results, ref()))
    return run_id, rows(run_id)


def plant(row: Checkpoint, body: bytes | None) -> None:
    sql_past_triggers("UPDATE checkpoints_checkpoint SET body = %s WHERE save_id = %s", body, row.save_id)


@pytest.mark.parametrize("read", [3, 5])
@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("flipped", "revision 3: the stored bytes were changed"),
        ("another", "the stored bytes do not have the stored digest"),
        ("no delta", "revision 3: the delta does not fit"),
        ("swapped", "revision 3: the delta belongs to another revision"),
        ("older", "revision 3: the delta belongs to another revision"),
    ],
)
def test_a_delta_that_was_changed_is_found_wherever_it_is_read(engine: Engine, how: str, found: str, read: int) -> None:
    run_id, stored = chain(engine)
    third = stored[2]
    assert third.body is not None
    sealed = bytes(third.body)
    plain = unsealed(third)
    bodies = {
        "flipped": sealed[:-1] + bytes([sealed[-1] ^ 1]),
        "another": sealed_body(key_id=third.data_key_id, plain=plain.replace(b'"ok":true', b'"ok":false')),
        "no delta": sealed_body(key_id=third.data_key_id, plain=b"[]"),
        "swapped": bytes(stored[3].body or b""),
        "older": bytes(stored[1].body or b""),
    }
    plant(third, bodies[how])
    with pytest.raises(Unreadable, match=found) as caught:
        load_snapshot(rows(run_id)[read - 1])
    assert caught.value.kind == "DIGEST_MISMATCH"
    assert load_snapshot(rows(run_id)[1]).revision == 2


def unsealed(row: Checkpoint) -> bytes:
    return plain_body(key_id=row.data_key_id, body=row.body or b"")


def test_a_run_whose_chain_is_broken_is_not_approved_and_not_continued(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    wait = open_wait(run_id)
    row = rows(run_id)[1]
    plant(row, bytes(row.body or b"")[:-1])
    assert isinstance(engine.decide(wait), CheckpointChanged)
    plant(row, bytes(row.body or b""))
    engine.approve(run_id)
    plant(row, bytes(row.body or b"")[:-1])
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    assert "DIGEST_MISMATCH" in run.hold_detail


# ── retention ────────────────────────────────────────────────────────────────

PURGE = (
    "UPDATE checkpoints_checkpoint SET body = NULL, purged_at = clock_timestamp() WHERE run_id = %s AND revision = %s"
)


@pytest.mark.usefixtures("short_chains")
def test_a_body_that_a_later_one_rests_on_is_not_purged(engine: Engine) -> None:
    run_id, position = first(engine)
    for n in range(6):
        position = next_one(position, turn_no=n)
    for revision in (1, 4, 6):
        with pytest.raises(DatabaseError, match="stored as what changed since this one"):
            sql(PURGE, run_id, revision)
    for revision in (5, 4, 3, 2, 1):
        sql(PURGE, run_id, revision)
    with pytest.raises(Unreadable, match="purged"):
        load_snapshot(rows(run_id)[3])
    assert load_head(run_now(run_id)).revision == 7


# ── growth ───────────────────────────────────────────────────────────────────


def test_what_a_revision_takes_does_not_grow_with_what_came_before(engine: Engine) -> None:
    """P6, A-132: 300 revisions, each with one result more; the full ones aside, the last is as small as the first."""
    run_id, position = first(engine)
    for _ in range(299):
        position = next_one(position, results=(*position.snapshot.results, ref()))
    sizes = dict(sql("SELECT revision, length(body) FROM checkpoints_checkpoint WHERE run_id = %s", run_id))
    deltas = [sizes[n] for n in range(2, 301) if n not in (101, 201)]
    assert max(deltas) < 700
    assert max(deltas[-50:]) <= 1.2 * max(deltas[:50])
    assert sum(sizes.values()) / 300 < 1500
    logical = sum(row.body_bytes for row in rows(run_id))
    assert sum(sizes.values()) < logical / 20
    assert load_head(run_now(run_id)).snapshot == position.snapshot
    assert sql(
        "SELECT attstorage FROM pg_attribute WHERE attrelid = 'checkpoints_checkpoint'::regclass AND attname = 'body'"
    ) == [("e",)]


def test_two_candidates_of_one_save_are_each_a_delta(engine: Engine) -> None:
    _, position = first(engine)
    snapshot = position.snapshot.model_copy(
        update={"revision": 2, "parent_digest": position.digest, "nonce": token_hex(16)}
    )
    draft = Candidate(snapshot, Trigger.CURSOR, after=position.snapshot, base=position.parts)
    one, two = (
        proved(prepare(replace(draft, snapshot=with_phase(snapshot, phase))))
        for phase in ("DECISION_RECORDED", "READY_TO_VERIFY")
    )
    assert (one.encoding, two.encoding) == ("DELTA", "DELTA")
    assert one.digest != two.digest


def with_phase(snapshot: Snapshot, phase: str) -> Snapshot:
    return snapshot.model_copy(update={"phase": phase})
