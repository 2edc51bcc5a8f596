"""Every door, walked: each route, socket and command with nobody, with the wrong role and from another tenant.

A door that is not in the tables below fails the suite: whoever adds one says here who may pass.
"""

import argparse
import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.management import get_commands, load_command_class
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.urls.converters import get_converters

from accounts.models import User
from accounts.states import GRANTS, Permission, Role
from console.asgi import application
from console.management.noun import Noun
from console.routing import websocket_urlpatterns
from runs.models import Run
from tests.doors.routes import LIST_AND_ACT, METHODS, OUR_APPS, ROUTES, SOCKETS, VERBS, Verb
from tests.doors.things import Things
from tests.doors.world import OPERATOR, STRANGER, Doors, manage

# ── the walk ──


def routes(patterns: list[Any], namespace: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from routes(pattern.url_patterns, inner)
        else:
            yield f"{namespace}{pattern.name or pattern.pattern}", pattern


def verbs(parser: argparse.ArgumentParser, name: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for verb, inner in action.choices.items():
            yield from verbs(inner, (*name, verb))
    if not below:
        yield name


def test_every_route_has_an_expectation() -> None:
    found = [name for name, _ in routes(get_resolver().url_patterns)]
    assert sorted(found) == sorted(ROUTES)
    assert "uuid" in get_converters()


def test_every_route_that_takes_an_id_says_what_it_names() -> None:
    for name, pattern in routes(get_resolver().url_patterns):
        takes = set(pattern.pattern.converters)
        assert not takes or ROUTES[name].named, f"{name} takes {takes}"


def test_every_socket_has_an_expectation() -> None:
    assert {str(pattern.pattern) for pattern in websocket_urlpatterns} == SOCKETS


def test_every_command_has_an_expectation() -> None:
    found = set()
    for name, app in get_commands().items():
        if app in OUR_APPS:
            found |= set(verbs(load_command_class(str(app), name).create_parser("manage.py", name), (name,)))
    assert sorted(found) == sorted(VERBS)


# ── how a door is asked ──


@cache
def browser(username: str) -> Client:
    """One session a person: no test that asks with it ends it. All of this package share a database."""
    client = Client()
    client.force_login(User.objects.get(username=username))
    return client


def ask(doors: Doors, things: Things, name: str, method: str, by: str, *, missing: bool = False) -> Any:
    """Ask a route as a person: pages with their session, the API with their token."""
    route, path = ROUTES[name], things.path(name, missing=missing)
    body = route.act.body if route.act and method == "POST" else {}
    if route.door == "page":
        return browser(by).generic(method, path) if method != "POST" else browser(by).post(path, body)
    if name == "api:runs" and method == "POST":
        return doors.start(body, by=by)
    if name == "api:call-attach" and method == "POST":
        return Client().post(path, body, headers={"Authorization": f"Bearer {doors.tokens[by]}"})
    return doors.api(method, path.removeprefix("/api/v1"), body if method != "GET" else None, by=by)


def may(role: Role, permission: Permission) -> bool:
    return permission in GRANTS[role]


def methods(name: str) -> tuple[str, ...]:
    """The methods that mean something on a route."""
    route = ROUTES[name]
    acts_only = route.door == "api" and route.act is not None and name not in LIST_AND_ACT
    return ("POST",) if acts_only else ("GET", "POST") if route.act else ("GET",)


GUARDED = [name for name, route in ROUTES.items() if route.door != "open"]
NAMING = [name for name in GUARDED if ROUTES[name].named]
LISTING = [name for name in GUARDED if not ROUTES[name].named and ROUTES[name].reads]
ACTING = [name for name in GUARDED if ROUTES[name].act]


# ── routes ──


@pytest.mark.parametrize("name", GUARDED)
def test_nobody_passes_no_route(things: Things, name: str) -> None:
    path, before = things.path(name), things.state()
    for method in METHODS:
        answer = Client().generic(method, path, b"{}", "application/json")
        if ROUTES[name].door == "api":
            assert (answer.status_code, answer.json()["code"]) == (401, "NOT_SIGNED_IN"), method
        else:
            assert answer.status_code == 302 and answer["Location"].startswith(reverse("sign-in")), method
    assert things.state() == before


@pytest.mark.parametrize("name", NAMING)
def test_what_is_foreign_looks_like_what_is_missing(doors: Doors, things: Things, name: str) -> None:
    before = things.state()
    for method in methods(name):
        foreign = ask(doors, things, name, method, STRANGER)
        missing = ask(doors, things, name, method, STRANGER, missing=True)
        assert foreign.status_code == missing.status_code == 404, method
        if ROUTES[name].door == "api":
            assert foreign.content == missing.content
        else:
            assert not [id for id in things.ids if id in foreign.content.decode()]
    assert things.state() == before


@pytest.mark.parametrize("name", NAMING)
def test_a_member_finds_what_is_there(doors: Doors, things: Things, name: str) -> None:
    for method in set(methods(name)) & {"GET"}:
        assert ask(doors, things, name, method, OPERATOR).status_code == (404 if name == "api:missing" else 200)


@pytest.mark.parametrize("name", LISTING)
def test_lists_show_nothing_of_another_tenant(doors: Doors, things: Things, name: str) -> None:
    shown = ask(doors, things, name, "GET", STRANGER).content.decode()
    assert not [id for id in things.ids if id in shown]


@pytest.mark.parametrize("name", NAMING + LISTING)
def test_who_may_not_read_sees_nothing(doors: Doors, things: Things, name: str) -> None:
    answer = ask(doors, things, name, "GET", "only-auditor")
    assert not [id for id in things.ids if id in answer.content.decode()]
    if ROUTES[name].named and "GET" in methods(name):
        assert answer.status_code == 404


def by_each_role(wanted: Mapping[Any, Permission], roles: Iterable[Role]) -> Iterator[Any]:
    """Who may act, one that may only read and one that may not even that; the other roles where there is time."""
    for (name, permission), role in product(wanted.items(), roles):
        soon = role in {Role.VIEWER, Role.AUDITOR} or (permission != Permission.READ and may(role, permission))
        yield pytest.param(name, role, marks=() if soon else pytest.mark.matrix)


ACTS = {name: act.permission for name in ACTING if (act := ROUTES[name].act)}


@pytest.mark.parametrize(("name", "role"), list(by_each_role(ACTS, Role)))
def test_an_act_needs_its_role(doors: Doors, things: Things, name: str, role: Role) -> None:
    act, before = ROUTES[name].act, things.state()
    assert act is not None
    answer = ask(doors, things, name, "POST", f"only-{role}")
    if may(role, act.permission):
        assert answer.status_code in {400, 409}, answer.content
    elif not may(role, Permission.READ) and ROUTES[name].named:
        assert answer.status_code == 404
    else:
        assert answer.status_code == 403, answer.content
        assert ROUTES[name].door == "page" or answer.json()["code"] == "NOT_ALLOWED"
    assert things.state() == before


@pytest.mark.parametrize("name", [name for name in GUARDED if ROUTES[name].door == "api" and name != "api:missing"])
def test_other_methods_are_refused(doors: Doors, things: Things, name: str) -> None:
    before = things.state()
    for method in set(METHODS) - set(methods(name)):
        answer = doors.api(method, things.path(name).removeprefix("/api/v1"), {"status": "COMPLETED"})
        assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED"), method
    assert things.state() == before


# ── sockets ──


class Socket(ApplicationCommunicator):
    """An application behind a socket, without types of its own."""

    send_input: Any
    receive_output: Any
    wait: Any


def _socket(path: str, cookie: str) -> Socket:
    headers = [(b"origin", b"http://localhost"), (b"host", b"localhost"), (b"cookie", f"sessionid={cookie}".encode())]
    scope = {"type": "websocket", "scheme": "ws", "path": f"/{path}", "headers": headers, "query_string": b""}
    return Socket(application, {**scope, "subprotocols": []})  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("path", [*sorted(SOCKETS), "ws/", "ws/nothing/", "ws/live", "", "api/v1/runs/"])
def test_nobody_opens_a_socket(doors: Doors, path: str) -> None:
    async def first_answer() -> Any:
        socket = _socket(path, "")
        await socket.send_input({"type": "websocket.connect"})
        return await socket.receive_output(10)

    assert asyncio.run(first_answer())["type"] == "websocket.close"


@pytest.mark.parametrize("path", sorted(SOCKETS))
@pytest.mark.parametrize("username", [STRANGER, *(f"only-{role}" for role in Role)])
def test_a_socket_tells_of_what_one_may_see_and_of_nothing_else(
    doors: Doors, things: Things, path: str, username: str
) -> None:
    cookie = browser(username).cookies["sessionid"].value
    topics = sorted({f"run:{id}" for id in things.ids})

    async def answers() -> list[Any]:
        socket = _socket(path, cookie)
        await socket.send_input({"type": "websocket.connect"})
        accepted = await socket.receive_output(10)
        await socket.send_input({"type": "websocket.receive", "text": json.dumps({"subscribe": topics})})
        while "subscribed" not in (answer := json.loads((await socket.receive_output(10))["text"])):
            pass
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(10)
        return [accepted["type"], answer]

    seen = set(topics) & seen_by(username)
    told = {"subscribed": sorted(seen), "refused": sorted(set(topics) - seen)}
    assert asyncio.run(answers()) == ["websocket.accept", told]


def seen_by(username: str) -> set[str]:
    """The topics of the first tenant's runs, for somebody of it who may read."""
    role = username.removeprefix("only-")
    if username == STRANGER or not may(Role(role), Permission.READ):
        return set()
    return {f"run:{id}" for id in Run.objects.filter(tenant__slug="tour").values_list("id", flat=True)}


# ── commands ──

SPOKEN = {name: verb for name, verb in VERBS.items() if isinstance(verb, Verb)}


@pytest.mark.parametrize("name", SPOKEN)
def test_a_command_needs_to_know_who_acts(things: Things, name: tuple[str, ...]) -> None:
    ran = manage(*name, *things.arguments(SPOKEN[name].named), *SPOKEN[name].rest, "--json")
    assert (ran.code, ran.out) == (2, "") and "--as USERNAME is required" in ran.err


@pytest.mark.parametrize("name", SPOKEN)
def test_a_command_finds_nothing_of_another_tenant(things: Things, name: tuple[str, ...]) -> None:
    verb, before = SPOKEN[name], things.state()
    for username in (STRANGER, "only-auditor"):
        ran = manage(*name, *things.arguments(verb.named), *verb.rest, "--as", username, "--json")
        if verb.named in ("", "agent", "tool"):  # a name that every tenant may say
            assert not [id for id in things.ids if id in ran.out]
        else:
            assert (ran.code, ran.json["error"]["code"]) == (1, "NOT_FOUND"), ran
    assert things.state() == before


READERS = [role for role in Role if may(role, Permission.READ)]
SAID = {name: verb.permission for name, verb in SPOKEN.items()}


@pytest.mark.parametrize(("name", "role"), list(by_each_role(SAID, READERS)))
def test_a_command_needs_its_role(things: Things, name: tuple[str, ...], role: Role) -> None:
    verb, before = SPOKEN[name], things.state()
    ran = manage(*name, *things.arguments(verb.named), *verb.rest, "--as", f"only-{role}", "--json")
    code = ran.json["error"]["code"] if ran.code else ""
    assert (code != "NOT_ALLOWED") == may(role, verb.permission), ran
    assert things.state() == before


def test_commands_that_need_no_person_are_those_of_the_installation() -> None:
    for name, verb in VERBS.items():
        command = load_command_class("console", name[0])
        by_person = isinstance(command, Noun) and command.by_person
        assert by_person == isinstance(verb, Verb), name
