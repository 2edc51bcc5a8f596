"""Whatever is sent to the API: a typed refusal that names the place, and nothing is written."""

from typing import Any

import pytest
from django.urls import resolve, reverse

from accounts.services import member_set, token_create
from accounts.states import Role
from tests.doors.mangled import HARSH, names_read
from tests.doors.routes import LIST_AND_ACT, ROUTES
from tests.doors.things import Things
from tests.doors.world import Doors
from tests.written_rows import undone

EVERYBODY = "every-role"
API = [name for name, route in ROUTES.items() if route.door == "api" and name not in {"api:schema", "api:missing"}]
FILES = {"api:runs", "api:call-attach"}  # what they take is a form with files
COUNTED = {"checkpoint", "difference", "version", "policy"}  # what a number in the address names
TOLD = {"accounts_auditevent", "accounts_audithead"}  # that somebody was refused is kept
BODIES: tuple[bytes, ...] = (
    b'{"reason": "a\\ud800b"}',
    b"[]",
    b"null",
    b'"text"',
    b"7",
    b"{",
    b'{"reason": NaN}',
    b'{"reason": "a", "reason": "b"}',
    b'{"reason": "a\\u0000b"}',
    b'{"reason": 9007199254740993}',
    b'{"a": ' * 80 + b"1" + b"}" * 80,
    b'{"reason": "' + b"x" * (2 * 1024 * 1024) + b'"}',
    b"\xff\xfe",
)
few = pytest.mark.parametrize(
    "some", [slice(0, 1), pytest.param(slice(None), marks=pytest.mark.matrix)], ids=["a few", "all"]
)


@pytest.fixture(scope="module", autouse=True)
def everybody(doors: Doors) -> None:
    """Somebody with every role: what they send is judged for what it is."""
    membership = member_set(tenant=doors.tenant, username=EVERYBODY, password=None, roles=frozenset(Role))
    doors.tokens[EVERYBODY] = token_create(membership=membership, name="tests")


def refusal(answer: Any) -> dict[str, Any]:
    """The problem that the API answers with. What does not fit is named: a field, or a place in the body."""
    assert 400 <= answer.status_code < 500, answer.content
    problem: dict[str, Any] = answer.json()
    assert problem["detail"], problem
    if problem["code"] == "INVALID":
        assert problem["facts"]["field"], problem
    return problem


# ── queries and whole bodies ──


@few
@pytest.mark.parametrize("name", [name for name in API if not ROUTES[name].act or name in LIST_AND_ACT])
def test_the_api_takes_any_query(
    doors: Doors, things: Things, monkeypatch: pytest.MonkeyPatch, name: str, some: slice
) -> None:
    path = things.path(name).removeprefix("/api/v1")
    with names_read(monkeypatch) as read:
        assert doors.api("GET", path, by=EVERYBODY).status_code in {200, 400}  # some need to know of what
    for value in HARSH[some]:
        query = "&".join(f"{one}={value}" for one in [*sorted(read), "unknown"])
        answer = doors.api("GET", f"{path}?{query}", by=EVERYBODY)
        if answer.status_code != 200:  # a text that nothing is called is good
            refusal(answer)


@few
@pytest.mark.parametrize("name", [name for name in API if ROUTES[name].act and name not in FILES])
def test_the_api_takes_any_body(doors: Doors, things: Things, name: str, some: slice) -> None:
    path = things.path(name).removeprefix("/api/v1")
    for body in BODIES[some]:
        with undone() as written:
            problem = refusal(doors.raw("POST", path, body, by=EVERYBODY))
        assert problem["status"] in {400, 413} and written <= TOLD, (body[:80], problem, written)


@pytest.mark.parametrize("name", [name for name in API if ROUTES[name].named in COUNTED])
@pytest.mark.parametrize(
    "number", [10**30, *(pytest.param(one, marks=pytest.mark.matrix) for one in (0, 2**31, 2**63))]
)
def test_a_number_in_an_address_may_be_any(doors: Doors, things: Things, name: str, number: int) -> None:
    named = things.named[ROUTES[name].named]
    path = reverse(name, kwargs={key: number if isinstance(value, int) else value for key, value in named.items()})
    method = "POST" if ROUTES[name].act else "GET"
    answer = doors.api(method, path.removeprefix("/api/v1"), ROUTES[name].act and {"reason": "x"}, by=EVERYBODY)
    assert refusal(answer)["code"] in {"NOT_FOUND", "INVALID"}, answer.content


# ── every field of every act, by the API's own document ──

WRONG: dict[str, tuple[Any, ...]] = {
    "string": (["x"], {"x": 1}, 7, True),
    "integer": ("many", 2.5, True, -(2**40)),
    "number": ("many", True),
    "boolean": ("maybe", 7),
    "array": ("x", {"x": 1}),
    "object": ("x", ["x"]),
}
WRONG_TEXT = {"uuid": "x", "date-time": "soon", "date": "soon"}


def schema_of(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with its reference followed."""
    inner = schema.get("$ref") or next((one.get("$ref") for one in schema.get("allOf", [])), None)
    found: dict[str, Any] = document["components"]["schemas"][inner.rpartition("/")[2]] if inner else schema
    return found


def body_of(document: dict[str, Any], path: str) -> dict[str, Any]:
    """The fields of what a POST takes, with which of them it needs."""
    route = resolve(path).route.replace("<uuid:", "{").replace("<int:", "{").replace("<str:", "{").replace(">", "}")
    content = document["paths"][f"/{route}"]["post"].get("requestBody", {}).get("content", {})
    return schema_of(document, content.get("application/json", {}).get("schema", {}))


def wrong_values(document: dict[str, Any], schema: dict[str, Any]) -> list[Any]:
    """What does not fit a field, the most telling first."""
    found = schema_of(document, schema)
    own = [WRONG_TEXT[found["format"]]] if found.get("format") in WRONG_TEXT else []
    choices = ["nonsense"] if "enum" in found else []
    return [*choices, *own, *WRONG.get(found.get("type", ""), ())]


@few
@pytest.mark.parametrize("name", [name for name in API if ROUTES[name].act and name not in FILES])
def test_what_does_not_fit_a_field_is_refused_by_its_name(
    doors: Doors, things: Things, document: dict[str, Any], name: str, some: slice
) -> None:
    act, path, wrong = ROUTES[name].act, things.path(name), []
    assert act is not None
    body = body_of(document, path)
    fields = body.get("properties", {})
    sent = [
        (field, {**act.body, field: bad}) for field, one in fields.items() for bad in wrong_values(document, one)[some]
    ]
    sent += [
        (field, {key: value for key, value in act.body.items() if key != field}) for field in body.get("required", [])
    ]
    sent += [("unheard_of", {**act.body, "unheard_of": "x"})]
    for field, content in sent:
        with undone() as written:
            problem = refusal(doors.api("POST", path.removeprefix("/api/v1"), content, by=EVERYBODY))
        place = str(problem["facts"].get("field", ""))
        if problem["status"] != 400 or place.split(".", maxsplit=1)[0] != field or not written <= TOLD:
            wrong.append((field, content.get(field), problem["code"], place, written - TOLD))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.fixture(scope="module")
def document(doors: Doors, everybody: None) -> dict[str, Any]:
    found: dict[str, Any] = doors.api("GET", "/schema/", by=EVERYBODY).json()
    return found
