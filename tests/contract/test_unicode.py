"""Text is kept as it is: not normalised, not cleaned, not cut. What can't be stored is refused by its place."""

from typing import Any

import pytest
from django.db import DataError

from accounts.selectors import sealed_body
from checkpoints.selectors import load_head
from checkpoints.services import SaveRefused, prepare
from checkpoints.statements import Candidate
from checkpoints.states import NotSaved, Trigger
from receipts.selectors import call_arguments, result_bytes, sealed_turns
from runs.canonical import NotCanonical, canonical, digest, idempotency_key, parse
from runs.models import Run, RunInput, Thread
from runs.selectors import messages_of, run_inputs
from tests.contract.refusals import refused
from tests.contract.store import Store, Worker, stored
from tests.engine.engine import sql

TEXTS = {
    "german": "Größe: 12,5 % über dem Maß",
    "chinese": "报告第二版",
    "arabic": "تقرير",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈",
    "astral": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "combining": "e\u0301 a\u0308",
    "precomposed": "\u00e9 \u00e4",
    "zero width": "a\u200b\u200c\u200d\ufeffb",
    "bidirectional": "abc\u202edcba\u202c\u2066x\u2069",
    "tags": "\U000e0041\U000e007f",
    "controls": "\x01\x02\x1b[31m\x7f\x85",
    "line ends": "a\r\nb\nc\rd\u2028e\u2029f",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "private use": "\ue000\uf8ff",
    "replacement": "\ufffd",
    "spaces": "  \u00a0\u3000 x \t ",
    "quotes": 'it\'s "quoted" \\ $$ %s {} %(run)s',
    "sql": "'); DROP TABLE runs_run; --",
}
FORBIDDEN = {"a NUL": "a\0b", "a lone high surrogate": "a\ud83c", "a lone low surrogate": "\udf55b"}


@pytest.mark.parametrize("what", TEXTS)
def test_text_comes_back_as_it_was_given_from_every_place(store: Store, what: str) -> None:
    text = TEXTS[what]
    worker = store.worker(goal=f"goal {text}", inputs={"a": ("a.csv", text.encode())})
    call = worker.new_call(args={text: [text]})
    worker.ask()
    worker.seal(call, body=canonical({"text": text, "proposals": []}))
    worker.record(call, {"v": text})
    worker.save(next_node=text[:128])
    assert [said for _, said in messages_of(worker.run)] == [f"goal {text}"]
    assert run_inputs(worker.run) == {"a": text.encode()}
    assert sealed_turns(tenant_id=store.tenant.id, run_id=worker.run.id)[0].text == text
    assert call_arguments(stored(call)) == canonical({text: [text]})
    assert result_bytes(stored(call).result) == canonical({"v": text})
    snapshot = load_head(worker.run).snapshot
    assert (snapshot.next_node, snapshot.contract.goal) == (text[:128], f"goal {text}")


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_has_no_canonical_bytes_is_refused_by_its_place(worker: Worker, what: str) -> None:
    with pytest.raises(NotCanonical, match=r"^\$\.a\[1\]: "):
        canonical({"a": ["x", FORBIDDEN[what]]})
    snapshot = worker.next()
    draft = type(snapshot).model_construct(**vars(snapshot) | {"next_node": FORBIDDEN[what]})
    outcome = prepare(Candidate(draft, Trigger.CURSOR, after=worker.position.snapshot))
    assert isinstance(outcome, NotSaved)
    assert (outcome.kind, outcome.path) == ("SCHEMA", "$.next_node")


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_can_not_be_stored_is_refused_and_never_cleaned(store: Store, what: str) -> None:
    """LangGraph strips a NUL and reads something else back; here the write is refused whole."""
    before = Run.objects.count()
    with pytest.raises((ValueError, DataError, SaveRefused)):
        store.admit(goal=f"goal {FORBIDDEN[what]}")
    assert Run.objects.count() == before


def test_a_pair_of_surrogates_is_the_character_that_it_stands_for(worker: Worker) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, {"v": "\N{SLICE OF PIZZA}"})
    assert result_bytes(stored(call).result) == b'{"v":"\xf0\x9f\x8d\x95"}'


def test_composed_and_decomposed_text_are_two_texts(worker: Worker) -> None:
    """Normalising would make one key of two different arguments."""
    keys = {
        idempotency_key(run_id=worker.run.id, step_name="s", args={"label": text}) for text in ("\u00e9", "e\u0301")
    }
    assert len(keys) == 2


def test_case_and_width_and_space_are_kept_apart_in_keys(store: Store) -> None:
    threads = [store.admit(thread=name).thread_id for name in ("key", "KEY", "key ", "\uff4b\uff45\uff59")]
    assert len(set(threads)) == 4


def test_a_thread_key_in_any_script_finds_its_thread(store: Store) -> None:
    for what in ("chinese", "emoji", "arabic", "combining"):
        run = store.admit(thread=TEXTS[what])
        assert Thread.objects.get(tenant=store.tenant, key=TEXTS[what]).id == run.thread_id


def test_a_file_name_is_kept_as_it_was_given(store: Store) -> None:
    name = "Bericht № 2 – ü\u202excod.csv"
    run = store.admit(inputs={"a": (name, b"x")})
    assert RunInput.objects.get(run=run).filename == name


def test_bytes_that_are_no_text_are_an_input_all_the_same(store: Store) -> None:
    data = b"\xff\xfe\x00\xd8broken"
    run = store.admit(inputs={"a": ("a.bin", data)})
    assert run_inputs(run) == {"a": data}


def test_the_order_of_keys_in_a_body_is_the_canonical_one(worker: Worker) -> None:
    """RFC 8785 sorts by UTF-16 code units: an emoji comes before U+FB33."""
    call = worker.new_call(args={"\ufb33": 1, "\U0001f600": 2, "b": 3, "a": 4})
    worker.turn_with(call)
    assert call_arguments(stored(call)).decode() == '{"a":4,"b":3,"\U0001f600":2,"\ufb33":1}'


@pytest.mark.parametrize("number", ["1e-7", "1e21", "1.50"])
def test_a_digest_does_not_hang_on_how_the_database_writes_a_number(worker: Worker, number: str) -> None:
    """The stored bytes are ours: a jsonb column would have given back another text for the same value."""
    value: Any = {"n": parse(number)}
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, value)
    result = stored(call).result
    assert digest(result_bytes(result)) == result.digest == digest(canonical(value))
    ((rewritten,),) = sql("SELECT (%s::jsonb)::text", f'{{"n":{number}}}')
    assert rewritten.replace(" ", "").encode() != canonical(value)


def test_what_the_database_refuses_in_its_own_text_is_sealed_in_ours(worker: Worker) -> None:
    """Bodies are bytes: no encoding of the server has a say in them."""
    body = sealed_body(key_id=worker.key_id, plain=b"\x00\xff\xd8")
    assert b"\x00\xff\xd8" not in body
    assert refused(lambda: sql("SELECT %s::text", "a\0b"))
