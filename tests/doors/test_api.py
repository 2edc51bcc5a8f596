"""The HTTP API: records, lists with cursors, and the document."""

import io
import json
import os
import subprocess
import sys
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from approvals.models import Wait
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from tests.doors.asking import decision, problem
from tests.doors.world import ALDER, OPERATOR, STRANGER, Doors

# ── records ──


def test_a_run_says_where_it_stands(doors: Doors, waiting: Wait) -> None:
    run = doors.api("GET", f"/runs/{waiting.run_id}/").json()
    assert (run["status"], run["phase"], run["agent"]) == ("WAITING", "AWAITING_APPROVAL", "fund_comparison")
    assert run["revision"] == waiting.checkpoint_revision
    assert [wait["id"] for wait in run["waits"]] == [str(waiting.id)]
    assert run["calls"][-1] == {
        "id": str(waiting.tool_call_id),
        "ordinal": waiting.tool_call.ordinal,
        "step": "publish_report/overlap-v2",
        "tool": "publish_report",
        "effect_class": "NON_IDEMPOTENT",
        "status": "AWAITING_APPROVAL",
        "attempts": 0,
        "args_digest": waiting.args_digest,
        "external_ref": None,
    }
    assert run["goal"] == run["goals"][0]["goal"]
    assert [given["name"] for given in run["inputs"]] == ["a", "b"]
    assert [promise["status"] for promise in run["obligations"]] == ["FULFILLED", "OPEN"]
    assert [version["version"] for version in run["reports"]] == [1, 2]
    assert run["stop"] is None


def test_a_wait_says_everything_that_one_decides_by(doors: Doors, waiting: Wait) -> None:
    record = doors.api("GET", f"/waits/{waiting.id}/").json()
    assert record["id"] == str(waiting.id) and record["run"] == str(waiting.run_id)
    assert (record["status"], record["revision"]) == ("OPEN", waiting.checkpoint_revision)
    assert (record["digest"], record["args_digest"]) == (waiting.checkpoint_digest, waiting.args_digest)
    assert record["tool"] == "publish_report" and record["arguments"]["channel"] == "wiki"
    assert record["deadline"].endswith("Z") and record["decision"] is None
    assert "Rule 4" in record["why"]
    assert record["wakes_by"] == ["DECISION", "TIMER", "INTENT", "SUPERSEDED"] and record["author"] is None


def test_a_call_of_unknown_outcome_shows_its_try(doors: Doors, unknown: ToolCall) -> None:
    listed = doors.api("GET", "/calls/?status=UNCERTAIN").json()["results"]
    assert str(unknown.id) in [call["id"] for call in listed]
    record = doors.api("GET", f"/calls/{unknown.id}/").json()
    assert [one["outcome"] for one in record["tries"]] == ["NO_RESPONSE"]
    assert record["result"] is None and record["verdicts"] == []
    assert record["publication"]["status"] == "UNCERTAIN"
    assert (record["sent"], record["outcome"], record["settled"]) == (True, "UNKNOWN", False)
    assert [one["kind"] for one in record["budget"]] == ["RESERVE", "HOLD_UNKNOWN"]


def test_a_call_answers_whether_it_was_sent_is_known_and_is_settled(
    doors: Doors, completed: Run, waiting: Wait
) -> None:
    """A-065."""
    done = ToolCall.objects.filter(run=completed).latest("ordinal")
    record = doors.api("GET", f"/calls/{done.id}/").json()
    assert (record["sent"], record["outcome"], record["settled"]) == (True, "KNOWN", True)
    assert record["budget"][-1]["amounts"]["tool_calls"] == 1
    record = doors.api("GET", f"/calls/{waiting.tool_call_id}/").json()
    assert (record["sent"], record["outcome"], record["settled"], record["budget"]) == (False, "NONE", True, [])


def test_changed_argument_bytes_are_not_shown(doors: Doors) -> None:
    wait = doors.waiting()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE receipts_toolcall SET args = args || '\\x00'::bytea WHERE id = %s", [wait.tool_call_id])
    assert doors.api("GET", f"/waits/{wait.id}/").json()["arguments"] is None
    assert problem(doors.api("POST", f"/waits/{wait.id}/decide/", decision(wait)), 409, "ARGS_CHANGED")


