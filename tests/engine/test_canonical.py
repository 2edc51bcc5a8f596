"""Canonical bytes: the keys made of them (T05), and what the strict parser refuses, with the place."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from runs.canonical import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INTEGER,
    NotCanonical,
    canonical,
    digest,
    idempotency_key,
    intent_key,
    parse,
)

RUN = UUID("0b1f6f3e-5c2e-4f0a-9a55-0d9b8d2f7a11")
STEP = "publish_report/overlap-v1"
ARGS = {"report_version": 1, "channel": "wiki", "title": "Overlap – A/B"}

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBERS = st.integers(-MAX_INTEGER, MAX_INTEGER) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXT
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)
ANY_TEXT = st.text(st.characters(exclude_categories=[]))
ANY_NUMBER = st.integers() | st.floats()
ANY_JSON = st.recursive(
    st.none() | st.booleans() | ANY_NUMBER | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=20,
)


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(NotCanonical) as refused:
        act()
    return str(refused.value)


def unless_refused(act: Callable[[], bytes]) -> bytes | None:
    """What it gives, or None where it is refused. Every refusal names a place."""
    try:
        return act()
    except NotCanonical as refused:
        said = str(refused)
    assert said.startswith("$")
    return None


# ── keys ─────────────────────────────────────────────────────────────────────


def test_the_key_of_the_vector() -> None:
    expected = "23b7fd7737c141ef1c632c3047c1dee8dfd23db28df74f6c99cc3cb2d2af0984"
    assert idempotency_key(run_id=RUN, step_name=STEP, args=ARGS) == expected
    assert idempotency_key(run_id=RUN, step_name=STEP, args=dict(reversed(ARGS.items()))) == expected


def test_the_key_changes_with_run_step_and_every_argument() -> None:
    other = UUID("0b1f6f3e-5c2e-4f0a-9a55-0d9b8d2f7a12")
    keys = [
        idempotency_key(run_id=RUN, step_name=STEP, args=ARGS),
        idempotency_key(run_id=other, step_name=STEP, args=ARGS),
        idempotency_key(run_id=RUN, step_name="publish_report/overlap-v2", args=ARGS),
        *(idempotency_key(run_id=RUN, step_name=STEP, args={**ARGS, name: None}) for name in ARGS),
        idempotency_key(run_id=RUN, step_name=STEP, args={**ARGS, "report_version": "1"}),
    ]
    assert len(set(keys)) == len(keys)


def test_the_intent_key_is_the_same_in_another_run() -> None:
    assert intent_key(step_name=STEP, args=ARGS) == digest(canonical({"v": 1, "step_name": STEP, "args": ARGS}))
    assert intent_key(step_name=STEP, args=ARGS) != intent_key(step_name=STEP, args={**ARGS, "channel": "console"})


def test_text_is_not_normalised() -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    assert intent_key(step_name=STEP, args={"t": composed}) != intent_key(step_name=STEP, args={"t": decomposed})


# ── the strict parser ────────────────────────────────────────────────────────

DEEP = MAX_DEPTH + 1


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('{"a":[1,{"b":NaN}]}', "$.a[1].b", "finite"),
        ('{"a":[Infinity]}', "$.a[0]", "finite"),
        ("[[-Infinity]]", "$[0][0]", "finite"),
        ('{"a":{"b":1e400}}', "$.a.b", "finite"),
        ('{"a":{"b":1,"b":2}}', "$.a", "'b' stands twice"),
        ('[0,{"x":[{"k":1,"k":1}]}]', "$[1].x[0]", "'k' stands twice"),
        ('{"a":[9007199254740992]}', "$.a[0]", "2^53"),
        ('{"a":[-9007199254740992]}', "$.a[0]", "2^53"),
        ('{"a":{"n":' + "9" * 5000 + "}}", "$.a.n", "2^53"),
        ('{"a":1e16}', "$.a", "2^53"),
        ('{"a":["x\\u0000y"]}', "$.a[0]", "NUL"),
        ('{"a":{"\\u0000":1}}', "$.a", "NUL"),
        ('{"a":["\\ud83c"]}', "$.a[0]", "surrogate"),
        ('{"a":{"\\udf55":1}}', "$.a", "surrogate"),
        ("[" * DEEP + "1" + "]" * DEEP, "$" + "[0]" * MAX_DEPTH, "deeper than 64"),
        ("[" * DEEP + "]" * DEEP, "$" + "[0]" * MAX_DEPTH, "deeper than 64"),
        ('{"a":' * DEEP + "1" + "}" * DEEP, "$" + ".a" * MAX_DEPTH, "deeper than 64"),
        ("[" * 100_000 + "]" * 100_000, "$", "deeper than 64"),
        ('"' + "x" * MAX_BYTES + '"', "$", f"at most {MAX_BYTES}"),
        ("{'a': 1}", "$", "not JSON"),
        ('{"a":1,}', "$", "not JSON"),
        ("[1] 2", "$", "not JSON"),
        ("", "$", "not JSON"),
        ("\ufeff{}", "$", "not JSON"),
        ('"raw\ud83csurrogate"', "$", "not JSON"),
        (b'"\xff"', "$", "not JSON"),
        (b'"\xed\xa0\xbc"', "$", "not JSON"),
    ],
)
def test_a_refusal_names_the_place_and_the_reason(text: str | bytes, place: str, reason: str) -> None:
    said = refusal(lambda: parse(text))
    assert said.startswith(f"{place}: ")
    assert reason in said


@pytest.mark.parametrize(
    ("text", "value", "plain"),
    [
        ("1E2", 100, b"100"),
        ("-0", 0, b"0"),
        ("-0.0", 0, b"0"),
        ("0.1", 0.1, b"0.1"),
        ("1e21", 1e21, b"1e+21"),
        ("9007199254740991", MAX_INTEGER, b"9007199254740991"),
        ('"\\ud83c\\udf55"', "🍕", '"🍕"'.encode()),
        ('{"b":1,"a":2}', {"a": 2, "b": 1}, b'{"a":2,"b":1}'),
        ('{"\\ufb33":1,"\\ud83d\\ude00":2}', {"😀": 2, "\ufb33": 1}, '{"😀":2,"\ufb33":1}'.encode()),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None, b"[" * MAX_DEPTH + b"]" * MAX_DEPTH),
    ],
)
def test_what_jsonb_and_python_rewrite_has_one_canonical_form(text: str, value: Any, plain: bytes) -> None:
    parsed = parse(text)
    assert value is None or parsed == value
    assert canonical(parsed) == plain


def test_a_type_tag_is_read_back_as_the_data_it_is() -> None:
    hostile = {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}
    assert parse(canonical({"args": hostile})) == {"args": hostile}


def cycle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        ({"a": [{1, 2}]}, "$.a[0]", "set is not JSON"),
        ({"a": b"x"}, "$.a", "bytes is not JSON"),
        ([Decimal("0.1")], "$[0]", "Decimal is not JSON"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "$.at", "datetime is not JSON"),
        ({"id": RUN}, "$.id", "UUID is not JSON"),
        ({"a": {1: 2}}, "$.a", "a key that is not text"),
        (cycle(), "$" + "[0]" * MAX_DEPTH, "deeper than 64"),
        ([float("nan")], "$[0]", "finite"),
        ([2**53], "$[0]", "2^53"),
        ([-(10**400)], "$[0]", "2^53"),
        ([2.0**53], "$[0]", "2^53"),
    ],
)
def test_a_value_that_is_not_json_is_refused_with_its_place(value: Any, place: str, reason: str) -> None:
    said = refusal(lambda: canonical(value))
    assert said.startswith(f"{place}: ")
    assert reason in said


# ── properties ───────────────────────────────────────────────────────────────


@given(ANY_JSON)
@example(1e16)
@example(1e20)
@example([2**53])
@example("\ud83c")
def test_what_is_accepted_is_read_back_equal_and_stable(value: Any) -> None:
    plain = unless_refused(lambda: canonical(value))
    if plain is None:
        return
    again = parse(plain, max_bytes=len(plain))
    assert again == value
    assert canonical(again) == plain


@given(ANY_JSON)
def test_what_the_parser_takes_is_stable_and_what_it_refuses_has_a_place(value: Any) -> None:
    text = json.dumps(value)
    plain = unless_refused(lambda: canonical(parse(text)))
    assert plain is None or canonical(parse(plain)) == plain


@given(JSON)
@example({"a": 1, "ß": 2, "\U0001f600": 3, "\ufb33": 4})
@example(["\x00".replace("\x00", "\x01"), "\x7f", "\u2028", '"\\/', True, None, 0, -1, MAX_INTEGER])
def test_the_quick_writer_gives_the_bytes_of_rfc_8785(value: Any) -> None:
    plain = unless_refused(lambda: canonical(value))
    assert plain is None or plain == rfc8785.dumps(value)


@given(JSON, JSON)
def test_equal_digests_mean_equal_values(left: Any, right: Any) -> None:
    one, other = unless_refused(lambda: canonical(left)), unless_refused(lambda: canonical(right))
    if one is None or other is None:
        return
    assert (one == other) == (parse(one) == parse(other) and json.dumps(parse(one)) == json.dumps(parse(other)))


@given(st.dictionaries(TEXT, LEAVES, min_size=2), st.randoms())
def test_the_order_of_keys_does_not_count(value: dict[str, Any], random: Any) -> None:
    pairs = list(value.items())
    random.shuffle(pairs)
    assert unless_refused(lambda: canonical(dict(pairs))) == unless_refused(lambda: canonical(value))


BAD = st.sampled_from([math.nan, math.inf, 2**53, 1e17, "\0", "\udc00", b"", {1}])
NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1)


@given(st.lists(st.integers(0, 3) | NAMES, max_size=MAX_DEPTH), BAD)
def test_the_place_of_a_planted_fault_is_named_exactly(steps: list[int | str], bad: Any) -> None:
    value, place = bad, ""
    for step in reversed(steps):
        value = [0] * step + [value] if isinstance(step, int) else {"": 0, step: value}
        place = (f"[{step}]" if isinstance(step, int) else f".{step}") + place
    assert refusal(lambda: canonical(value)).startswith(f"${place}: ")


# ── texts as they come from outside, with every trap that readers of JSON fall into ──

SPACE = st.sampled_from(["", " ", "\n", "\t ", "\r\n"])
DIGITS = st.integers(1, 25).flatmap(lambda size: st.text("0123456789", min_size=size, max_size=size))
WRITTEN_NUMBER = st.one_of(
    st.sampled_from(["1e400", "-1e400", "1E400", "NaN", "Infinity", "-Infinity", "1e-400", "-0", "-0.0", "1E2", "1.0"]),
    st.sampled_from([str(2**53 + n) for n in (-2, -1, 0, 1)] + [f"-{2**53 + n}" for n in (-2, -1, 0, 1)]),
    st.sampled_from(["01", "+1", ".5", "5.", "1e", "0x10", "1_000", "9" * 5000, "1e21", "1e20", "9007199254740992.0"]),
    st.builds("{}{}.{}e{}".format, st.sampled_from(["", "-"]), DIGITS, DIGITS, st.integers(-330, 330)),
)
WRITTEN_TEXT = st.lists(
    st.sampled_from(
        [
            "a",
            "ü",
            "🍕",
            "\\u0000",
            "\0",
            "\\ud83c",
            "\\udf55",
            "\\ud83c\\udf55",
            "\\u00e9",
            "\\n",
            "\n",
            "\\x",
            "\ufeff",
        ]
    ),
    max_size=5,
).map(lambda parts: '"' + "".join(parts) + '"')
WRITTEN = st.recursive(
    WRITTEN_NUMBER | WRITTEN_TEXT | st.sampled_from(["null", "true", "false", "nul", "True", "undefined", ""]),
    lambda inner: st.one_of(
        st.builds("[{}{}]".format, SPACE, st.lists(inner, max_size=4).map(",".join)),
        # the same few keys again and again, so that they stand twice
        st.lists(st.tuples(st.sampled_from(['"a"', '"b"', '"\\u0061"', '"\\u0000"']), inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"
        ),
        st.tuples(st.integers(60, 68), inner).map(lambda deep: "[" * deep[0] + deep[1] + "]" * deep[0]),
    ),
    max_leaves=8,
)


@given(WRITTEN)
@example("[" * 64 + "]" * 64)
@example("[" * 65 + "]" * 65)
@example('{"a":1,"\\u0061":2}')
def test_a_text_is_read_whole_and_stably_or_refused_with_its_place(text: str) -> None:
    """Section 1c: no trap crashes the parser, none is cleaned silently, and what is taken has one form for ever."""
    plain = unless_refused(lambda: canonical(parse(text)))
    if plain is None:
        return
    assert canonical(parse(plain)) == plain
    assert b"NaN" not in plain.replace(b'"NaN"', b"") and b"Infinity" not in plain
    assert depth_of(parse(text)) <= MAX_DEPTH
    assert parse(plain) == json.loads(text)


@given(WRITTEN)
def test_what_is_taken_from_outside_can_be_stored_in_the_database(text: str) -> None:
    """No NUL and no lone surrogate: PostgreSQL takes it as text, and any JSON reader takes the canonical bytes."""
    plain = unless_refused(lambda: canonical(parse(text)))
    if plain is not None:
        said = plain.decode("utf-8")
        assert "\0" not in said
        assert json.dumps(json.loads(said)).encode("ascii")


def read_and_write(text: str) -> bytes:
    return canonical(parse(text))


def depth_of(value: Any) -> int:
    """How many lists and objects are inside each other."""
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((depth_of(one) for one in inner), default=0)


@given(st.integers(-(2**64), 2**64) | st.integers(2**53 - 3, 2**53 + 3) | st.integers(-(2**53) - 3, -(2**53) + 3))
def test_an_integer_is_taken_exactly_up_to_2_53_minus_1(number: int) -> None:
    for written in (str(number), f"[{number}]", f'{{"n":{number}}}'):
        plain = unless_refused(partial(read_and_write, written))
        assert (plain is not None) == (abs(number) <= MAX_INTEGER)
        assert plain is None or plain == written.encode()


@given(st.integers(1, 90), st.sampled_from(["[]", "{}"]), st.booleans())
def test_64_levels_are_taken_and_65_are_refused(depth: int, kind: str, with_leaf: bool) -> None:
    opened, closed = ("[", "]") if kind == "[]" else ('{"a":', "}")
    inner = "1" if with_leaf or kind == "{}" else ""
    taken = unless_refused(lambda: canonical(parse(opened * depth + inner + closed * depth))) is not None
    assert taken == (depth <= MAX_DEPTH)


@given(JSON, st.sampled_from(["a", "ß", ""]), LEAVES, LEAVES)
def test_a_key_that_stands_twice_is_refused_wherever_it_stands(around: Any, key: str, one: Any, other: Any) -> None:
    name = json.dumps(key)
    twice = f"{{{name}:{json.dumps(one)},{name}:{json.dumps(other)}}}"
    said = unless_refused(lambda: canonical(parse(f'{{"x":{json.dumps(around)},"y":[{twice}]}}')))
    assert said is None


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    plain = unless_refused(lambda: canonical(parse(data)))
    assert plain is None or canonical(parse(plain)) == plain
