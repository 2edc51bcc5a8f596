"""One byte of what was approved, changed by direct SQL past every trigger: nothing is sent, and each time people see what moved."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

import pytest

from accounts.selectors import sealed_body
from approvals.models import Decision, Vote, Wait
from checkpoints.models import Checkpoint, Head
from receipts.models import Attempt, ToolCall
from receipts.selectors import call_arguments
from runs.models import Refusal
from runtime.loop import drive
from tests.engine.engine import Engine, call_named, open_wait, run_now, sql_past_triggers
from tests.engine.races import undone
from tests.scripted import SCRIPT, calls

LABEL = "pay 100.00 to account 4711"


@dataclass(frozen=True)
class Change:
    """One column of one row, as it will be."""

    table: str
    key: str
    row: object
    column: str
    value: object

    def make(self) -> None:
        sql_past_triggers(f"UPDATE {self.table} SET {self.column} = %s WHERE {self.key} = %s", self.value, self.row)

    def __str__(self) -> str:
        return f"{self.table}.{self.column} = {self.value!r}"


def flipped(body: bytes, bits: int) -> Iterator[bytes]:
    """The bytes with these bits of one byte turned over, for each place."""
    for place in range(len(body)):
        other = bytearray(body)
        other[place] ^= bits
        yield bytes(other)


def respelt(text: str) -> Iterator[str]:
    """The text with one character changed, for each place."""
    for place, letter in enumerate(text):
        yield text[:place] + ("0" if letter != "0" else "1") + text[place + 1 :]


def changed_bodies(call: ToolCall) -> Iterator[Change]:
    """The stored bytes of the arguments, and the arguments themselves, sealed anew with the tenant's key as who holds it could."""
    of_call = partial(Change, "receipts_toolcall", "id", call.id, "args")
    for bits in (1, 2, 4, 8, 16, 32, 64, 128):
        yield from (of_call(body) for body in flipped(bytes(call.args), bits))
        for plain in flipped(call_arguments(call), bits):
            yield of_call(sealed_body(key_id=call.data_key_id, plain=plain))


def changed_texts(call: ToolCall, wait: Wait) -> Iterator[Change]:
    """Every copy of a digest, a name or a version by which call, wait, decision, vote and checkpoint are bound."""
    decision, head = Decision.objects.get(wait=wait), Head.objects.get(run_id=call.run_id)
    saved = Checkpoint.objects.get(run_id=call.run_id, revision=wait.checkpoint_revision)
    bound: list[tuple[str, str, object, object, tuple[str, ...]]] = [
        *(
            ("receipts_toolcall", "id", call.id, call, (column,))
            for column in (
                "args_digest",
                "idempotency_key",
                "intent_key",
                "tool_hash",
                "tool_version",
                "step_name",
                "tool",
            )
        ),
        ("approvals_wait", "id", wait.id, wait, ("args_digest", "checkpoint_digest", "tool_hash", "policy_version")),
        ("approvals_decision", "wait_id", wait.id, decision, ("seen_args_digest", "seen_digest")),
        ("approvals_vote", "wait_id", wait.id, Vote.objects.get(wait=wait), ("seen_args_digest", "seen_digest")),
        ("checkpoints_checkpoint", "save_id", saved.pk, saved, ("digest",)),
        ("checkpoints_head", "run_id", call.run_id, head, ("digest",)),
    ]
    for table, key, row, stored, columns in bound:
        for column in columns:
            yield from (Change(table, key, row, column, text) for text in respelt(getattr(stored, column)))


def changed_others(call: ToolCall, wait: Wait) -> Iterator[Change]:
    """What else a dispatch goes by, and the stored bytes of the checkpoint."""
    head = Head.objects.get(run_id=call.run_id)
    saved = Checkpoint.objects.get(run_id=call.run_id, revision=wait.checkpoint_revision)
    for by in (-1, 1):
        yield Change("approvals_wait", "id", wait.id, "checkpoint_revision", wait.checkpoint_revision + by)
    for effect in ("READ_ONLY", "IDEMPOTENT", "QUERYABLE"):
        yield Change("receipts_toolcall", "id", call.id, "effect_class", effect)
    yield Change("approvals_wait", "id", wait.id, "quorum", 2)
    yield Change("approvals_vote", "wait_id", wait.id, "verdict", "REJECT")
    yield Change("approvals_vote", "wait_id", wait.id, "actor", "person:nobody")
    yield Change("approvals_decision", "wait_id", wait.id, "verdict", "REJECT")
    yield Change("checkpoints_head", "run_id", call.run_id, "revision", head.revision - 1)
    for body in islice(flipped(bytes(saved.body or b""), 1), 0, None, 10):
        yield Change("checkpoints_checkpoint", "save_id", saved.pk, "body", body)


