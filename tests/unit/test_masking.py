"""Masking without a store: which values go, and what stands in their place."""

import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.policies import Mark, mark_at, read, texts_at, value_without, veil, without
from runtime.contracts import Arguments, Sensitive
from runtime.tools.registry import tool_marks
from tests.scripted_tools import Pay


def shown(value: Any, *paths: str) -> Any:
    return veil(value, [mark_at(path) for path in paths], digest=lambda plain: f"{len(plain):012d}")


def test_a_marked_value_is_replaced_by_its_type_its_length_and_a_digest() -> None:
    value = {"a": "secret", "b": 12, "c": True, "d": {"x": 1}, "e": [1, 2], "f": None, "g": "open"}
    veiled = shown(value, "a", "b", "c", "d", "e", "f")
    assert veiled.value == {
        "a": "masked text of 6 characters, digest 000000000008",
        "b": "masked number of 2 characters, digest 000000000002",
        "c": "masked boolean, digest 000000000004",
        "d": "masked object of 1 field, digest 000000000007",
        "e": "masked list of 2 items, digest 000000000005",
        "f": None,
        "g": "open",
    }
    assert veiled.paths == ("a", "b", "c", "d", "e")


def test_a_path_goes_through_lists_and_a_star_stands_for_any_name() -> None:
    value = {"to": [{"iban": "AAAA"}, {"iban": "BBBB", "who": {"name": "C"}}], "first name": "D"}
    assert shown(value, "to.iban").paths == ("to[0].iban", "to[1].iban")
    assert shown(value, "to.who.*").paths == ("to[1].who.name",)
    assert shown(value, "*").paths == ("to", '["first name"]')
    assert shown(value, "to.iban.deeper", "nowhere").value == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(rest=JSON, secret=st.text(alphabet="abcdef0123456789-", min_size=8), key=st.text(min_size=1, max_size=5))
def test_nothing_of_a_marked_value_is_left_wherever_else_it_stands(rest: Any, secret: str, key: str) -> None:
    secret = f"§{secret}§"
    texts = texts_at({"hidden": {key: [secret]}, "rest": rest}, [mark_at("hidden")])
    echoed = value_without({"a": f"x{secret}y", secret: rest, "b": [secret]}, texts)
    assert secret not in json.dumps(echoed, ensure_ascii=False)
    assert secret not in without(json.dumps({"said": secret}), texts)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("paid 4812 of 4812.", "paid masked of masked."),
        ("14812 48123 4812.50 4.4812", "14812 48123 4812.50 4.4812"),
        ("it is 4812, no more", "it is masked, no more"),
    ],
)
def test_a_number_is_replaced_where_it_stands_by_itself(text: str, left: str) -> None:
    assert without(text, texts_at({"cents": 4812}, [mark_at("cents")])) == left


def test_what_is_too_short_to_be_told_from_other_words_is_not_looked_for() -> None:
    assert texts_at({"pin": "123", "yes": True, "n": 999}, [mark_at("*")]) == ()


def test_a_tool_marks_fields_in_nested_and_listed_models() -> None:
    assert tool_marks(Pay()) == (
        Mark(("number",), audited=True),
        Mark(("cents",)),
        Mark(("payees", "name")),
    )


def test_a_mark_changes_nothing_of_what_a_tool_asks_for() -> None:
    class Plain(Arguments):
        iban: str

    class Marked(Arguments):
        iban: Annotated[str, Sensitive(audited=True)]

    plain, marked = Plain.model_json_schema(), Marked.model_json_schema()
    assert marked | {"title": "Plain"} == plain


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ("arguments = []", "at least 1"),
        ('arguments = ["to..iban"]', "write the path of an argument"),
        ('arguments = ["a"]\nshown_to = "payroll"', 'write "group:NAME"'),
        ('arguments = ["a"]\nsee = true', "there is no such field"),
        ('tools = ["раy"]\narguments = ["a"]', "no tool or agent has that in its name"),
    ],
)
def test_a_faulty_mask_is_refused_with_its_place(mask: str, said: str) -> None:
    found = read(f'[[mask]]\n{mask}\n[[rule]]\nname = "x"\nthen = "ask"\n')
    assert found.document is None and said in found.faults[0].said, found.faults
    assert found.faults[0].field.startswith("mask.0.")
