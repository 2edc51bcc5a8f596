"""A form from a JSON schema: which keywords it may use, and what people may answer to it.

A small part of JSON Schema 2020-12, read by pydantic: an object whose properties are texts, numbers, yes or no, days, one of
several values, or some of several values. Every other keyword is refused by its place, when an agent is registered or a model
proposes it. Patterns are those of pydantic's own engine, which takes linear time on whatever people write.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import SchemaError

FIELDS_MOST = 40
CHOICES_MOST = 100
TEXT_MOST = 10_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SAFE = 2**53 - 1

T = TypeVar("T")


class FormFault(ValueError):
    """A form that people can't be shown. `place` is the keyword in it, with dots."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place
        self.why = why


@dataclass(frozen=True)
class FieldFault:
    """Why the answer to one field can't be taken."""

    field: str
    why: str


def _apart(values: tuple[T, ...]) -> tuple[T, ...]:
    if len(set(values)) != len(values):
        raise ValueError("the same value twice")
    return values


Label = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Choices = Annotated[tuple[Label, ...], Field(min_length=1, max_length=CHOICES_MOST), AfterValidator(_apart)]
Count = Annotated[int, Field(ge=0, le=TEXT_MOST)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-_SAFE, le=_SAFE)]
Whole = Annotated[int, Field(ge=-_SAFE, le=_SAFE)]


def _day(text: str) -> str:
    """A day as JSON Schema writes it."""
    if len(text) != len("2000-01-01") or not text.isascii():
        raise ValueError("write it as YYYY-MM-DD")
    date.fromisoformat(text)
    return text


class FormField(BaseModel, ABC):
    """What every field may say of itself. The subclasses are the kinds of fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    title: Annotated[str, StringConstraints(max_length=200)] = ""
    description: Annotated[str, StringConstraints(max_length=1000)] = ""

    @property
    @abstractmethod
    def values(self) -> Any:
        """The annotation of what may be answered."""


class TextField(FormField):
    """A text on one line or several."""

    type: Literal["string"]
    minLength: Count = 0  # noqa: N815 - the keywords are JSON Schema's
    maxLength: Count = TEXT_MOST  # noqa: N815
    pattern: Annotated[str, StringConstraints(max_length=500)] | None = None
    default: str | None = None

    @property
    def values(self) -> Any:
        return Annotated[
            str, StringConstraints(min_length=self.minLength, max_length=self.maxLength, pattern=self.pattern)
        ]


class DayField(FormField):
    """A day, as YYYY-MM-DD."""

    type: Literal["string"]
    format: Literal["date"]
    default: str | None = None

    @property
    def values(self) -> Any:
        return Annotated[str, AfterValidator(_day)]


class ChoiceField(FormField):
    """One of several values."""

    type: Literal["string"]
    enum: Choices
    default: str | None = None

    @property
    def values(self) -> Any:
        return Literal[self.enum]


class NumberField(FormField):
    """A number."""

    type: Literal["number"]
    minimum: Number = -_SAFE
    maximum: Number = _SAFE
    default: Number | None = None

    @property
    def values(self) -> Any:
        return Annotated[float, Field(ge=self.minimum, le=self.maximum, allow_inf_nan=False)]


class WholeField(FormField):
    """A whole number."""

    type: Literal["integer"]
    minimum: Whole = -_SAFE
    maximum: Whole = _SAFE
    default: Whole | None = None

    @property
    def values(self) -> Any:
        return Annotated[int, Field(ge=self.minimum, le=self.maximum)]


class YesNoField(FormField):
    """Yes or no."""

    type: Literal["boolean"]
    default: bool | None = None

    @property
    def values(self) -> Any:
        return bool


class Items(BaseModel):
    """What the values of a ChoicesField are."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["string"]
    enum: Choices


class ChoicesField(FormField):
    """Some of several values, each once."""

    type: Literal["array"]
    items: Items
    minItems: Count = 0  # noqa: N815
    maxItems: Count = CHOICES_MOST  # noqa: N815
    uniqueItems: Literal[True] = True  # noqa: N815
    default: tuple[str, ...] | None = None

    @property
    def values(self) -> Any:
        chosen = Field(min_length=self.minItems, max_length=self.maxItems)
        one: Any = Literal[self.items.enum]
        return Annotated[tuple[one, ...], chosen, AfterValidator(_apart)]


