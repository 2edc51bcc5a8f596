"""Forms: which keywords one may use, and what may be answered. Nothing is coerced, cleaned or filled in."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from approvals.questions import FormFault, form_of
from runs.canonical import canonical
from runtime.tools.ask import AskPerson
from runtime.tools.registry import TOOLS, misdeclared

FIELDS: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
    "one": {"type": "string", "enum": ["a", "b"]},
    "some": {"type": "array", "items": {"type": "string", "enum": ["p", "q", "r"]}, "minItems": 1, "maxItems": 2},
    "day": {"type": "string", "format": "date"},
    "whole": {"type": "integer", "minimum": 1, "maximum": 5},
    "number": {"type": "number", "minimum": -1.5, "maximum": 1.5},
    "yes": {"type": "boolean"},
}
GOOD = {"text": "abc", "one": "a", "some": ["q", "p"], "day": "2028-02-29", "whole": 5, "number": 1, "yes": False}


def form(*required: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields or FIELDS, "required": list(required)}


def test_every_kind_of_field_takes_what_it_says() -> None:
    assert form_of(form(*FIELDS)).faults(GOOD) == []
    assert form_of(form()).faults({}) == []


WRONG: dict[str, list[Any]] = {
    "text": ["a", "abcde", "ABC", "ab1", 3, None, ["ab"]],
    "one": ["c", "A", "", 1, ["a"]],
    "some": [[], ["p", "p"], ["p", "q", "r"], ["x"], ["x", "y"], "p", {}],
    "day": ["2027-02-29", "2027-2-1", "01.02.2027", "2027-01-01T00:00:00", 20270101],
    "whole": [0, 6, 1.5, "3", True],
    "number": [-2, 1.6, "1", True, None],
    "yes": ["true", 1, 0, None],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_what_does_not_fit_is_named_by_its_field(field: str, value: Any) -> None:
    (fault,) = form_of(form(*FIELDS)).faults(GOOD | {field: value})
    assert fault.field == field and fault.why


def test_what_is_missing_and_what_is_unknown_are_named_at_once() -> None:
    faults = form_of(form("one", "day")).faults({"one": "a", "more": 1})
    assert {fault.field: fault.why for fault in faults} == {
        "day": "an answer is needed",
        "more": "the form has no such field",
    }


def test_a_default_is_never_an_answer() -> None:
    asked = form_of(form("one", one={"type": "string", "enum": ["a", "b"], "default": "a"}))
    assert [fault.field for fault in asked.faults({})] == ["one"]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ([], "form"),
        ({"type": "array", "properties": {"a": FIELDS["yes"]}}, "form.type"),
        ({"type": "object"}, "form.properties"),
        ({"type": "object", "properties": {}}, "form.properties"),
        (form(a=FIELDS["yes"]) | {"oneOf": []}, "form.oneOf"),
        (form(a=FIELDS["yes"]) | {"additionalProperties": True}, "form.additionalProperties"),
        (form("b", a=FIELDS["yes"]), "form.required"),
        (form(**{"a b": FIELDS["yes"]}), "form.properties.a b"),
        (form(a="text"), "form.properties.a"),
        (form(a={"type": "object", "properties": {}}), "form.properties.a.type"),
        (form(a={"type": ["string", "null"]}), "form.properties.a.type"),
        (form(a={"type": "string", "format": "email"}), "form.properties.a.format"),
        (form(a={"type": "string", "const": "x"}), "form.properties.a.const"),
        (form(a={"type": "string", "enum": []}), "form.properties.a.enum"),
        (form(a={"type": "string", "enum": ["x", "x"]}), "form.properties.a.enum"),
        (form(a={"type": "string", "enum": ["x"], "maxLength": 3}), "form.properties.a.maxLength"),
        (form(a={"type": "string", "pattern": "(?=x)"}), "form.properties.a.pattern"),
        (form(a={"type": "string", "pattern": "("}), "form.properties.a.pattern"),
        (form(a={"type": "string", "minLength": 5, "maxLength": 2}), "form.properties.a.minLength"),
        (form(a={"type": "integer", "multipleOf": 2}), "form.properties.a.multipleOf"),
        (form(a={"type": "integer", "minimum": 1.5}), "form.properties.a.minimum"),
        (form(a={"type": "integer", "maximum": 3, "default": 4}), "form.properties.a.default"),
        (form(a={"type": "number", "exclusiveMinimum": 0}), "form.properties.a.exclusiveMinimum"),
        (form(a={"type": "array", "items": {"type": "number"}}), "form.properties.a.items.type"),
        (
            form(a={"type": "array", "items": {"type": "string", "enum": ["x"]}, "uniqueItems": False}),
            "form.properties.a.uniqueItems",
        ),
        (form(**{f"f{n}": FIELDS["yes"] for n in range(41)}), "form.properties"),
    ],
)
def test_a_keyword_that_is_not_supported_is_refused_by_its_place(schema: Any, place: str) -> None:
    with pytest.raises(FormFault) as refused:
        form_of(schema)
    assert refused.value.place == place or refused.value.place.startswith(f"{place}.")
    assert str(refused.value).startswith(place) and refused.value.why


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # where the machine is busy
@given(
    st.dictionaries(
        st.sampled_from(sorted(FIELDS)), st.one_of(st.text(), st.integers(), st.booleans(), st.lists(st.text()))
    )
)
def test_whatever_is_answered_is_taken_as_it_is_or_refused_by_known_fields(said: dict[str, Any]) -> None:
    faults = form_of(form()).faults(said)
    assert {fault.field for fault in faults} <= set(said)


def test_a_pattern_of_a_model_takes_no_longer_the_longer_a_text_is_written() -> None:
    asked = form_of(form(a={"type": "string", "pattern": "^(a+)+$"}))
    assert [fault.field for fault in asked.faults({"a": "a" * 9_000 + "b"})] == ["a"]


# ── when an agent is registered ──────────────────────────────────────────────


class Fixed(AskPerson):
    form = form(one=FIELDS["one"])


class Faulty(AskPerson):
    form = form(one={"type": "string", "format": "time"})


def test_an_agent_whose_own_form_can_not_be_shown_is_refused_by_the_place() -> None:
    assert misdeclared(TOOLS["ask_person"], ()) is None
    assert misdeclared(Fixed(), ()) is None
    said = misdeclared(Faulty(), ())
    assert said is not None and said.startswith("form.properties.one.format")


def test_the_form_of_a_tool_is_that_of_all_its_questions() -> None:
    args = Fixed().complete(AskPerson.arguments.model_validate_json(canonical({"question": "Which?"})), [])
    assert (args.model_dump()["answer"], args.model_dump()["form"]) == ("form", dict(Fixed.form))
