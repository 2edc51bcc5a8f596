"""What the HTTP API takes: bodies, forms and filters are read strictly."""

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from accounts.models import Membership, User
from accounts.services import token_create, token_revoke
from approvals.models import Decision, Wait
from runs.models import Run
from tests.doors.asking import MISSING, decision, form, problem
from tests.doors.world import ALDER, BIRCH, OPERATOR, Doors

# ── strict reading ──


@pytest.mark.parametrize(
    "content",
    [
        b'{"reason": "a", "reason": "b"}',
        b'{"reason": NaN}',
        b'{"reason": 1e400}',
        b'{"reason": 9007199254740993}',
        b'{"reason": "\\u0000"}',
        b'{"reason": "\\ud800"}',
        b'{"reason": "a"',
        b"\xff",
        b"[" * 100_000,
        b'"' + b"x" * (1024 * 1024) + b'"',
    ],
)
def test_bodies_that_are_not_strict_json_are_refused(doors: Doors, waiting: Wait, content: bytes) -> None:
    problem(doors.raw("POST", f"/runs/{waiting.run_id}/stop/", content), 400, "MALFORMED")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"reason": "x", "status": "COMPLETED"}, "status"),
        ({"reason": "x", "tenant": "other"}, "tenant"),
        ({"reason": 5}, "reason"),
        ({"reason": None}, "reason"),
        ({"reason": ["x"]}, "reason"),
    ],
)
def test_unknown_fields_and_other_types_are_refused(doors: Doors, waiting: Wait, body: Any, field: str) -> None:
    answer = doors.api("POST", f"/runs/{waiting.run_id}/stop/", body)
    assert problem(answer, 400, "INVALID")["facts"]["field"] == field
    assert Run.objects.get(id=waiting.run_id).status == "WAITING"


@pytest.mark.parametrize("body", [[], "x", 5, None])
def test_a_body_has_to_be_an_object(doors: Doors, waiting: Wait, body: Any) -> None:
    answer = doors.raw("POST", f"/runs/{waiting.run_id}/stop/", json.dumps(body).encode())
    problem(answer, 400, "INVALID")


@pytest.mark.parametrize("changed", [{"revision": True}, {"revision": 14.0}, {"revision": -1}, {"revision": 2**40}])
def test_a_revision_is_a_whole_number(doors: Doors, waiting: Wait, changed: dict[str, Any]) -> None:
    answer = doors.api("POST", f"/waits/{waiting.id}/decide/", decision(waiting, **changed))
    assert problem(answer, 400, "INVALID")["facts"]["field"] == "revision"


def test_a_start_form_with_unknown_text_or_two_files_of_one_name_is_refused(doors: Doors) -> None:
    answer = doors.start(form(status="COMPLETED"))
    assert problem(answer, 400, "INVALID")["facts"]["field"] == "status"
    twice = [SimpleUploadedFile("a.csv", ALDER.encode()), SimpleUploadedFile("b.csv", BIRCH.encode())]
    assert problem(doors.start(form(a=twice)), 400, "INVALID")["facts"]["field"] == "a"
    assert problem(doors.start(form(agent=["x", "y"])), 400, "INVALID")["facts"]["field"] == "agent"
    problem(doors.api("POST", "/runs/", {"agent": "fund_comparison"}), 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "query",
    [
        "?statuss=QUEUED",
        "?status=NONSENSE",
        "?limit=0",
        "?limit=201",
        "?limit=1&limit=2",
        "?cursor=nonsense",
        "?cursor=",
        "?q=%00",
        "?_connector=OR",
        "?status__in=QUEUED",
    ],
)
def test_filters_that_are_not_understood_are_refused(doors: Doors, query: str) -> None:
    problem(doors.api("GET", f"/runs/{query}"), 400, "INVALID")


# ── who asks ──


def test_nobody_is_told_to_sign_in(doors: Doors) -> None:
    answer = Client().get("/api/v1/runs/")
    problem(answer, 401, "NOT_SIGNED_IN")
    assert answer["WWW-Authenticate"] == "Bearer" and answer["Cache-Control"] == "no-store"


def test_tokens_end_with_their_revocation_and_with_their_person(doors: Doors) -> None:
    member = Membership.objects.get(user__username="only-viewer")
    token = token_create(membership=member, name="soon gone")
    headers = {"Authorization": f"Bearer {token}"}
    assert Client().get("/api/v1/runs/", headers=headers).status_code == 200
    assert token_revoke(membership=member, name="soon gone") == 1
    problem(Client().get("/api/v1/runs/", headers=headers), 401, "NOT_SIGNED_IN")
    User.objects.filter(username="only-viewer").update(is_active=False)
    problem(doors.api("GET", "/runs/", by="only-viewer"), 401, "NOT_SIGNED_IN")
    User.objects.filter(username="only-viewer").update(is_active=True)


def test_a_session_needs_the_csrf_token_and_a_token_does_not(doors: Doors) -> None:
    run_id = doors.started()
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.get(username=OPERATOR))
    assert browser.get(f"/api/v1/runs/{run_id}/").status_code == 200
    path, body = f"/api/v1/runs/{run_id}/stop/", {"reason": "x"}
    problem(browser.post(path, body, "application/json"), 403, "FORBIDDEN")
    assert Run.objects.get(id=run_id).status == "QUEUED"
    assert doors.api("POST", f"/runs/{run_id}/stop/", body).status_code == 200


def test_a_decision_by_token_is_a_persons(doors: Doors) -> None:
    wait = doors.waiting()
    doors.api("POST", f"/waits/{wait.id}/decide/", decision(wait), by="only-approver")
    assert Decision.objects.get(wait=wait).actor == "person:only-approver"


# ── addresses ──


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/nothing/", "/runs/not-a-uuid/", "/runs/1/"),
        *(f"/runs/{MISSING}/", f"/waits/{MISSING}/", f"/calls/{MISSING}/", f"/reports/{MISSING}/"),
        f"/runs/{MISSING}/checkpoints/1/",
    ],
)
def test_what_is_not_there_answers_the_same_everywhere(doors: Doors, path: str) -> None:
    assert problem(doors.api("GET", path), 404, "NOT_FOUND")["detail"] == "There is nothing at this address."


def test_revisions_beyond_any_number_are_not_there(doors: Doors, waiting: Wait) -> None:
    for revision in (0, 999, 2**40, 10**30):
        problem(doors.api("GET", f"/runs/{waiting.run_id}/checkpoints/{revision}/"), 404, "NOT_FOUND")


def test_a_missing_slash_keeps_method_and_body(doors: Doors, waiting: Wait) -> None:
    answer = doors.api("POST", f"/runs/{waiting.run_id}/stop", {"reason": "x"})
    assert (answer.status_code, answer["Location"]) == (308, f"/api/v1/runs/{waiting.run_id}/stop/")


def test_wrong_methods_and_formats_are_problems(doors: Doors, waiting: Wait) -> None:
    answer = doors.api("DELETE", f"/runs/{waiting.run_id}/")
    problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert "GET" in answer["Allow"]
    problem(doors.api("GET", "/runs/", Accept="text/html"), 406, "NOT_ACCEPTABLE")
