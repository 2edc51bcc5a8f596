"""Whatever is sent to an address, it answers with a page or a typed refusal: never with a fault of ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from accounts.services import member_set, token_create
from accounts.states import Role
from tests.doors.mangled import HARSH, SENT, names_read
from tests.doors.routes import LIST_AND_ACT, ROUTES
from tests.doors.test_access import browser
from tests.doors.things import Things
from tests.doors.world import Doors

EVERYBODY = "every-role"
PAGES = [name for name, route in ROUTES.items() if route.door in {"page", "open"} and name != "sign-out"]
API = [name for name, route in ROUTES.items() if route.door == "api" and name not in {"api:schema", "api:missing"}]
COUNTED = {"checkpoint", "difference", "version", "policy"}  # what a number in the address names
FORM = "application/x-www-form-urlencoded"
BODIES = (
    (b"\xff\x00{", "application/json"),
    (b"nonsense", "multipart/form-data; boundary=x"),
    (b"nonsense", "multipart/form-data"),
    (b'--x\r\nContent-Disposition: form-data; name="reason"\r\n\r\ncut off', "multipart/form-data; boundary=x"),
    (b"reason=x", f"{FORM}; charset=klingon"),
    (b"x", "nonsense/; ; charset=klingon"),
    (b"&".join(b"a%d=1" % number for number in range(2000)), FORM),
    (b"reason=" + b"x" * (9 * 1024 * 1024), FORM),
)
JSON = (
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"7",
    b"{",
    b'{"reason": NaN}',
    b'{"reason": "a", "reason": "b"}',
    b'{"reason": "a\\u0000b"}',
    b'{"reason": "a\\ud800b"}',
    b'{"reason": 9007199254740993}',
    b'{"a": ' * 80 + b"1" + b"}" * 80,
    b'{"reason": "' + b"x" * (2 * 1024 * 1024) + b'"}',
    b"\xff\xfe",
)


@contextmanager
def undone() -> Iterator[None]:
    """Whatever is written inside is taken back at the end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(scope="module")
def somebody(doors: Doors) -> Client:
    """Somebody with every role: what they send is judged for what it is."""
    membership = member_set(tenant=doors.tenant, username=EVERYBODY, password=None, roles=frozenset(Role))
    doors.tokens[EVERYBODY] = token_create(membership=membership, name="tests")
    return browser(EVERYBODY)


def ask(client: Client, path: str, query: str = "") -> None:
    with undone():
        answer = client.get(f"{path}?{query}")
    assert answer.status_code in {200, 302, 400, 403, 404}, (answer.status_code, path, query[:200])


def send(client: Client, path: str, body: bytes, media_type: str = FORM) -> None:
    with undone():
        answer = client.generic("POST", path, body, media_type)
    assert answer.status_code in {200, 302, 400, 403, 404, 405, 409, 413, 429}, (answer.status_code, body[:200])
    if answer.status_code in {400, 409, 413}:
        html = answer.content.decode()
        assert any(sign in html for sign in ('id="refused"', 'role="alert"', 'class="error"', "could not be read")), (
            html
        )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_takes_any_query(somebody: Client, things: Things, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Everything that it reads, mangled at once; once with names that it does not read, and each of them twice."""
    path = things.path(name)
    with names_read(monkeypatch) as read:
        ask(somebody, path)
    names = sorted(read) or ["unknown"]
    for value in HARSH:
        ask(somebody, path, "&".join(f"{one}={value}" for one in [*names, "unknown"]))
    ask(somebody, path, "&".join(f"{one}=a&{one}=b" for one in names))


@pytest.mark.parametrize("name", [name for name in PAGES if ROUTES[name].act])
def test_a_page_takes_any_form(somebody: Client, things: Things, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path, names = things.path(name), fields_read(somebody, things, monkeypatch, name)
    for value in HARSH:
        send(somebody, path, "&".join(f"{one}={value}" for one in names).encode())
    for body, media_type in BODIES:
        send(somebody, path, body, media_type)


def fields_read(client: Client, things: Things, patch: pytest.MonkeyPatch, name: str) -> list[str]:
    act = ROUTES[name].act
    assert act is not None
    with names_read(patch) as read:
        send(client, things.path(name), urlencode(act.body, doseq=True).encode())
        send(client, things.path(name), b"")
    return sorted((read | set(act.body)) - {"csrfmiddlewaretoken", "page_tenant"})


@pytest.mark.matrix
@pytest.mark.parametrize("name", PAGES)
def test_a_page_takes_any_value_in_each_place(
    somebody: Client, things: Things, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = things.path(name)
    with names_read(monkeypatch) as read:
        ask(somebody, path)
    for one in sorted(read):
        for value in SENT:
            ask(somebody, path, f"{one}={value}")
    if ROUTES[name].act:
        _each_field(somebody, things, monkeypatch, name)


def _each_field(client: Client, things: Things, patch: pytest.MonkeyPatch, name: str) -> None:
    act = ROUTES[name].act
    assert act is not None
    for one in fields_read(client, things, patch, name):
        rest = urlencode({field: value for field, value in act.body.items() if field != one}, doseq=True)
        for value in SENT:
            send(client, things.path(name), f"{rest}&{one}={value}".encode())


def refusal(answer: Any) -> dict[str, Any]:
    """The problem that the API answers with; it names the place where something does not fit."""
    assert answer.status_code < 500, answer.content
    problem: dict[str, Any] = answer.json()
    if answer.status_code == 400 and problem["code"] == "INVALID":
        assert problem["facts"]["field"], problem
    assert answer.status_code < 400 or problem["detail"], problem
    return problem


@pytest.mark.parametrize("name", [name for name in API if not ROUTES[name].act or name in LIST_AND_ACT])
def test_the_api_takes_any_query(
    doors: Doors, somebody: Client, things: Things, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = things.path(name).removeprefix("/api/v1")
    with names_read(monkeypatch) as read:
        refusal(doors.api("GET", path, by=EVERYBODY)) if "input" not in name else None
    for value in HARSH:
        query = "&".join(f"{one}={value}" for one in [*sorted(read), "unknown"])
        with undone():
            answer = doors.api("GET", f"{path}?{query}", by=EVERYBODY)
        assert answer.status_code in {200, 400, 404}, (answer.status_code, query[:200])


@pytest.mark.parametrize("name", [name for name in API if ROUTES[name].act])
def test_the_api_takes_any_body(doors: Doors, somebody: Client, things: Things, name: str) -> None:
    path = things.path(name).removeprefix("/api/v1")
    for body in JSON:
        with undone():
            refusal(doors.raw("POST", path, body, by=EVERYBODY))


@pytest.mark.parametrize("name", [one for one in [*PAGES, *API] if ROUTES[one].named in COUNTED])
@pytest.mark.parametrize("number", [0, 2**31, 2**63, 10**30])
def test_a_number_in_an_address_may_be_any(
    doors: Doors, somebody: Client, things: Things, name: str, number: int
) -> None:
    named = things.named[ROUTES[name].named]
    path = reverse(name, kwargs={key: number if isinstance(value, int) else value for key, value in named.items()})
    if ROUTES[name].door == "api":
        method = "POST" if ROUTES[name].act else "GET"
        answer = doors.api(method, path.removeprefix("/api/v1"), ROUTES[name].act and {"reason": "x"}, by=EVERYBODY)
    else:
        answer = somebody.get(path)
    assert answer.status_code in {200, 400, 404}, answer.content
