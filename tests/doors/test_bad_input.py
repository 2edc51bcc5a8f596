"""Whatever is sent to a page, it answers: never with a fault of ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from django.db import transaction
from django.test import Client

from accounts.services import member_set
from accounts.states import Role
from console.pages.entry import DEVICE
from tests.doors.mangled import HARSH, SENT, names_read
from tests.doors.routes import ROUTES
from tests.doors.test_access import browser
from tests.doors.things import Things
from tests.doors.world import Doors

EVERYBODY = "every-role"
PAGES = [name for name, route in ROUTES.items() if route.door in {"page", "open"} and name != "sign-out"]
FEW = slice(0, 2)  # of the values and bodies that the normal suite sends; the long one sends all
how_many = pytest.mark.parametrize(
    "some", [FEW, pytest.param(slice(None), marks=pytest.mark.matrix)], ids=["a few", "all"]
)
FORM = "application/x-www-form-urlencoded"
BODIES: tuple[tuple[bytes, str], ...] = (
    (b"nonsense", "multipart/form-data; boundary=x"),
    (b"reason=x", f"{FORM}; charset=klingon"),
    (b"\xff\x00{", "application/json"),
    (b"nonsense", "multipart/form-data"),
    (b'--x\r\nContent-Disposition: form-data; name="reason"\r\n\r\ncut off', "multipart/form-data; boundary=x"),
    (b"x", "nonsense/; ; charset=klingon"),
    (b"&".join(b"a%d=1" % number for number in range(2000)), FORM),
    (b"reason=" + b"x" * (9 * 1024 * 1024), FORM),
)


# As a browser sends what another program has put there: NUL and bytes of no text by octal escapes, as cookies have them.
COOKIES = ('"\\000\\000aaaaaaaaaaaa"', '"\\377\\330aaaaaaaaaaaa"', "é" * 12, "x" * 5_000, "a" * 32, "")


@contextmanager
def undone() -> Iterator[None]:
    """Whatever is written inside is taken back at the end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(scope="module")
def somebody(doors: Doors) -> Client:
    """Somebody with every role: what they send is judged for what it is."""
    member_set(tenant=doors.tenant, username=EVERYBODY, password=None, roles=frozenset(Role))
    return browser(EVERYBODY)


def ask(client: Client, path: str, query: str = "") -> None:
    with undone():
        answer = client.get(f"{path}?{query}")
    assert answer.status_code < 500, (path, query[:200])


def send(client: Client, path: str, body: bytes, media_type: str = FORM) -> None:
    with undone():
        answer = client.generic("POST", path, body, media_type)
    assert answer.status_code < 500, (path, body[:200])


@how_many
@pytest.mark.parametrize("name", PAGES)
def test_a_page_takes_any_query(
    somebody: Client, things: Things, monkeypatch: pytest.MonkeyPatch, name: str, some: slice
) -> None:
    """Everything that it reads, mangled at once; once with names that it does not read, and each of them twice."""
    path = things.path(name)
    with names_read(monkeypatch) as read:
        ask(somebody, path)
    names = sorted(read) or ["unknown"]
    for value in HARSH[some]:
        ask(somebody, path, "&".join(f"{one}={value}" for one in [*names, "unknown"]))
    ask(somebody, path, "&".join(f"{one}=a&{one}=b" for one in names))


@how_many
@pytest.mark.parametrize("name", [name for name in PAGES if ROUTES[name].act])
def test_a_page_takes_any_form(
    somebody: Client, things: Things, monkeypatch: pytest.MonkeyPatch, name: str, some: slice
) -> None:
    path, names = things.path(name), fields_read(somebody, things, monkeypatch, name)
    for value in HARSH[some]:
        send(somebody, path, "&".join(f"{one}={value}" for one in names).encode())
    for body, media_type in BODIES[some]:
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


@pytest.mark.parametrize("cookie", ["sessionid", "csrftoken", "messages", DEVICE])
@pytest.mark.parametrize("value", COOKIES)
def test_a_cookie_may_hold_anything(doors: Doors, cookie: str, value: str) -> None:
    """What it says of nobody leads to the page where one signs in, also for an act."""
    client = Client(enforce_csrf_checks=True)
    held = {"Cookie": f"{cookie}={value}"}
    for answer in (client.get("/runs/", headers=held), client.get("/sign-in/", headers=held)):
        assert answer.status_code in {200, 302}, (cookie, value[:40])
    for path in ("/runs/new/", "/sign-in/"):
        answer = client.post(path, {"username": "nobody", "password": "nothing"}, headers=held)
        assert answer.status_code == 403, (cookie, value[:40])
