"""Limits: what fits is stored whole, what does not is refused by its place before anything is written; growth is linear."""

import os
from typing import Any
from uuid import uuid4

import pytest

from accounts.keys import new_id
from checkpoints.envelope import Contract, Promise, ResultRef
from checkpoints.models import Checkpoint
from checkpoints.selectors import load_head
from checkpoints.services import prepare
from checkpoints.statements import Candidate, Prepared
from checkpoints.states import NotSaved, Trigger
from receipts.selectors import call_arguments, result_bytes
from runs.canonical import MAX_BYTES, MAX_DEPTH, NotCanonical, canonical, digest, parse
from runs.models import Run
from runs.selectors import artifact_bytes
from runs.services import artifact_store
from tests.contract.refusals import refused
from tests.contract.store import Store, Worker, stored
from tests.engine.engine import sql


def outcome_of(worker: Worker, **fields: Any) -> Prepared | NotSaved:
    """What becomes of the next revision with these fields, unchecked until the store looks."""
    snapshot = worker.next()
    draft = type(snapshot).model_construct(**vars(snapshot) | fields)
    return prepare(Candidate(draft, Trigger.CURSOR, after=worker.position.snapshot))


def refused_at(outcome: Prepared | NotSaved) -> tuple[str, str]:
    assert isinstance(outcome, NotSaved), outcome
    return outcome.kind, outcome.path


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 65_536, 1_000_000])
def test_a_result_of_any_size_comes_back_whole(worker: Worker, size: int) -> None:
    value = {"text": "x" * size}
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, value)
    assert result_bytes(stored(call).result) == canonical(value)


def test_arguments_of_the_largest_size_come_back_whole(worker: Worker) -> None:
    args = {"text": "y" * (MAX_BYTES - 20)}
    call = worker.new_call(args=args, send=False)
    worker.turn_with(call)
    assert call_arguments(stored(call)) == canonical(args)


def test_bytes_that_do_not_compress_come_back_whole(store: Store) -> None:
    data = os.urandom(4_000_000)
    sha256 = artifact_store(tenant_id=store.tenant.id, data=data, media_type="application/octet-stream")
    assert artifact_bytes(tenant_id=store.tenant.id, sha256=sha256) == data


def test_a_text_longer_than_the_limit_is_refused_before_it_is_read(store: Store) -> None:
    with pytest.raises(NotCanonical, match=f"at most {MAX_BYTES}"):
        parse('"' + "x" * MAX_BYTES + '"')


@pytest.mark.parametrize(("depth", "fits"), [(1, True), (MAX_DEPTH, True), (MAX_DEPTH + 1, False), (5000, False)])
def test_what_is_nested_deeper_than_the_limit_is_refused(depth: int, fits: bool) -> None:
    text = "[" * depth + "]" * depth
    if fits:
        assert canonical(parse(text)) == text.encode()
    else:
        with pytest.raises(NotCanonical, match="deeper than 64"):
            parse(text)


NOTE_LIMITS: list[tuple[str, Any, Any, str]] = [
    ("next_node", "n" * 128, "n" * 129, "$.next_node"),
    ("turn_no", 0, -1, "$.turn_no"),
    ("message_seq", 0, -1, "$.message_seq"),
    ("superstep", 0, -1, "$.superstep"),
]


@pytest.mark.parametrize(("field", "most", "beyond", "path"), NOTE_LIMITS)
def test_each_field_is_stored_up_to_its_limit_and_refused_beyond(
    worker: Worker, field: str, most: Any, beyond: Any, path: str
) -> None:
    assert isinstance(outcome_of(worker, **{field: most}), Prepared)
    assert refused_at(outcome_of(worker, **{field: beyond})) == ("FIELD_LIMIT", path)


def test_a_barrier_has_at_most_64_calls(worker: Worker) -> None:
    assert refused_at(outcome_of(worker, barrier=tuple(uuid4() for _ in range(65)))) == ("FIELD_LIMIT", "$.barrier")


