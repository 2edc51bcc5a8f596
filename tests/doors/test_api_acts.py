"""Acts over the HTTP API, and their refusals as problem+json."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connections

from accounts.models import AuditEvent
from approvals.models import Decision, Wait
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from tests.doors.asking import decision, form, problem
from tests.doors.world import BIRCH, OPERATOR, STRANGER, Doors

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
    assert (
        problem(answer, 400, "UNKNOWN_AGENT")["facts"]["known"]
        == "asking_fund_comparison, evidence_search, fund_comparison"
    )
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


def test_a_run_is_aborted_and_says_who_would_not_wait(doors: Doors) -> None:
    wait = doors.waiting()
    aborted = doors.api("POST", f"/runs/{wait.run_id}/abort/", {"reason": "it must end now"}).json()
    assert (aborted["status"], aborted["stop"]["abort_reason"]) == ("CANCELLED", "it must end now")
    assert aborted["stop"]["aborted_by"] == f"person:{OPERATOR}" and aborted["stop"]["aborted_at"]


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
