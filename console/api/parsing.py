"""How request bodies and query strings are read: strictly. What is not understood is refused, never left out."""

from collections.abc import Mapping
from typing import IO, Any

from django.http import QueryDict
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from runs.canonical import MAX_BYTES, NotCanonical, parse


class StrictJSONParser(BaseParser):
    """JSON under the rules of `runs.canonical`: no duplicate keys, no NaN, bounded depth, size and integers."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise ParseError(f"The body was not accepted. It has more than {MAX_BYTES} bytes.")
        try:
            return parse(body)
        except NotCanonical as error:
            raise ParseError(f"The body was not accepted. {error}.") from error


class Text(serializers.CharField):
    """Text as it was sent: numbers are not turned into it, nothing is trimmed. The services judge what it says."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, allow_blank=True, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """A whole number of four bytes, not negative. In JSON it has to be a number."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"min_value": 0, "max_value": 2**31 - 1, **options})

    def to_internal_value(self, data: Any) -> int:
        written = isinstance(data, str) and not isinstance(self.root.initial_data, QueryDict)
        if written or isinstance(data, bool | float):
            self.fail("invalid")
        return super().to_internal_value(data)


class Strict(serializers.Serializer[Any]):
    """A body or a query string in which every field has to be known, and stands once."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            refused = {str(name): ["There is no such field."] for name in data if name not in self.fields}
            if isinstance(data, QueryDict):
                refused |= {name: ["It stands more than once."] for name in self._repeated(data)}
            if refused:
                raise serializers.ValidationError(refused)
        return super().to_internal_value(data)

    def _repeated(self, data: QueryDict) -> list[str]:
        single = {name for name, field in self.fields.items() if not isinstance(field, serializers.ListField)}
        return [name for name, values in data.lists() if name in single and len(values) > 1]


def read(form: type[Strict], data: Any) -> dict[str, Any]:
    """What a body or a query string says, by field. Raises ValidationError naming every field that does not fit."""
    reading = form(data=data)
    reading.is_valid(raise_exception=True)
    said: dict[str, Any] = reading.validated_data
    return said


class NoBody(Strict):
    """Nothing: the address says it all."""


class ReasonBody(Strict):
    """Why a person does this."""

    reason = Text()
