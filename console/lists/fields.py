"""The typed filters of a list. A value that one can't take is answered with a sentence, never left out."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.dateparse import parse_date, parse_datetime

from accounts.states import Actor
from runs.states import tag_fault, typed_tags

TEXT_LIMIT = 200
COUNT_LIMIT = 1000
FEW = 200  # where no index helps to count
_AGO = re.compile(r"(\d{1,5})\s*(min|h|d)")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_TAIL = re.compile(r"…?([0-9a-f-]{4,36})")

Rows = QuerySet[Any]
Narrow = Callable[[Rows, Any], Rows]
Options = Sequence[tuple[str, str]]


def by(lookup: str) -> Narrow:
    """Narrowing by one lookup with the value that was read."""
    return lambda rows, value: rows.filter(**{lookup: value})


def only(**lookups: Any) -> Narrow:
    """Narrowing by fixed lookups: what a flag stands for."""
    return lambda rows, _: rows.filter(**lookups)


class BadValue(ValueError):
    """A value that a filter can't take. The message is the sentence beside the field."""


@dataclass(frozen=True)
class Field(ABC):
    """One filter: its name in the URL, its label, and how it narrows the rows by the value that it has read. `counted` is how far what
    passes it is counted: each row that does not pass is read on the way.
    """

    name: str
    label: str
    narrow: Narrow
    help: str = ""

    widget = "text"
    many = False
    counted = COUNT_LIMIT

    @abstractmethod
    def read(self, given: Sequence[str], actor: Actor) -> Any:
        """The value of what was given, which is not empty. Raises BadValue."""

    def options(self, actor: Actor) -> Options:
        """What can be picked, as value and word; nothing where it is typed."""
        return ()


@dataclass(frozen=True)
class Words(Field):
    """Typed text on one line."""

    counted = FEW

    def read(self, given: Sequence[str], actor: Actor) -> str:
        text = given[-1].strip()
        if len(text) > TEXT_LIMIT:
            raise BadValue(f"It is longer than {TEXT_LIMIT} characters.")
        if "\0" in text or "\n" in text:
            raise BadValue("It holds a character that no text here has.")
        return text


@dataclass(frozen=True)
class Choice(Field):
    """One of a few, or several of them."""

    picks: Callable[[Actor], Options] = lambda _: ()
    several: bool = False

    widget = "choice"

    @property
    def many(self) -> bool:  # type: ignore[override]
        return self.several

    def options(self, actor: Actor) -> Options:
        return self.picks(actor)

    def read(self, given: Sequence[str], actor: Actor) -> Any:
        known = [value for value, _ in self.options(actor)]
        by_fold = {value.casefold(): value for value in known}
        unknown = [value for value in given if value.casefold() not in by_fold]
        if unknown:
            raise BadValue(f"There is no “{unknown[0][:60]}” here. Known: {', '.join(known[:20]) or 'nothing yet'}.")
        chosen = [by_fold[value.casefold()] for value in given]
        return chosen if self.several else chosen[-1]


@dataclass(frozen=True)
class Moment(Field):
    """A day, a moment, or so long ago. Without a zone it is UTC."""

    end_of_day: bool = False

    def read(self, given: Sequence[str], actor: Actor) -> Any:
        text = given[-1].strip()
        ago = _AGO.fullmatch(text)
        if ago:
            return Now() - int(ago[1]) * _UNITS[ago[2]]
        try:
            day = parse_date(text)
            if day is not None:
                start = datetime(day.year, day.month, day.day, tzinfo=UTC)
                return start + timedelta(days=1) if self.end_of_day else start
            moment = parse_datetime(text)
        except (ValueError, OverflowError):
            moment = None
        if moment is None:
            raise BadValue("Give a day (2026-11-30), a moment (2026-11-30 14:05) or so long ago (30 min, 12 h, 7 d).")
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Amount(Field):
    """A number that is not negative."""

    counted = FEW

    def read(self, given: Sequence[str], actor: Actor) -> Decimal:
        try:
            number = Decimal(given[-1].strip())
        except InvalidOperation as error:
            raise BadValue("Give a number, as 2.50.") from error
        if not number.is_finite() or not 0 <= number <= 1_000_000_000:
            raise BadValue("Give a number from 0 to 1,000,000,000.")
        return number


@dataclass(frozen=True)
class Flag(Field):
    """Yes, or not asked."""

    widget = "flag"

    def read(self, given: Sequence[str], actor: Actor) -> bool:
        if given[-1].casefold() not in {"yes", "1", "true"}:
            raise BadValue("It is yes, or left out.")
        return True


@dataclass(frozen=True)
class Identifier(Field):
    """A whole id."""

    def read(self, given: Sequence[str], actor: Actor) -> UUID:
        try:
            return UUID(given[-1].strip())
        except ValueError as error:
            raise BadValue("Give a whole id: 32 hexadecimal digits, with or without dashes.") from error


@dataclass(frozen=True)
class Tags(Field):
    """One or more tags; what is shown carries all of them."""

    def read(self, given: Sequence[str], actor: Actor) -> list[str]:
        tags = typed_tags(" ".join(given))
        for tag in tags:
            if tag_fault(tag):
                raise BadValue(f"“{tag[:60]}” is none: {tag_fault(tag)}")
        return tags


def tail_of(text: str) -> str:
    """The end of an id that a text may be, as `…f04c3c` shows it, in lower case; "" for what is none."""
    found = _TAIL.fullmatch(text.strip().casefold())
    return found[1] if found else ""


def picks(*values: str) -> Callable[[Actor], Options]:
    """Options whose word is their value."""
    return lambda _: [(str(value), str(value)) for value in values]