# What an operator reads of a change, on the run that is held or on the wait that became void.
READ = {
    "receipts_toolcall.args": "its arguments are not those that were recorded",
    "receipts_toolcall.args_digest": "its arguments are not those that were recorded",
    "receipts_toolcall.idempotency_key": "its key is not that of its run, step and arguments",
    "receipts_toolcall.intent_key": "its intent is not that of its step and arguments",
    "receipts_toolcall.step_name": "its key is not that of its run, step and arguments",
    "receipts_toolcall.tool": "its tool is not that of its step",
    "receipts_toolcall.tool_hash": "its tool is not the one that people were asked about",
    "receipts_toolcall.tool_version": "its version and effect class are not those of its tool",
    "receipts_toolcall.effect_class": "its version and effect class are not those of its tool",
    "approvals_wait.args_digest": "its decision is not about what its wait is bound to",
    "approvals_wait.checkpoint_digest": "its decision is not about what its wait is bound to",
    "approvals_wait.checkpoint_revision": "its decision is not about what its wait is bound to",
    "approvals_wait.tool_hash": "its tool is not the one that people were asked about",
    "approvals_wait.policy_version": "the policy was changed after it was approved",
    "approvals_wait.quorum": "fewer people than the wait asks for",
    "approvals_decision.seen_args_digest": "its decision is not about what its wait is bound to",
    "approvals_decision.seen_digest": "its decision is not about what its wait is bound to",
    "approvals_decision.verdict": "approved without a decision that says so",
    "approvals_vote.seen_args_digest": "fewer people than the wait asks for",
    "approvals_vote.seen_digest": "fewer people than the wait asks for",
    "approvals_vote.verdict": "fewer people than the wait asks for",
    "approvals_vote.actor": "who approved it, may not decide here any more",
    "checkpoints_checkpoint.digest": "DIGEST_MISMATCH",
    "checkpoints_checkpoint.body": "the stored bytes were changed",
    "checkpoints_head.digest": "DIGEST_MISMATCH",
    "checkpoints_head.revision": "DIGEST_MISMATCH",
}


def read_by_people(wait: Wait) -> str:
    """What stands on the run that is held, or on the wait that is asked about anew."""
    run, after = run_now(wait.run_id), Wait.objects.get(id=wait.id)
    assert Refusal.objects.filter(run_id=wait.run_id).exists()
    if run.status == "HELD":
        assert run.hold_reason == "RESUME_REFUSED"
        return run.hold_detail
    assert (run.status, after.status) == ("WAITING", "INVALIDATED")
    assert open_wait(run.id).tool_call_id == wait.tool_call_id
    return after.status_reason


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.matrix)])
def test_a_thousand_changes_after_the_approval_send_nothing_and_each_is_shown(engine: Engine, step: int) -> None:
    """S20, V02, V21. Each is tried on the same approval and taken back; what people read names what moved."""
    run_id = engine.run(calls(("once", LABEL)))
    engine.approve(run_id)
    call, wait = call_named(run_id, LABEL), Wait.objects.get(run_id=run_id, status="APPROVED")
    changes = list(chain(changed_bodies(call), changed_texts(call, wait), changed_others(call, wait)))
    assert len(changes) > 1000
    tried = [*{f"{one.table}.{one.column}": one for one in changes}.values(), *changes[::step]]
    for change in tried:
        with undone():
            change.make()
            drive(run_id)
            assert READ[f"{change.table}.{change.column}"] in read_by_people(wait), change
            assert not Attempt.objects.filter(tool_call=call).exists(), change
    assert SCRIPT.labels("once") == []
    assert {f"{change.table}.{change.column}" for change in tried} == set(READ)


def test_what_is_put_right_is_asked_about_anew_and_sent_once(engine: Engine) -> None:
    run_id = engine.run(calls(("once", LABEL)))
    engine.approve(run_id)
    call = call_named(run_id, LABEL)
    next(changed_bodies(call)).make()
    drive(run_id)
    Change("receipts_toolcall", "id", call.id, "args", bytes(call.args)).make()
    engine.resume(run_id)
    drive(run_id)
    assert SCRIPT.labels("once") == []
    engine.approve(run_id)
    drive(run_id)
    assert SCRIPT.labels("once") == [LABEL]


def test_one_changed_byte_before_the_decision_is_refused_to_every_verdict(engine: Engine, wait: Wait) -> None:
    call = ToolCall.objects.get(id=wait.tool_call_id)
    for change in islice(changed_bodies(call), 0, None, 40):
        with undone():
            change.make()
            for verdict in ("APPROVE", "REJECT"):
                assert getattr(engine.decide(wait, verdict), "code", "") == "ARGS_CHANGED"
    assert Wait.objects.get(id=wait.id).status == "OPEN"