def test_a_note_refers_to_at_most_2000_results(worker: Worker) -> None:
    ref = ResultRef(call=uuid4(), step_name="s", key="a" * 64, digest="a" * 64, ok=True)
    assert refused_at(outcome_of(worker, results=(ref,) * 2001)) == ("FIELD_LIMIT", "$.results")


@pytest.mark.parametrize(("length", "fits"), [(4000, True), (4001, False)])
def test_a_goal_has_at_most_4000_characters(worker: Worker, length: int, fits: bool) -> None:
    now = worker.position.snapshot.contract
    contract = Contract.model_construct(**vars(now) | {"goal": "g" * length})
    outcome = outcome_of(worker, contract=contract)
    assert isinstance(outcome, Prepared) == fits
    if not fits:
        assert refused_at(outcome) == ("FIELD_LIMIT", "$.contract.goal")


def test_a_contract_has_at_most_200_promises(worker: Worker) -> None:
    now = worker.position.snapshot.contract
    promise = Promise(step_name="s", statement="Do it.", status="OPEN")
    contract = Contract.model_construct(**vars(now) | {"obligations": (promise,) * 201})
    assert refused_at(outcome_of(worker, contract=contract)) == ("FIELD_LIMIT", "$.contract.obligations")


def test_a_refused_note_leaves_nothing_anywhere(worker: Worker) -> None:
    before = sql("SELECT count(*) FROM checkpoints_checkpoint")
    outcome_of(worker, next_node="n" * 1000)
    assert sql("SELECT count(*) FROM checkpoints_checkpoint") == before
    assert load_head(worker.run) == worker.position


def test_a_refusal_holds_the_digest_of_what_was_refused_and_not_its_text(worker: Worker) -> None:
    outcome = outcome_of(worker, next_node="secret" * 100)
    assert isinstance(outcome, NotSaved)
    assert outcome.evidence == digest(canonical("secret" * 100))
    assert "secret" not in repr(outcome)


def test_the_largest_note_is_stored_and_read_back(worker: Worker) -> None:
    """As many references as a note may have, to one stored result."""
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, {"v": 1})
    refs = worker.position.snapshot.results * 2000
    worker.save(results=refs)
    assert len(load_head(worker.run).snapshot.results) == 2000


def test_what_a_result_weighs_does_not_weigh_on_the_revisions_after_it(worker: Worker) -> None:
    """A note refers to results; it does not carry them (B40)."""
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, {"text": "z" * 500_000})
    for _ in range(5):
        worker.save()
    sizes = Checkpoint.objects.filter(run=worker.run).values_list("body_bytes", flat=True)
    assert max(sizes) < 2000


def test_history_grows_with_the_revisions_and_not_with_their_square(worker: Worker) -> None:
    for _ in range(20):
        worker.save()
    ((stored_bytes,),) = sql(
        "SELECT sum(octet_length(body)) FROM checkpoints_checkpoint WHERE run_id = %s", worker.run.id
    )
    ((first,),) = sql("SELECT max(octet_length(body)) FROM checkpoints_checkpoint WHERE run_id = %s", worker.run.id)
    assert stored_bytes <= 21 * first


@pytest.mark.parametrize("length", [201, 10_000])
def test_a_name_longer_than_its_column_is_refused_and_not_cut(store: Store, length: int) -> None:
    assert "too long" in refused(lambda: store.admit(key="k" * length))
    assert not Run.objects.filter(admission_key__startswith="kkkk").exists()


def test_fifty_calls_of_one_turn_are_recorded_at_once(worker: Worker) -> None:
    calls = [worker.new_call(f"c{n}") for n in range(50)]
    assert worker.turn_with(*calls).started == 50
    assert worker.run.tool_calls.filter(status="DISPATCHED").count() == 50


def test_ids_are_given_in_about_the_order_of_their_making() -> None:
    ids = [new_id() for _ in range(100)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 100
