"""What every noun of the command line shares: its verbs, who acts, how an answer is printed, and the exit codes.

0: it is done. 1: refused, not found, or not reached; the sentence and the code are on stderr. 2: asked for in a wrong way.
3: of several things at least one was refused; the answer has what came of each.
With --json one document is on stdout and nothing else: the record, or {"error": {code, message, facts}}.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

from django.core.management.base import BaseCommand
from django.db import InterfaceError, InternalError, OperationalError
from django.db.models import Model, QuerySet
from rest_framework.utils.encoders import JSONEncoder

from accounts.api import silence_of, store_is_silent
from accounts.codec import BodyChanged
from accounts.errors import NotFound, Refused, TenantUnchosen
from accounts.models import Membership
from accounts.selectors import actor_named
from accounts.states import Actor
from console.pages.text import plain
from runs.canonical import NotCanonical, check

LISTED_ROWS = 200
IN_PART = 3  # how a command ends where at least one of several things was refused

M = TypeVar("M", bound=Model)


class Usage(Exception):
    """The command was asked for in a way that can't be followed. The message says what is needed."""


class Answered(Exception):
    """The command ends here with this refusal."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.sentence)
        self.refused = refused


class DatabaseSilent(Refused):
    """Nothing is known to be done. The database does not answer: {reason}."""

    code = "DATABASE_SILENT"


class DatabaseFull(DatabaseSilent):
    """Nothing is known to be done. The database has no room left on its disk: {reason}."""

    code = "DATABASE_FULL"


class DatabaseCrowded(DatabaseSilent):
    """Nothing is known to be done. The database takes no more sessions: {reason}."""

    code = "DATABASE_CROWDED"


class DatabaseBusy(DatabaseSilent):
    """Nothing is known to be done. Somebody else keeps what this needs: {reason}."""

    code = "DATABASE_BUSY"


SILENT = {one.code: one for one in (DatabaseSilent, DatabaseFull, DatabaseCrowded, DatabaseBusy)}


class StoredChanged(Refused):
    """Nothing is shown. The stored bytes were changed after they were written."""

    code = "BODY_CHANGED"


class NotHere(Refused):
    """Nothing was done. There is no {what} here that {person} may see."""

    code = "NOT_FOUND"
    status = 404


class NoMember(Refused):
    """Nothing was done. There is no active member{where} named {person}."""

    code = "NO_MEMBER"
    status = 404


@dataclass(frozen=True)
class Shown:
    """The answer to a command: the record for programs, and the text for people. Untrusted parts went through `shown`.

    `refused`: how many of the things that it is about were refused.
    """

    record: Any
    text: str
    refused: int = 0


@dataclass(frozen=True)
class Asked:
    """What was asked for: the options by name, and who acts."""

    options: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    @cached_property
    def actor(self) -> Actor:
        """The acting person in the tenant that is meant. Raises Usage when it is not clear who or where, Answered for a name that is
        unknown, or no member there.
        """
        person, tenant = self.options["acting"] or _only_person(), self.options["in_tenant"]
        try:
            return actor_named(username=person, door="command", tenant_slug=tenant)
        except TenantUnchosen as several:
            raise Usage(f"--tenant TENANT is required: {person} is a member of {several}.") from several
        except NotFound as missing:
            where = f" of {tenant}" if tenant else ""
            raise Answered(NoMember({"person": person, "where": where})) from missing


def _only_person() -> str:
    people = list(Membership.objects.values_list("user__username", flat=True).distinct()[:2])
    if len(people) != 1:
        why = "there are several members" if people else "there is no member yet; make one with `members set`"
        raise Usage(f"--as USERNAME is required: {why}.")
    return people[0]


class Verb(Protocol):
    """One act of a noun: what was asked for in, its answer or its refusal out."""

    def __call__(self, asked: Asked, /) -> Shown | Refused: ...


class Noun(BaseCommand):
    """A noun with verbs. A subclass adds them in `add_verbs`, each with the function that calls one service."""

    requires_system_checks = []
    noun: ClassVar[str]
    by_person: ClassVar[bool] = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        self.verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        self.add_verbs()

    def add_verbs(self) -> None:
        raise NotImplementedError

    def verb(self, name: str, act: Verb, help: str, under: Any = None) -> ArgumentParser:
        """Add a verb (below another one with `under`) and return its parser, for the arguments of its own."""
        parser: ArgumentParser = (under or self.verbs).add_parser(name, help=help, description=help)
        self.does(parser, act)
        return parser

    def does(self, parser: ArgumentParser, act: Verb) -> None:
        """Have a parser lead to an act, with the options that all of them have."""
        parser.set_defaults(act=act, takes=parser)
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")
        if self.by_person:
            parser.add_argument(
                "--as", dest="acting", metavar="USERNAME", help="who acts; needed unless there is one member only"
            )
            parser.add_argument(
                "--tenant", dest="in_tenant", metavar="TENANT", help="for which tenant; needed by a member of several"
            )

    def add_limit(self, parser: ArgumentParser) -> None:
        """Give a listing verb its --limit."""
        parser.add_argument("--limit", type=_positive, default=LISTED_ROWS, help="at most so many (%(default)s)")

    def limited(self, rows: QuerySet[M], asked: Asked) -> list[M]:
        """The first rows, as many as were asked for; says so on stderr when there are more."""
        limit: int = asked["limit"]
        found = list(rows[: limit + 1])
        if len(found) > limit:
            self.stderr.write(f"There are more than {limit}. --limit shows more of them.")
        return found[:limit]

    def handle(self, *args: Any, act: Verb, takes: ArgumentParser, as_json: bool, **options: Any) -> None:
        asked = Asked(options)
        try:
            _check_texts(takes, options)
            answer = act(asked)
        except Usage as error:
            self.stderr.write(str(error))
            raise SystemExit(2) from error
        except Answered as ended:
            answer = ended.refused
        except NotFound:
            answer = NotHere({"what": self._named(options), "person": asked.actor.name})
        except (InterfaceError, InternalError, OperationalError) as error:
            if not store_is_silent(error):
                raise
            answer = SILENT[silence_of(error).code]({"reason": " ".join(str(error).split()).removesuffix(".")})
        except BodyChanged:
            answer = StoredChanged()
        if isinstance(answer, Refused):
            self._refuse(answer, as_json=as_json)
        self.stdout.write(document(answer.record) if as_json else answer.text)
        if answer.refused:
            self.stderr.write(f"{answer.refused} of them {'was' if answer.refused == 1 else 'were'} refused.")
            raise SystemExit(IN_PART)

    def _refuse(self, refused: Refused, *, as_json: bool) -> NoReturn:
        self.stderr.write(f"{shown(refused.sentence)} ({refused.code})")
        if as_json:
            error = {"code": refused.code, "message": refused.sentence, "facts": refused.facts}
            self.stdout.write(document({"error": error}))
        raise SystemExit(1)

    def _named(self, options: Mapping[str, Any]) -> str:
        named = [str(options[name]) for name in ("id", "run", "revision", "version") if options.get(name) is not None]
        return " ".join([self.noun, *named])


def _check_texts(parser: ArgumentParser, options: Mapping[str, Any]) -> None:
    """Raise Usage for a text that no store takes, naming its argument: a terminal hands on bytes that are no UTF-8 as surrogates."""
    for one in parser._actions:  # noqa: SLF001 - argparse says nowhere else what a parser takes
        given, name = options.get(one.dest), one.option_strings[0] if one.option_strings else one.dest
        try:
            check([str(text) for text in given] if isinstance(given, list) else str(given), name)
        except NotCanonical as error:
            raise Usage(f"{error}. Nothing was done.") from error


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ArgumentTypeError("give a number of 1 or more")
    return number


def document(record: Any) -> str:
    """A record as JSON that any terminal and any program takes."""
    return json.dumps(record, cls=JSONEncoder, indent=2)


def shown(text: Any) -> str:
    """Untrusted text on a terminal, line by line: every character that can't be seen or moves others is named."""
    return "\n".join(plain(line) for line in str(text).split("\n"))


def clock(moment: str | None) -> str:
    """A record's moment for people, to the second."""
    return f"{moment[:10]} {moment[11:19]} UTC" if moment else "-"


def table(heads: tuple[str, ...], rows: list[tuple[Any, ...]], nothing: str) -> str:
    """Rows under their heads, in columns; `nothing` says that there are none."""
    if not rows:
        return nothing
    lines = [heads, *(tuple(plain(str("-" if cell is None else cell)) for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def facts(pairs: Mapping[str, Any]) -> str:
    """One fact a line, its name in front. What is empty is left out; further lines are set in."""
    kept = {name: shown(value) for name, value in pairs.items() if value not in (None, "")}
    width = max(map(len, kept), default=0) + 2
    return "\n".join(f"{name:<{width}}" + value.replace("\n", "\n" + " " * width) for name, value in kept.items())


def save_new(file: Path, data: bytes) -> None:
    """Write a file that is not there yet. Raises Usage where it is there, or can't be written."""
    try:
        if file.is_file():
            raise Usage(f"{file} is there already, and is not replaced.")
        file.write_bytes(data)
    except OSError as error:
        raise Usage(f"{file} can't be written: {error.strerror}.") from error
