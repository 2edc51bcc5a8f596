"""How a question's form is shown: nothing is chosen and nothing filled in for a person, and what is wanted is said."""

from typing import Any

from django.http import QueryDict

from approvals.questions import form_of
from console.pages.question.form import Shown, sent_fields, shown_fields

CLEANING = {
    "type": "object",
    "properties": {
        "months": {"type": "integer", "title": "Older than (months)", "minimum": 1, "default": 1},
        "originals": {"type": "boolean", "title": "Delete the originals", "default": True},
        "folders": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "default": ["a", "c"]},
        "until": {"type": "string", "format": "date", "default": "2026-12-31"},
        "how": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
        "note": {"type": "string", "default": "as usual"},
    },
    "required": ["months", "originals"],
}


def fields(sent: str | None = None) -> dict[str, Shown]:
    asked = form_of(CLEANING)
    return {one.name: one for one in shown_fields(asked, QueryDict(sent) if sent is not None else None, {})}


def test_no_field_says_anything_before_a_person_has() -> None:
    shown = fields().values()
    assert [one.typed for one in shown] == [""] * len(CLEANING["properties"])
    assert not any(choice.chosen for one in shown for choice in one.choices)


def test_what_a_form_proposes_is_told_beside_its_field_and_sent_by_nobody() -> None:
    offered: dict[str, Any] = {name: one.offered_words for name, one in fields().items()}
    assert offered == {
        "months": "1",
        "originals": "Yes",
        "folders": "a, c",
        "until": "2026-12-31",
        "how": "fast",
        "note": "as usual",
    }
    assert fields()["folders"].offered_json == '["a", "c"]'
    assert sent_fields(form_of(CLEANING), QueryDict("")) == {}


def test_what_was_typed_stays_and_the_proposal_stays_beside_it() -> None:
    shown = fields("f-months=24&f-originals=no")
    assert (shown["months"].typed, shown["months"].offered_words) == ("24", "1")
    assert [choice.chosen for choice in shown["originals"].choices] == [False, True]


def test_a_field_says_which_form_of_day_and_number_it_wants() -> None:
    shown = fields()
    assert shown["until"].limits == "a day, as YYYY-MM-DD, 2026-09-30 say"
    assert shown["months"].limits == "a whole number, at least 1"
