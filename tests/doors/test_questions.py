"""Questions through every door: the same answer, whoever gives it and how."""

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from approvals.models import Answer, Wait
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from tests.doors.asking import problem
from tests.doors.test_access import browser
from tests.doors.things import ANSWERED, Things
from tests.doors.typed import AS, refused, seen
from tests.doors.world import OPERATOR, Doors, manage

FORM = {"meaning": "some of both", "sure": 80}


@pytest.fixture
def asking(doors: Doors) -> Wait:
    return doors.asking()


def shown(wait: Wait) -> dict[str, Any]:
    return {
        "revision": wait.checkpoint_revision,
        "digest": wait.checkpoint_digest,
        "args_digest": wait.args_digest,
    }


def test_the_comparison_that_asks_publishes_what_a_person_said(doors: Doors, asking: Wait) -> None:
    record = doors.api("GET", f"/waits/{asking.id}/").json()
    assert (record["kind"], record["tool"], record["answer"]) == ("QUESTION", "ask_person", None)
    assert record["arguments"]["form"]["required"] == ["meaning"]
    answer = doors.api("POST", f"/waits/{asking.id}/answer/", {"form": FORM, **shown(asking)})
    assert answer.status_code == 200, answer.content
    assert answer.json()["status"] == "ANSWERED"
    assert answer.json()["answer"] == {"kind": "FORM", "digest": Answer.objects.get(wait=asking).digest, "value": FORM}
    assert answer.json()["decision"]["verdict"] == "ANSWER"
    drive(asking.run_id)
    call = doors.api("GET", f"/calls/{asking.tool_call_id}/").json()
    assert (call["status"], call["result"]["origin"]) == ("SUCCEEDED", "HUMAN")
    publish = Wait.objects.get(run_id=asking.run_id, status="OPEN", kind="APPROVAL")
    said = doors.api("GET", f"/waits/{publish.id}/").json()["arguments"]["summary"]
    assert said.endswith("Asked what they are, a person says: some of both.")


def test_an_answer_that_does_not_fit_is_refused_by_its_fields_at_the_api(doors: Doors, asking: Wait) -> None:
    path = f"/waits/{asking.id}/answer/"
    body = problem(
        doors.api("POST", path, {"form": {"meaning": "gold", "sure": 101, "what": 1}, **shown(asking)}),
        400,
        "INVALID_ANSWER",
    )
    assert set(body["facts"]["fields"]) == {"meaning", "sure", "what"}
    problem(doors.api("POST", path, {"text": "some", **shown(asking)}), 400, "INVALID_ANSWER")
    problem(doors.api("POST", path, {"text": "a", "form": {}, **shown(asking)}), 400, "INVALID")
    problem(doors.api("POST", path, shown(asking)), 400, "INVALID")
    problem(doors.api("POST", path, {"form": FORM, **shown(asking), "revision": 1}), 409, "STALE_REVISION")
    token = {"Authorization": f"Bearer {doors.tokens[OPERATOR]}"}
    file = {"file": SimpleUploadedFile("a.txt", b"x"), **shown(asking)}
    problem(Client().post(f"/api/v1{path}", file, headers=token), 400, "INVALID_ANSWER")
    assert not Answer.objects.filter(wait=asking).exists()


def test_the_command_line_answers_and_declines(doors: Doors, asking: Wait) -> None:
    wait = manage("waits", "show", asking.id, *AS, "--json").json
    wrong = manage("waits", "answer", asking.id, "--form", '{"meaning": "gold"}', *seen(wait), *AS, "--json")
    assert list(refused(wrong, "INVALID_ANSWER")["facts"]["fields"]) == ["meaning"]
    refused(manage("waits", "answer", asking.id, "--file", __file__, *seen(wait), *AS, "--json"), "INVALID_ANSWER")
    refused(manage("waits", "decline", asking.id, *seen(wait), "--reason", " ", *AS, "--json"), "INVALID")
    declined = manage("waits", "decline", asking.id, *seen(wait), "--reason", "ask the house", *AS, "--json")
    assert declined.json["decision"]["verdict"] == "DECLINE"
    late = manage("waits", "answer", asking.id, "--form", '{"meaning": "some of both"}', *seen(wait), *AS, "--json")
    assert refused(late, "ALREADY_ANSWERED")["facts"]["by"] == OPERATOR
    drive(asking.run_id)
    assert ToolCall.objects.get(id=asking.tool_call_id).status == "REJECTED"
    assert Run.objects.get(id=asking.run_id).status == "WAITING"  # for the approval: it goes on without an answer


def test_a_file_that_was_the_answer_is_given_back_at_every_door(doors: Doors, things: Things, tmp_path: Path) -> None:
    wait = things.named["answered"]["id"]
    answer = doors.api("GET", f"/waits/{wait}/answer/file/")
    assert (answer.status_code, answer.content) == (200, ANSWERED)
    assert answer["Content-Disposition"] == 'attachment; filename="lines.csv"'
    page = browser(OPERATOR).get(f"/waits/{wait}/answer/")
    assert (page.content, page["Content-Type"]) == (ANSWERED, "application/octet-stream")
    assert f'href="/waits/{wait}/answer/"' in browser(OPERATOR).get(f"/waits/{wait}/").content.decode()
    to = tmp_path / "lines.csv"
    assert manage("waits", "answer-file", wait, "--save-to", to, *AS, "--json").json["size"] == len(ANSWERED)
    assert to.read_bytes() == ANSWERED
    assert "not replaced" in manage("waits", "answer-file", wait, "--save-to", to, *AS).err
    other = things.named["wait"]["id"]
    problem(doors.api("GET", f"/waits/{other}/answer/file/"), 404, "NOT_FOUND")