_KINDS: Mapping[str, type[FormField]] = {
    "number": NumberField,
    "integer": WholeField,
    "boolean": YesNoField,
    "array": ChoicesField,
}
# The pairs of keywords of which the first may not be more than the second.
_ORDERED = (("minLength", "maxLength"), ("minimum", "maximum"), ("minItems", "maxItems"))


class _Schema(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["object"]
    title: Annotated[str, StringConstraints(max_length=200)] = ""
    description: Annotated[str, StringConstraints(max_length=1000)] = ""
    properties: Annotated[dict[str, Any], Field(min_length=1, max_length=FIELDS_MOST)]
    required: tuple[str, ...] = ()
    additionalProperties: Literal[False] = False  # noqa: N815


@dataclass(frozen=True)
class Form:
    """The fields of a form in the order in which they are shown, by name, and which of them have to be answered."""

    title: str
    description: str
    fields: Mapping[str, FormField]
    required: frozenset[str]

    def faults(self, said: Mapping[str, Any]) -> list[FieldFault]:
        """Why an answer can't be taken, field by field; nothing where it can. Nothing is coerced, cleaned or filled in."""
        try:
            self._answers.model_validate_json(json.dumps(dict(said)))
        except ValidationError as error:
            found = error.errors(include_url=False)
            faults = {_named(one["loc"]): _OF_ANSWER.get(one["type"]) or _said(one) for one in reversed(found)}
            return [FieldFault(field, why) for field, why in reversed(faults.items())]
        return []

    @cached_property
    def _answers(self) -> type[BaseModel]:
        fields: dict[str, Any] = {
            f"of_{name}": (field.values, Field(default=... if name in self.required else None, alias=name))
            for name, field in self.fields.items()
        }
        return create_model("Answers", __config__=ConfigDict(extra="forbid", strict=True), **fields)


def form_of(schema: Any) -> Form:
    """The form that a JSON schema describes: what is required stands first, in its order, the rest by name. Raises FormFault, naming the place of the first thing that can't be used."""
    read = _read(_Schema, schema, "form")
    unknown = sorted(set(read.required) - read.properties.keys())
    if unknown:
        raise FormFault("form.required", f"there is no property {unknown[0]}")
    # Canonical JSON keeps the order of a list, and sorts the names of an object.
    ordered = dict.fromkeys([*read.required, *sorted(read.properties)])
    fields = {name: _field(name, read.properties[name]) for name in ordered}
    return Form(read.title, read.description, fields, frozenset(read.required))


def _field(name: str, spec: Any) -> FormField:
    place = f"form.properties.{name[:64]}"
    if not _NAME.fullmatch(name):
        raise FormFault(place, "a name is letters, digits and underscores, at most 64")
    field = _read(_kind_of(spec, place), spec, place)
    said = field.model_dump()
    for least, most in _ORDERED:
        if least in said and said[least] > said[most]:
            raise FormFault(f"{place}.{least}", f"it is more than {most}")
    try:
        values: TypeAdapter[Any] = TypeAdapter(field.values, config=ConfigDict(strict=True))
        if said["default"] is not None:
            values.validate_json(json.dumps(said["default"]))
    except SchemaError as error:
        raise FormFault(f"{place}.pattern", "it can't be used as a pattern here") from error
    except ValidationError as error:
        raise FormFault(f"{place}.default", _said(error.errors(include_url=False)[0])) from error
    return field


def _kind_of(spec: Any, place: str) -> type[FormField]:
    if not isinstance(spec, Mapping):
        raise FormFault(place, "a property is an object")
    if spec.get("type") == "string":
        return ChoiceField if "enum" in spec else DayField if "format" in spec else TextField
    kind = _KINDS.get(str(spec.get("type")))
    if kind is None:
        raise FormFault(f"{place}.type", f"it is one of string, {', '.join(_KINDS)}")
    return kind


M = TypeVar("M", bound=BaseModel)


def _read(model: type[M], spec: Any, place: str) -> M:
    try:
        return model.model_validate_json(json.dumps(spec))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = _OF_SCHEMA.get(first["type"]) or _said(first)
        raise FormFault(".".join([place, *(str(part) for part in first["loc"])]), said) from error


def _named(place: tuple[int | str, ...]) -> str:
    return str(place[0]).removeprefix("of_")


# What pydantic says in words of models.
_OF_SCHEMA = {"missing": "it is needed", "extra_forbidden": "this keyword is not supported"}
_OF_ANSWER = {"missing": "an answer is needed", "extra_forbidden": "the form has no such field"}


def _said(error: Any) -> str:
    """What is wrong, in pydantic's words."""
    said = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return said[:1].lower() + said[1:]
