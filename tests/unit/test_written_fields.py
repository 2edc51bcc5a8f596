"""The arguments of a call in fields: only what was changed changes, by its own kind, and to the byte."""

from typing import Any

import pytest

from console.pages.decision.written import FieldFault, changed_by_fields, fields_of

CALL: dict[str, Any] = {
    "account": "DE02\u200b1203",
    "amount": 12,
    "rate": 1.5,
    "urgent": False,
    "to": ["desk@a.example", "head@a.example"],
    "note": "one\r\ntwo",
    "empty": None,
    "none": [],
    "of": {"first name": "Ann"},
}


def sent() -> dict[str, str]:
    """What a browser sends of the fields as they are shown: a text of several lines comes with its own line ends."""
    return {field.name: field.typed.replace("\n", "\r\n").replace("\r\r", "\r") for field in fields_of(CALL, {})}


def test_each_leaf_that_can_be_typed_has_a_field_by_its_path() -> None:
    assert [(field.path, field.control) for field in fields_of(CALL, {})] == [
        ("account", "line"),
        ("amount", "number"),
        ("rate", "number"),
        ("urgent", "yes"),
        ("to[0]", "line"),
        ("to[1]", "line"),
        ("note", "lines"),
        ('of["first name"]', "line"),
    ]


def test_a_field_says_when_it_holds_what_nobody_can_see_in_it() -> None:
    assert [field.path for field in fields_of(CALL, {}) if field.odd] == ["account", "note"]


def test_what_was_not_touched_stays_to_the_byte() -> None:
    assert changed_by_fields(CALL, sent()) == CALL
    assert changed_by_fields(CALL, {}) == CALL


def test_one_field_changes_one_value_and_keeps_its_kind() -> None:
    changed = changed_by_fields(
        CALL, {"leaf-1": " 13 ", "leaf-3": "true", "leaf-5": "desk@b.example", "leaf-6": "a\r\nb"}
    )
    assert changed == CALL | {
        "amount": 13,
        "urgent": True,
        "to": ["desk@a.example", "desk@b.example"],
        "note": "a\nb",
    }
    assert CALL["to"][1] == "head@a.example"


@pytest.mark.parametrize(
    ("name", "typed", "path"),
    [
        ("leaf-1", "twelve", "amount"),
        ("leaf-1", "true", "amount"),
        ("leaf-1", "NaN", "amount"),
        ("leaf-3", "1", "urgent"),
    ],
)
def test_what_is_no_value_of_its_kind_is_refused_by_its_path(name: str, typed: str, path: str) -> None:
    with pytest.raises(FieldFault) as fault:
        changed_by_fields(CALL, {name: typed})
    assert fault.value.path == path


def test_arguments_with_many_leaves_are_changed_as_json() -> None:
    assert fields_of({"rows": [str(number) for number in range(61)]}, {}) == []
