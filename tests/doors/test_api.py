"""The HTTP API: records, acts, refusals as problem+json, strict reading, cursors, tokens."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import AuditEvent, Membership, User
from accounts.services import token_create, token_revoke
from approvals.models import Decision, Wait
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from tests.doors.world import ALDER, BIRCH, OPERATOR, STRANGER, Doors

MISSING = "00000000-0000-0000-0000-000000000000"


def decision(wait: Wait, **changed: Any) -> dict[str, Any]:
    seen = {
        "revision": wait.checkpoint_revision,
        "digest": wait.checkpoint_digest,
        "args_digest": wait.args_digest,
    }
    return {"verdict": "APPROVE", **seen, "reason": "read it", **changed}


def form(**changed: Any) -> dict[str, Any]:
    files = {"a": SimpleUploadedFile("alder.csv", ALDER.encode()), "b": SimpleUploadedFile("birch.csv", BIRCH.encode())}
    return {"agent": "fund_comparison", **files, **changed}


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"] == f"urn:signalbox:problem:{code}" and body["title"] and body["detail"]
    return body


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


# ── acts ──


def test_a_run_is_started_with_files(doors: Doors) -> None:
    response = doors.start(form(title="Two small funds", recovery_policy="SETTLE"))
    assert response.status_code == 201, response.content
    run = response.json()
    assert run["recovery_policy"] == "SETTLE"
    assert (run["status"], run["title"], run["created_by"]) == ("QUEUED", "Two small funds", "person:operator")
    assert response["Location"] == f"/api/v1/runs/{run['id']}/"
    assert AuditEvent.objects.filter(object_id=run["id"], action="run.start", detail__door="api").exists()


def test_a_run_is_started_with_a_typed_text(doors: Doors) -> None:
    text = "The first claim here.\nThe second claim here."
    response = doors.start({"agent": "evidence_search", "claims": text})
    assert response.status_code == 201, response.content
    [given] = response.json()["inputs"]
    assert (given["name"], given["size"]) == ("claims", len(text))
    file = SimpleUploadedFile("claims.txt", text.encode())
    assert doors.start({"agent": "evidence_search", "claims": file}).status_code == 201
    twice = {"agent": "evidence_search", "claims": [text, text]}
    assert problem(doors.start(twice), 400, "INVALID")["facts"]["field"] == "claims"
    assert problem(doors.start(form(claims=text)), 400, "INVALID")["facts"]["field"] == "claims"


def test_the_same_key_gives_the_same_run_and_another_tenant_its_own(doors: Doors) -> None:
    first = doors.start(form(), **{"Idempotency-Key": "once"})
    again = doors.start(form(), **{"Idempotency-Key": "once"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    foreign = doors.start(form(), by=STRANGER, **{"Idempotency-Key": "once"})
    assert foreign.status_code == 201 and foreign.json()["id"] != first.json()["id"]


def test_a_key_is_not_for_other_files(doors: Doors) -> None:
    first = doors.start(form(), **{"Idempotency-Key": "files"})
    other = doors.start(form(a=SimpleUploadedFile("alder.csv", BIRCH.encode())), **{"Idempotency-Key": "files"})
    assert problem(other, 409, "KEY_REUSED")["facts"]["run"] == first.json()["id"]


def test_a_thread_carries_one_live_run(doors: Doors) -> None:
    first = doors.start(form(thread="quarterly"))
    assert problem(doors.start(form(thread="quarterly")), 409, "THREAD_BUSY")["facts"]["run"] == first.json()["id"]


def test_one_key_at_the_same_instant_makes_one_run(doors: Doors) -> None:
    def start(_: int) -> Any:
        try:
            return doors.start(form(), **{"Idempotency-Key": "race"})
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(start, range(8)))
    assert sorted({answer.status_code for answer in answers}) == [200, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_file_that_cannot_be_read_starts_nothing(doors: Doors) -> None:
    before = Run.objects.count()
    answer = doors.start(form(b=SimpleUploadedFile("b.csv", b"nothing,of,use\n1,2,3\n")))
    assert "B" in problem(answer, 400, "INPUT_REFUSED")["detail"]
    answer = doors.start(form(agent="nobody"))
    assert problem(answer, 400, "UNKNOWN_AGENT")["facts"]["known"] == "evidence_search, fund_comparison"
    assert Run.objects.count() == before


def test_a_file_that_is_too_big_is_not_read(doors: Doors) -> None:
    answer = doors.start(form(a=SimpleUploadedFile("a.csv", b"x" * (8 * 1024 * 1024 + 1))))
    assert problem(answer, 413, "INPUT_TOO_BIG")["facts"]["name"] == "a"


def test_a_wait_is_decided_once(doors: Doors) -> None:
    wait = doors.waiting()
    decided = doors.api("POST", f"/waits/{wait.id}/decide/", decision(wait))
    assert decided.status_code == 200, decided.content
    assert decided.json()["decision"]["by"] == "person:operator"
    late = doors.api("POST", f"/waits/{wait.id}/decide/", decision(wait, verdict="REJECT"), by="only-approver")
    said = problem(late, 409, "ALREADY_DECIDED")
    assert said["facts"]["by"] == OPERATOR and "Your decision was not stored" in said["detail"]
    drive(wait.run_id)
    assert doors.api("GET", f"/runs/{wait.run_id}/").json()["status"] == "COMPLETED"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"revision": 1}, "STALE_REVISION"),
        ({"digest": "0" * 64}, "STALE_REVISION"),
        ({"args_digest": "0" * 64}, "ARGS_CHANGED"),
    ],
)
def test_what_was_seen_must_be_what_is_bound(doors: Doors, waiting: Wait, changed: dict[str, Any], code: str) -> None:
    problem(doors.api("POST", f"/waits/{waiting.id}/decide/", decision(waiting, **changed)), 409, code)
    assert not Decision.objects.filter(wait=waiting).exists()


def test_a_call_is_reconciled(doors: Doors) -> None:
    call = doors.unknown()
    said = {"verdict": "EXECUTED", "evidence": "The wiki shows it.", "external_ref": "wiki/1"}
    record = doors.api("POST", f"/calls/{call.id}/reconcile/", said).json()
    assert record["status"] == "SUCCEEDED" and record["verdicts"][0]["evidence"] == "The wiki shows it."
    assert record["result"]["origin"] == "HUMAN"
    problem(doors.api("POST", f"/calls/{call.id}/reconcile/", said), 409, "VERDICT_GIVEN")
    drive(call.run_id)
    assert Run.objects.get(id=call.run_id).status == "COMPLETED"


def test_a_retry_needs_an_approver(doors: Doors, unknown: ToolCall) -> None:
    said = {"verdict": "NOT_EXECUTED", "evidence": "Not there.", "then": "RETRY"}
    answer = doors.api("POST", f"/calls/{unknown.id}/reconcile/", said, by="only-reconciler")
    problem(answer, 403, "RETRY_NEEDS_APPROVER")


def test_a_run_is_stopped(doors: Doors) -> None:
    wait = doors.waiting()
    stopped = doors.api("POST", f"/runs/{wait.run_id}/stop/", {"reason": "wrong files"}).json()
    assert (stopped["status"], stopped["stop"]["status"]) == ("CANCELLED", "SETTLED")
    assert stopped["waits"][0]["status"] == "CANCELLED"
    problem(doors.api("POST", f"/runs/{wait.run_id}/stop/", {"reason": "again"}), 409, "RUN_ENDED")
    problem(doors.api("POST", f"/waits/{wait.id}/decide/", decision(wait)), 409, "RUN_STOPPED")


def test_a_goal_is_revised_and_the_wait_superseded(doors: Doors) -> None:
    wait = doors.waiting()
    said = {"goal": "Compare them and publish nothing new.", "reason": "asked for less"}
    revised = doors.api("POST", f"/runs/{wait.run_id}/goal/", said).json()
    assert revised["revision"] == wait.checkpoint_revision + 1 and revised["goal"] == said["goal"]
    assert revised["waits"][0]["status"] == "SUPERSEDED"
    problem(doors.api("POST", f"/waits/{wait.id}/decide/", decision(wait)), 409, "STALE_REVISION")


def test_an_obligation_is_released_once(doors: Doors) -> None:
    wait = doors.waiting()
    promised = doors.api("GET", f"/obligations/?status=OPEN&run={wait.run_id}").json()["results"]
    path = f"/obligations/{promised[0]['id']}/release/"
    released = doors.api("POST", path, {"reason": "no wiki today"}).json()
    assert (released["status"], released["released_by"]) == ("RELEASED", "person:operator")
    problem(doors.api("POST", path, {"reason": "again"}), 409, "OBLIGATION_CLOSED")


def test_a_run_accepts_terms_which_are_listed_and_withdrawn_once(doors: Doors) -> None:
    terms = {
        "constraint": ["Write in English.", "Be brief."],
        "assumption": ["It is June."],
        "deny": ["publish_report"],
    }
    run = doors.start(form(**terms)).json()
    given = [(row["kind"], row["statement"], row["source_ref"], row["denies"]) for row in run["commitments"][-4:]]
    assert given == [
        ("CONSTRAINT", "Write in English.", "person:operator", []),
        ("CONSTRAINT", "Be brief.", "person:operator", []),
        ("CONSTRAINT", "Do not call publish_report.", "person:operator", ["publish_report"]),
        ("ASSUMPTION", "It is June.", "person:operator", []),
    ]
    listed = doors.api("GET", f"/commitments/?kind=ASSUMPTION&status=LIVE&run={run['id']}").json()["results"]
    assert listed[0]["statement"] == "It is June."
    path = f"/commitments/{listed[0]['id']}/withdraw/"
    withdrawn = doors.api("POST", path, {"reason": "it is July"}).json()
    assert (withdrawn["status"], withdrawn["withdrawn_by"]) == ("WITHDRAWN", "person:operator")
    problem(doors.api("POST", path, {"reason": "again"}), 409, "COMMITMENT_WITHDRAWN")
    assert problem(doors.start(form(deny=["unheard_of"])), 400, "INVALID")["facts"]["field"] == "deny"


def test_a_run_under_way_is_bound_to_more(doors: Doors) -> None:
    wait = doors.waiting()
    said = {"constraint": ["Be brief."], "deny": ["publish_report"], "reason": "asked for less"}
    bound = doors.api("POST", f"/runs/{wait.run_id}/terms/", said).json()
    assert [(row["statement"], row["accepted_revision"]) for row in bound["commitments"][-2:]] == [
        ("Be brief.", wait.checkpoint_revision + 1),
        ("Do not call publish_report.", wait.checkpoint_revision + 1),
    ]
    assert (bound["waits"][0]["status"], len(bound["goals"])) == ("SUPERSEDED", 2)
    problem(doors.api("POST", f"/runs/{wait.run_id}/terms/", {"reason": "nothing"}), 400, "INVALID")


def test_a_held_run_says_what_can_be_done_and_is_settled(doors: Doors) -> None:
    run = doors.unknown().run_id
    shown = doors.api("GET", f"/runs/{run}/").json()
    assert (shown["held_by"]["guard"], shown["held_by"]["kind"]) == (3, "UNCERTAIN_CALL")
    assert shown["next_acts"] == ["reconcile", "stop", "settle"]
    settled = doors.api("POST", f"/runs/{run}/settle/", {"reason": "by what is known"}).json()
    assert (settled["status"], settled["settlement"]["unknown_calls"]) == ("SETTLED", 1)
    assert (settled["held_by"], settled["next_acts"]) == (None, ["continue"])
    problem(doors.api("POST", f"/runs/{run}/settle/", {"reason": "again"}), 409, "RUN_ENDED")


def test_a_run_is_paused_and_the_pause_taken_back(doors: Doors) -> None:
    run = doors.waiting().run_id
    shown = doors.api("POST", f"/runs/{run}/pause/", {"reason": "not tonight"}).json()
    assert (shown["status"], shown["hold_reason"], shown["pause"]["status"]) == ("HELD", "PAUSED", "ADOPTED")
    assert shown["next_acts"] == ["resume", "stop", "settle"]
    shown = doors.api("POST", f"/runs/{run}/resume/", {"reason": "morning"}).json()
    assert (shown["status"], shown["pause"]["status"], shown["stop"]) == ("WAITING", "SETTLED", None)


def test_a_cap_is_raised_and_what_has_none_is_said_to_have_none(doors: Doors, waiting: Wait) -> None:
    path = f"/runs/{waiting.run_id}/budget/"
    shown = doors.api("POST", path, {"unit": "tokens", "cap": 9_000_000, "reason": "more"}).json()
    caps = {budget["unit"]: budget["cap"] for budget in shown["budgets"]}
    assert (caps["tokens"], caps["usd_micros"]) == (9_000_000, None)
    problem(doors.api("POST", path, {"unit": "usd_micros", "cap": 5, "reason": "more"}), 409, "NO_CAP")
    assert problem(doors.api("POST", path, {"unit": "pounds", "cap": 5, "reason": "x"}), 400, "INVALID")


def test_a_run_is_resumed_from_its_newest_revision_only(doors: Doors, waiting: Wait) -> None:
    """A-035."""
    path, newest = f"/runs/{waiting.run_id}/resume/", waiting.checkpoint_revision
    older = doors.api("POST", path, {"reason": "go on", "revision": newest - 1})
    assert problem(older, 409, "STALE_REVISION")["facts"] == {"seen": newest - 1, "revision": newest}
    problem(doors.api("POST", path, {"reason": "go on", "revision": newest}), 409, "NOTHING_TO_RESUME")


def test_only_a_held_run_is_resumed(doors: Doors, waiting: Wait) -> None:
    problem(doors.api("POST", f"/runs/{waiting.run_id}/resume/", {"reason": "go on"}), 409, "NOTHING_TO_RESUME")


def test_an_act_without_a_reason_names_the_field(doors: Doors, waiting: Wait) -> None:
    answer = doors.api("POST", f"/runs/{waiting.run_id}/stop/", {})
    assert problem(answer, 400, "INVALID")["facts"]["field"] == "reason"
    answer = doors.api("POST", f"/runs/{waiting.run_id}/stop/", {"reason": "   "})
    assert "empty" in problem(answer, 400, "INVALID")["detail"]


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


# ── the document ──


def test_the_openapi_document_is_made_of_the_code(doors: Doors) -> None:
    answer = doors.api("GET", "/schema/")
    assert answer.status_code == 200
    document = json.loads(answer.content)
    assert "/api/v1/waits/{id}/decide/" in document["paths"]
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=io.StringIO())
    problem(Client().get("/api/v1/schema/"), 401, "NOT_SIGNED_IN")


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
