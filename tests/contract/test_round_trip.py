"""What is put is got: every field, every type, byte for byte, at the head and at every revision before it."""

from secrets import token_hex
from typing import Any

import pytest
from django.db import connection

from accounts.keys import new_id
from checkpoints.envelope import Promise
from checkpoints.errors import Unreadable
from checkpoints.models import Checkpoint, Head, Intent, Obligation
from checkpoints.selectors import checkpoint_of, checkpoint_view, has_head, load_head, load_snapshot, verified_body
from checkpoints.states import Phase, Trigger
from receipts.selectors import call_arguments, result_bytes, sealed_turns
from runs.canonical import canonical, digest
from runs.models import Budget, Lease, Run, RunTransition
from runs.selectors import artifact_bytes, messages_of, run_inputs
from runs.services import artifact_store
from tests.contract.refusals import refused
from tests.contract.store import CAPS, Store, Worker, stored
from tests.engine.engine import sql_past_triggers

# ── admission ──


def test_a_new_run_has_one_revision_which_is_its_head(store: Store) -> None:
    run = store.admit()
    head = Head.objects.get(run=run)
    assert (head.revision, head.phase, head.trigger) == (1, "READY_TO_DECIDE", "INIT")
    assert Checkpoint.objects.get(run=run).digest == head.digest


def test_a_new_run_is_queued_under_a_free_lease_at_fence_0(store: Store) -> None:
    run = store.admit()
    lease = Lease.objects.get(run=run)
    assert (run.status, lease.fence, lease.owner, lease.stop_requested) == ("QUEUED", 0, None, False)


def test_a_new_run_has_its_caps_goal_and_first_transition(store: Store) -> None:
    run = store.admit(goal="Say hello.")
    caps = dict(Budget.objects.filter(run=run, cap__isnull=False).values_list("unit", "cap"))
    assert caps == CAPS
    assert Intent.objects.get(run=run).goal == "Say hello."
    assert [row.cause for row in RunTransition.objects.filter(run=run)] == ["ADMITTED"]


def test_inputs_come_back_byte_for_byte(store: Store) -> None:
    inputs = {"a": ("a.csv", bytes(range(256))), "b": ("b.csv", b"")}
    run = store.admit(inputs=inputs)
    assert run_inputs(run) == {name: data for name, (_, data) in inputs.items()}


def test_what_the_person_said_comes_back(store: Store) -> None:
    run = store.admit(goal="Grüß Gott\n\tund 你好")
    assert [(row.role, row.seq, text) for row, text in messages_of(run)] == [("user", 1, "Grüß Gott\n\tund 你好")]


def test_a_promise_is_stored_open_and_carried_by_the_note(store: Store) -> None:
    run = store.admit(obligations={"tool/a": "Do a."})
    assert Obligation.objects.get(run=run).status == "OPEN"
    contract = load_head(run).snapshot.contract
    assert contract.obligations == (Promise(step_name="tool/a", statement="Do a.", status="OPEN"),)


def test_a_run_that_was_never_admitted_has_no_head(store: Store) -> None:
    assert not has_head(new_id())


# ── revisions ──


def test_a_saved_note_is_read_back_equal(worker: Worker) -> None:
    worker.save()
    position = load_head(worker.run)
    assert position == worker.position


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("next_node", "x" * 128),
        ("turn_no", 2**53 - 1),
        ("superstep", 7),
        ("message_seq", 12),
        ("nonce", "f" * 32),
        ("manifest_digest", "a" * 64),
    ],
)
def test_each_field_of_a_note_is_read_back_equal(worker: Worker, field: str, value: Any) -> None:
    worker.save(**{field: value})
    assert getattr(load_head(worker.run).snapshot, field) == value


def test_the_stored_bytes_are_the_canonical_ones_with_the_stored_digest(worker: Worker) -> None:
    outcome = worker.save()
    row = checkpoint_of(run_id=worker.run.id, revision=outcome.revision)
    plain = verified_body(row)
    assert plain == worker.position.snapshot.body()
    assert digest(plain) == row.digest == outcome.digest
    assert row.body_bytes == len(plain)


def test_the_envelope_says_what_the_note_says(worker: Worker) -> None:
    worker.save(Phase.DECISION_RECORDED, next_node="route")
    row = Checkpoint.objects.get(run=worker.run, revision=2)
    assert (row.phase, row.next_node, row.trigger, row.format_version) == ("DECISION_RECORDED", "route", "CURSOR", 1)
    assert (row.fence, row.tenant_id, row.intent_version) == (worker.holding.fence, worker.run.tenant_id, 1)