def test_checkpoints_are_listed_shown_and_compared(doors: Doors, completed: Run) -> None:
    base = f"/runs/{completed.id}/checkpoints/"
    listed = doors.api("GET", base).json()["results"]
    assert [one["revision"] for one in listed] == list(range(1, len(listed) + 1))
    assert [one["is_head"] for one in listed] == [False] * (len(listed) - 1) + [True]
    assert {one["stage"] for one in listed} == {"THINK", "ACT", "JUDGE", "END"}
    shown = doors.api("GET", f"{base}2/").json()
    assert shown["digest"] == listed[1]["digest"] and shown["body"]["revision"] == 2
    assert shown["body"]["parent_digest"] == listed[0]["digest"]
    compared = doors.api("GET", f"{base}1/diff/2/").json()
    assert {"path": "$.revision", "before": 1, "after": 2} in compared["differences"]
    assert doors.api("GET", f"{base}2/diff/2/").json()["differences"] == []


def test_an_unreadable_revision_says_so(doors: Doors) -> None:
    run_id = doors.waiting().run_id
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE checkpoints_checkpoint SET body = body || '\\x00'::bytea WHERE run_id = %s AND revision = 2",
            [run_id],
        )
    shown = doors.api("GET", f"/runs/{run_id}/checkpoints/2/").json()
    assert shown["body"] is None and shown["unreadable"] == "revision 2: the stored bytes were changed"
    compared = doors.api("GET", f"/runs/{run_id}/checkpoints/1/diff/2/")
    assert problem(compared, 409, "REVISION_UNREADABLE")["facts"]["revision"] == 2


def test_a_report_is_read_version_by_version(doors: Doors, completed: Run) -> None:
    versions = doors.api("GET", f"/runs/{completed.id}/reports/").json()
    assert [one["version"] for one in versions] == [1, 2]
    assert versions[1]["publications"][0]["status"] == "PUBLISHED"
    report = versions[0]["report"]
    assert [one["id"] for one in doors.api("GET", f"/reports/{report}/").json()] == [one["id"] for one in versions]
    second = doors.api("GET", f"/reports/{report}/versions/2/").json()
    assert "45" in second["body"] and second["sources"]
    assert problem(doors.api("GET", f"/reports/{report}/versions/3/"), 404, "NOT_FOUND")
    assert doors.api("GET", f"/reports/{report}/current/").json() == second


def test_the_edition_that_one_can_read_now_is_the_published_one(doors: Doors) -> None:
    """A-066: the second version is drafted and not published yet."""
    waiting = doors.waiting()
    versions = doors.api("GET", f"/runs/{waiting.run_id}/reports/").json()
    report = versions[0]["report"]
    assert [one["version"] for one in versions] == [1, 2]
    assert doors.api("GET", f"/reports/{report}/current/").json()["version"] == 1
    doors.api("POST", f"/runs/{waiting.run_id}/stop/", {"reason": "not today"})
    assert doors.api("GET", f"/reports/{report}/current/").json()["version"] == 1


def test_an_input_is_read_back_byte_for_byte(doors: Doors, completed: Run) -> None:
    given = doors.api("GET", f"/runs/{completed.id}/inputs/").json()
    assert [(one["name"], one["filename"]) for one in given] == [("a", "alder.csv"), ("b", "birch.csv")]
    response = doors.api("GET", f"/runs/{completed.id}/inputs/a/")
    assert response.content == ALDER.encode()
    assert response["Content-Disposition"] == 'attachment; filename="alder.csv"'
    assert response["X-Content-Type-Options"] == "nosniff"


# ── lists ──


def test_pages_show_every_run_once_while_new_ones_come(doors: Doors) -> None:
    made = {str(doors.started()) for _ in range(5)}
    Run.objects.filter(id__in=made).update(created_at="2030-01-01T00:00:00Z")
    seen: list[str] = []
    path = "/runs/?limit=2"
    while path:
        answer = doors.api("GET", path).json()
        seen += [run["id"] for run in answer["results"]]
        path = f"/runs/?limit=2&cursor={answer['next']}" if answer["next"] else ""
        doors.started()
    assert len(seen) == len(set(seen)) and made <= set(seen)


def test_a_cursor_belongs_to_one_list_one_tenant_and_its_filters(doors: Doors) -> None:
    doors.started(), doors.started()
    cursor = doors.api("GET", "/runs/?limit=1&status=QUEUED").json()["next"]
    assert doors.api("GET", f"/runs/?limit=1&status=QUEUED&cursor={cursor}").status_code == 200
    for path, by in (
        (f"/runs/?limit=1&cursor={cursor}", OPERATOR),
        (f"/runs/?limit=1&status=QUEUED&cursor={cursor}", STRANGER),
        (f"/runs/?limit=1&status=QUEUED&cursor=x{cursor}", OPERATOR),
        (f"/waits/?limit=1&status=OPEN&cursor={cursor}", OPERATOR),
    ):
        assert problem(doors.api("GET", path, by=by), 400, "INVALID")["facts"]["field"] == "cursor"


