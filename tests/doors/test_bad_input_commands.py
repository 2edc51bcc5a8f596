"""Whatever is typed for an argument of a command: a refusal that names the argument, and nothing is written."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import load_command_class
from django.db import connections

from accounts.services import member_set
from accounts.states import Role
from tests.doors.routes import VERBS, Verb
from tests.doors.things import Things
from tests.doors.world import Doors, Ran, manage
from tests.written_rows import undone

EVERYBODY = "every-role"
SPOKEN = {name: verb for name, verb in VERBS.items() if isinstance(verb, Verb)}
SHARED = {"help", "as_json", "acting", "in_tenant", "limit"}  # what every command has, tried once in another module
TOLD = {"accounts_auditevent", "accounts_audithead", "accounts_passwordtry"}  # that somebody was refused is kept
TEXTS = ("a\udcffb", "a\x00b")  # the first is what a terminal hands on of bytes that are no UTF-8


@pytest.fixture(scope="module", autouse=True)
def everybody(doors: Doors) -> None:
    member_set(tenant=doors.tenant, username=EVERYBODY, password=None, roles=frozenset(Role))


@pytest.fixture(autouse=True)
def one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command closes its connections at its end, as the process would; here it is taken back what it did."""
    monkeypatch.setattr(connections, "close_all", lambda: None)


def arguments(name: tuple[str, ...]) -> list[argparse.Action]:
    """What a verb takes of its own."""
    parser: argparse.ArgumentParser = load_command_class("console", name[0]).create_parser("manage.py", name[0])
    own = {"help", *(one.dest for one in argparse.ArgumentParser()._actions)}
    for word in name[1:]:
        below = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
        parser = below.choices[word]
    return [one for one in parser._actions if one.dest not in SHARED | own and one.nargs != 0 and _of_the_verb(one)]


def _of_the_verb(one: argparse.Action) -> bool:
    return one.dest not in {
        "version",
        "verbosity",
        "settings",
        "pythonpath",
        "traceback",
        "no_color",
        "force_color",
    } or bool(one.type)


def calls(things: Things, name: tuple[str, ...]) -> Iterator[tuple[argparse.Action, str, list[str]]]:
    """Each argument with a value that does not fit, in a call that is good beside it."""
    verb = SPOKEN[name]
    given = [*name, *things.arguments(verb.named), *("walked" if one == " " else one for one in verb.rest)]
    for one in arguments(name):
        values = (
            TEXTS if one.type is None and not one.choices else ("nonsense",) if one.type is not Path else ("/no/where",)
        )
        for bad in values:
            if one.option_strings and one.option_strings[0] not in given:
                yield one, bad, [*given, one.option_strings[0], bad]
            elif one.option_strings:
                at = given.index(one.option_strings[0])
                yield one, bad, [*given[: at + 1], bad, *given[at + 2 :]]


def names(one: argparse.Action, bad: str, ran: Ran) -> bool:
    """Whether a refusal names the argument as it is typed, or the file that was meant."""
    return any(word in ran.err for word in (*one.option_strings, bad if one.type is Path else f"{one.dest}: "))


@pytest.mark.parametrize("name", SPOKEN)
def test_what_does_not_fit_an_argument_is_refused_by_its_name(things: Things, name: tuple[str, ...]) -> None:
    wrong = []
    for one, bad, call in calls(things, name):
        with undone() as written:
            ran = manage(*call, "--as", EVERYBODY, "--json")
        if (ran.code, written) != (2, set()) or not names(one, bad, ran):
            wrong.append((one.option_strings, bad[:8], ran.code, (ran.out or ran.err)[:300], written - TOLD))
    assert not wrong, "\n".join(map(str, wrong))