def test_a_revision_names_the_digest_of_the_one_before(worker: Worker) -> None:
    first = worker.position.digest
    worker.save()
    assert Checkpoint.objects.get(run=worker.run, revision=2).parent_digest == first
    assert Checkpoint.objects.get(run=worker.run, revision=1).parent_digest is None


def test_every_old_revision_stays_readable_as_it_was(worker: Worker) -> None:
    notes = [worker.position.snapshot]
    for node in ("a", "b", "c"):
        worker.save(next_node=node)
        notes.append(worker.position.snapshot)
    rows = Checkpoint.objects.filter(run=worker.run).order_by("revision")
    assert [load_snapshot(row) for row in rows] == notes


def test_saving_changes_nothing_of_what_was_given(worker: Worker) -> None:
    snapshot = worker.next(next_node="n")
    before = snapshot.body()
    worker.send(worker.prepared(snapshot))
    assert snapshot.body() == before


def test_a_revision_can_be_viewed_as_json(worker: Worker) -> None:
    worker.save(next_node="n")
    viewed = checkpoint_view(checkpoint_of(run_id=worker.run.id, revision=2))
    assert canonical(viewed) == worker.position.snapshot.body()


def test_two_equal_notes_have_different_digests(store: Store) -> None:
    """The nonce keeps a digest from being guessed, and two runs from sharing one."""
    one, other = store.worker(), store.worker()
    one.save()
    other.save()
    assert one.position.digest != other.position.digest


@pytest.mark.parametrize("trigger", [Trigger.CURSOR, Trigger.AFTER_EFFECT, Trigger.COMPACTION, Trigger.CLOSING])
def test_the_reason_of_a_save_is_kept(worker: Worker, trigger: Trigger) -> None:
    worker.send(worker.prepared(worker.next(), trigger))
    assert Head.objects.get(run=worker.run).trigger == trigger


# ── turns, calls and results ──


def test_a_sealed_turn_comes_back_as_it_was_said(worker: Worker) -> None:
    body = canonical({"text": "Let me see.", "proposals": [{"tool": "tool", "args": {"label": "a"}}]})
    worker.ask()
    worker.seal(worker.new_call(send=False), body=body)
    (turn,) = sealed_turns(tenant_id=worker.run.tenant_id, run_id=worker.run.id)
    assert (turn.turn_no, turn.text) == (1, "Let me see.")
    assert list(turn.proposed) == [{"tool": "tool", "args": {"label": "a"}}]


def test_the_usage_of_a_turn_is_kept(worker: Worker) -> None:
    worker.turn_with()
    turn = worker.run.model_calls.get()
    assert (turn.status, turn.input_tokens, turn.output_tokens, turn.response_id) == ("SEALED", 10, 5, "r")


VALUES: dict[str, Any] = {
    "text": "Umlaute äöü, 你好, 🍕",
    "empty text": "",
    "true": True,
    "false": False,
    "null": None,
    "zero": 0,
    "largest integer": 2**53 - 1,
    "smallest integer": -(2**53) + 1,
    "fraction": 0.1,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "empty list": [],
    "empty object": {},
    "nested": {"a": [{"b": [[], {}, None]}, "c"]},
    "escapes": 'a"b\\c\n\t\r\b\f\x1f',
    "line separators": "\u2028\u2029",
}


@pytest.mark.parametrize("kind", VALUES)
def test_arguments_come_back_byte_for_byte(worker: Worker, kind: str) -> None:
    args = {"value": VALUES[kind]}
    call = worker.new_call(args=args, send=False)
    worker.turn_with(call)
    assert call_arguments(stored(call)) == canonical(args)


@pytest.mark.parametrize("kind", VALUES)
def test_results_come_back_byte_for_byte(worker: Worker, kind: str) -> None:
    value = {"value": VALUES[kind]}
    call = worker.new_call()
    worker.turn_with(call)
    assert worker.record(call, value).done
    result = stored(call).result
    assert result_bytes(result) == canonical(value)
    assert result.digest == digest(canonical(value))


def test_a_result_is_referred_to_by_the_head_that_came_with_it(worker: Worker) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, {"v": 1})
    assert load_head(worker.run).snapshot.results == (worker.ref(call, {"v": 1}),)


def test_a_failure_is_a_result_too(worker: Worker) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, {"error": "no"}, ok=False)
    found = stored(call)
    assert (found.status, found.error, found.result.ok, found.result.source) == ("FAILED", "it failed", False, "LIVE")