def test_runs_are_found_by_status_and_text(doors: Doors, waiting: Wait) -> None:
    found = doors.api("GET", f"/runs/?q={waiting.run_id}&status=WAITING&status=HELD").json()["results"]
    assert [run["id"] for run in found] == [str(waiting.run_id)]
    assert doors.api("GET", f"/runs/?q={waiting.run_id}&status=COMPLETED").json()["results"] == []


@pytest.mark.parametrize("path", ["/runs/", "/waits/", "/calls/", "/obligations/", "/commitments/"])
def test_a_list_asks_the_database_as_often_for_one_row_as_for_many(doors: Doors, waiting: Wait, path: str) -> None:
    doors.waiting()
    counts = []
    for limit in (1, 50):
        with CaptureQueriesContext(connection) as queries:
            assert doors.api("GET", f"{path}?limit={limit}").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 10


def test_a_run_is_shown_in_a_fixed_number_of_queries(doors: Doors, completed: Run) -> None:
    counts = []
    for run_id in (doors.started(), completed.id):
        with CaptureQueriesContext(connection) as queries:
            doors.api("GET", f"/runs/{run_id}/")
        counts.append(len(queries))
    assert max(counts) <= 18


# ── the document ──


def test_the_openapi_document_is_made_of_the_code(doors: Doors) -> None:
    answer = doors.api("GET", "/schema/")
    assert answer.status_code == 200
    document = json.loads(answer.content)
    assert "/api/v1/waits/{id}/decide/" in document["paths"]
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=io.StringIO())
    problem(Client().get("/api/v1/schema/"), 401, "NOT_SIGNED_IN")


def test_the_document_is_written_for_everybody_who_asks_first() -> None:
    first = "import django; django.setup(); from tests.doors.fresh_document import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", first],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings_test"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "[200]\n", done.stderr


def test_evidence_against_a_verdict_is_flagged_and_closed_over_http(doors: Doors) -> None:
    call = doors.unknown()
    retry = {"verdict": "NOT_EXECUTED", "evidence": "The wiki shows nothing.", "then": "RETRY"}
    assert doors.api("POST", f"/calls/{call.id}/reconcile/", retry).status_code == 200
    said = {"says": "EXECUTED", "evidence": "It is there after all.", "external_ref": "post-7"}
    shown = doors.api("POST", f"/calls/{call.id}/contradict/", said).json()
    [flag] = shown["contradictions"]
    assert (flag["accepted"], flag["says"], flag["origin"], flag["closing"]) == (
        "NOT_EXECUTED",
        "EXECUTED",
        "HUMAN",
        None,
    )
    again = doors.api("POST", f"/calls/{call.id}/contradict/", said)
    problem(again, 409, "NOTHING_CONTRADICTED")
    listed = doors.api("GET", "/contradictions/?open=true").json()["results"]
    assert flag["id"] in [one["id"] for one in listed]
    path = f"/contradictions/{flag['id']}/close/"
    by_reconciler = doors.api("POST", path, {"closing": "SEND_AGAIN", "reason": "x"}, by="only-reconciler")
    problem(by_reconciler, 403, "RETRY_NEEDS_APPROVER")
    closed = doors.api("POST", path, {"closing": "DO_NOT_SEND", "reason": "I looked again."}).json()
    assert (closed["closing"], closed["closed_by"]) == ("DO_NOT_SEND", "person:operator")
    problem(doors.api("POST", path, {"closing": "NOTED", "reason": "x"}), 409, "CONTRADICTION_CLOSED")


def test_workspaces_and_memory_are_read_over_http(doors: Doors) -> None:
    started = doors.start(
        {"agent": "evidence_search", "claims": "The first claim here.", "workspace": "A grid of lines"}
    )
    run_id = started.json()["id"]
    workspace = started.json()["workspace"]
    assert doors.api("GET", f"/workspaces/{workspace}/progress/").json() == []
    drive(UUID(run_id))
    [progress] = doors.api("GET", f"/workspaces/{workspace}/progress/").json()
    assert (progress["version"], progress["run"]) == (1, run_id)
    assert progress["questions"][0]["text"] == "The first claim here."
    assert workspace in [one["id"] for one in doors.api("GET", "/workspaces/").json()["results"]]
    assert doors.api("GET", "/memory/?subject=nothing").json()["results"] == []
