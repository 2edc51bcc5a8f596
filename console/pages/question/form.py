"""The fields of an answer as a page shows them, and what was sent read back into JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from approvals.questions import Form
from approvals.questions.form import (
    ChoiceField,
    ChoicesField,
    DayField,
    FormField,
    NumberField,
    TextField,
    WholeField,
    YesNoField,
)

LINE = 200  # a text that may be longer gets more than one line
_PREFIX = "f-"


@dataclass(frozen=True)
class Choice:
    """One value that can be chosen."""

    value: str
    words: str
    chosen: bool


@dataclass(frozen=True)
class Shown:
    """One field of a form. `control` names how it is typed: text, lines, number, date, choice, choices. `offered` is what the
    form proposes for it: shown beside the field, and taken by a click only, so that nothing is sent that nobody chose.
    """

    name: str
    label: str
    help: str
    control: str
    required: bool
    typed: str
    choices: tuple[Choice, ...]
    limits: str
    error: str
    offered: tuple[str, ...] = ()

    @property
    def offered_words(self) -> str:
        """The proposed value in words, one line for several."""
        return ", ".join(one.capitalize() if self.yes_or_no else one for one in self.offered)

    @property
    def offered_json(self) -> str:
        """The proposed values as the button carries them."""
        return json.dumps(self.offered)

    @property
    def yes_or_no(self) -> bool:
        return [one.value for one in self.choices] == ["yes", "no"]

    @property
    def chosen_from(self) -> bool:
        """Whether it is answered by choosing, not by typing."""
        return self.control in ("choice", "choices")

    @property
    def sent_as(self) -> str:
        """The name under which it is sent."""
        return f"{_PREFIX}{self.name}"


def shown_fields(form: Form, sent: QueryDict | None, faults: Mapping[str, str]) -> list[Shown]:
    """The fields of a form with what was typed. Nothing is filled in and nothing chosen before a person has done so."""
    return [_shown(name, field, form, sent, faults.get(name, "")) for name, field in form.fields.items()]


def _shown(name: str, field: FormField, form: Form, sent: QueryDict | None, error: str) -> Shown:
    typed = () if sent is None else tuple(sent.getlist(f"{_PREFIX}{name}"))
    return Shown(
        name=name,
        label=field.title or name.replace("_", " ").capitalize(),
        help=field.description,
        control=_control(field),
        required=name in form.required,
        typed=typed[0] if typed else "",
        choices=_choices(field, typed),
        limits=_limits(field),
        error=error,
        offered=_offered(field),
    )


def _offered(field: FormField) -> tuple[str, ...]:
    default = getattr(field, "default", None)
    if default is None:
        return ()
    if isinstance(default, tuple):
        return tuple(default)
    return (("yes" if default else "no") if isinstance(default, bool) else f"{default}",)


def _control(field: FormField) -> str:
    if isinstance(field, TextField):
        return "lines" if field.maxLength > LINE else "text"
    kinds = {NumberField: "number", WholeField: "number", DayField: "date", ChoicesField: "choices"}
    return kinds.get(type(field), "choice")


def _choices(field: FormField, typed: tuple[str, ...]) -> tuple[Choice, ...]:
    if isinstance(field, YesNoField):
        return tuple(Choice(value, value.capitalize(), value in typed) for value in ("yes", "no"))
    values = (
        field.enum if isinstance(field, ChoiceField) else field.items.enum if isinstance(field, ChoicesField) else ()
    )
    return tuple(Choice(value, value, value in typed) for value in values)


def _limits(field: FormField) -> str:
    """What an answer has to be like, in words; nothing where anything of its kind is taken."""
    if isinstance(field, DayField):
        return "a day, as YYYY-MM-DD, 2026-09-30 say"
    said = field.model_dump(include=field.model_fields_set)
    words = {
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minItems": "choose at least {}",
        "maxItems": "choose at most {}",
        "pattern": "matches {}",
    }
    kinds = {WholeField: ["a whole number"], NumberField: ["a number"]}.get(type(field), [])
    return ", ".join([*kinds, *(text.format(said[key]) for key, text in words.items() if key in said)])


def sent_fields(form: Form, sent: QueryDict) -> dict[str, Any]:
    """What was typed, as JSON. A field that was left empty is left out; what can't be read as its kind goes on as it was typed,
    and the service refuses it by its name.
    """
    read = {name: _value(field, sent.getlist(f"{_PREFIX}{name}")) for name, field in form.fields.items()}
    return {name: value for name, value in read.items() if value is not None}


def _value(field: FormField, typed: list[str]) -> Any:
    if isinstance(field, ChoicesField):
        return typed or None
    text = typed[0].replace("\r\n", "\n") if typed else ""
    if not text.strip():
        return None
    if isinstance(field, YesNoField):
        return {"yes": True, "no": False}.get(text, text)
    if isinstance(field, WholeField | NumberField):
        return _number(text.strip(), whole=isinstance(field, WholeField))
    return text


def _number(text: str, *, whole: bool) -> Any:
    if "_" in text:  # Python reads it as nothing; whoever typed it may have meant a decimal point
        return text
    try:
        return int(text) if whole or text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text