def test_an_effect_is_kept_with_its_result(worker: Worker) -> None:
    call = worker.new_call(effect="IDEMPOTENT")
    worker.turn_with(call)
    worker.record(call, {"v": 1})
    effect = worker.run.effects.get()
    assert (effect.tool_call_id, effect.idempotency_key, effect.external_ref) == (call.id, call.idempotency_key, "ref")
    assert (effect.target, effect.payload_digest) == ("elsewhere", call.args_digest)


def test_a_reading_leaves_no_effect(worker: Worker) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, {"v": 1})
    assert not worker.run.effects.exists()


def test_an_artifact_comes_back_byte_for_byte(store: Store) -> None:
    data = bytes(range(256)) * 10
    sha256 = artifact_store(tenant_id=store.tenant.id, data=data, media_type="application/octet-stream")
    assert sha256 == digest(data)
    assert artifact_bytes(tenant_id=store.tenant.id, sha256=sha256) == data


def test_nothing_that_was_said_stands_readable_in_the_database(store: Store) -> None:
    secret = "canary" + token_hex(8)
    worker = store.worker(inputs={"a": ("a.csv", secret.encode())})
    call = worker.new_call(args={"label": secret}, step_name="tool/x")
    worker.ask()
    worker.seal(call, body=canonical({"text": secret, "proposals": []}))
    worker.record(call, {"v": secret})
    with connection.cursor() as cursor:
        for table in ("runs_artifact", "receipts_toolcall", "receipts_result", "checkpoints_checkpoint"):
            cursor.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s", [f"%{secret}%"])
            assert cursor.fetchone() == (0,), table
            cursor.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s", [f"%{secret.encode().hex()}%"])
            assert cursor.fetchone() == (0,), table


# ── what is kept, and what can't be read ──


def test_a_revision_can_not_be_deleted_or_changed(worker: Worker) -> None:
    assert "Cannot delete" in refused(lambda: Checkpoint.objects.filter(run=worker.run).delete())
    assert "Cannot update" in refused(lambda: Checkpoint.objects.filter(run=worker.run).update(phase="FINISHED"))


def test_a_run_can_not_be_deleted(worker: Worker) -> None:
    assert "Cannot delete" in refused(lambda: Run.objects.filter(id=worker.run.id)._raw_delete("default"))


def test_a_purged_revision_keeps_its_envelope_and_says_that_it_was_purged(worker: Worker) -> None:
    sql_past_triggers(
        "UPDATE checkpoints_checkpoint SET body = NULL, purged_at = clock_timestamp() WHERE run_id = %s",
        worker.run.id,
    )
    row = checkpoint_of(run_id=worker.run.id, revision=1)
    with pytest.raises(Unreadable, match="the body was purged"):
        load_snapshot(row)
    assert (row.phase, len(row.digest)) == ("READY_TO_DECIDE", 64)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE checkpoints_checkpoint SET body = overlay(body placing '\\x00' from 20) WHERE run_id = %s", "changed"),
        ("UPDATE checkpoints_checkpoint SET body = substr(body, 1, 5) WHERE run_id = %s", "changed"),
        ("UPDATE checkpoints_checkpoint SET digest = repeat('0', 64) WHERE run_id = %s", "head"),
        ("UPDATE checkpoints_checkpoint SET format_version = 99 WHERE run_id = %s", "SCHEMA"),
    ],
)
def test_a_head_that_was_tampered_with_is_refused_and_never_repaired(worker: Worker, change: str, said: str) -> None:
    sql_past_triggers(change, worker.run.id)
    with pytest.raises(Unreadable, match=said):
        load_head(worker.run)


def test_the_bytes_of_another_revision_are_not_taken_for_this_one(worker: Worker) -> None:
    """Sealed with the same key and valid in themselves: the digest says that they belong elsewhere."""
    worker.save()
    sql_past_triggers(
        "UPDATE checkpoints_checkpoint c SET body = o.body FROM checkpoints_checkpoint o "
        "WHERE c.run_id = %s AND c.revision = 2 AND o.run_id = c.run_id AND o.revision = 1",
        worker.run.id,
    )
    with pytest.raises(Unreadable, match="DIGEST_MISMATCH"):
        load_head(worker.run)


def test_a_body_that_names_a_type_is_only_data(worker: Worker) -> None:
    """CVE-2025-64439: what other stores revive as an object is read back as the text it is."""
    hostile = {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}
    call = worker.new_call(args=hostile)
    worker.turn_with(call)
    worker.record(call, hostile)
    assert result_bytes(stored(call).result) == canonical(hostile)
