"""The command line: exit codes, one JSON document, who acts, and the whole story without a browser."""

import io
import json
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth import authenticate
from django.db import connection, connections
from django.test import Client

from accounts.models import AuditEvent, Membership, Tenant, User
from approvals.models import Decision, Wait
from console.management import awaiting
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from tests.doors.world import ALDER, BIRCH, OPERATOR, Doors, Ran, manage
from tests.stack import Stack
from tests.waiting import wait_until

MISSING = "00000000-0000-0000-0000-000000000000"
AS = ("--as", OPERATOR)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    for name, text in (("alder.csv", ALDER), ("birch.csv", BIRCH)):
        (tmp_path / name).write_text(text)
    return "--file", f"a={tmp_path}/alder.csv", "--file", f"b={tmp_path}/birch.csv"


def seen(wait: dict[str, Any]) -> tuple[Any, ...]:
    return "--revision", wait["revision"], "--digest", wait["digest"], "--args-digest", wait["args_digest"]


def refused(ran: Ran, code: str) -> dict[str, Any]:
    """A refusal: exit code 1, the sentence and the code on stderr, the document on stdout."""
    assert ran.code == 1, ran
    error: dict[str, Any] = ran.json["error"]
    assert error["code"] == code and error["message"] in ran.err and f"({code})" in ran.err
    return error


# ── the story ──


def test_the_story_is_told_by_the_command_line_alone(doors: Doors, files: tuple[str, ...]) -> None:
    started = manage("runs", "start", "fund_comparison", *files, *AS, "--json")
    assert (started.code, started.err) == (0, "")
    run = started.json["id"]
    assert started.json["status"] == "QUEUED" and started.json["new"] is True
    drive(UUID(run))
    reached = manage("runs", "await", run, "--until", "WAITING,HELD", "--timeout", 5, *AS, "--json")
    assert (reached.code, reached.json["reached"]) == (0, "WAITING")
    (wait,) = manage("waits", "list", "--run", run, *AS, "--json").json
    assert manage("waits", "show", wait["id"], *AS, "--json").json == wait
    assert {"id", "run", "status", "revision", "digest", "args_digest", "tool", "arguments", "deadline"} <= set(wait)
    why = ("--reason", "read it")
    decided = manage("waits", "decide", wait["id"], "--approve", *seen(wait), *why, *AS, "--json")
    assert decided.code == 0 and decided.json["decision"]["verdict"] == "APPROVE"
    doors.outside.control(mode="drop", times=1)
    drive(UUID(run))
    calls = manage("calls", "list", "--status", "UNCERTAIN", "--run", run, *AS, "--json").json
    assert [call["step"] for call in calls] == ["publish_report/overlap-v2"]
    said = ("--verdict", "EXECUTED", "--evidence", "The wiki shows it.", "--external-ref", "wiki/7")
    verdict = manage("calls", "reconcile", calls[0]["id"], *said, *AS, "--json")
    assert verdict.code == 0 and verdict.json["status"] == "SUCCEEDED"
    drive(UUID(run))
    assert manage("runs", "await", run, "--until", "COMPLETED", *AS, "--json").code == 0
    report = manage("reports", "show", run, *AS, "--json").json
    assert report["version"] == 2 and report["publications"][0]["external_ref"] == "wiki/7"
    assert manage("reports", "show", run, "--version", 1, *AS, "--json").json["version"] == 1
    shown = manage("runs", "show", run, *AS, "--json").json
    assert {"id", "status", "phase", "revision", "agent", "waits", "calls"} <= set(shown)
    assert (shown["status"], shown["phase"]) == ("COMPLETED", "FINISHED")
    doors_used = AuditEvent.objects.filter(tenant=doors.tenant, detail__door="command")
    assert {"run.start", "wait.decide", "call.reconcile"} <= set(doors_used.values_list("action", flat=True))


def test_command_line_and_api_say_the_same(doors: Doors, waiting: Wait, unknown: ToolCall, completed: Run) -> None:
    for command, path in (
        (("runs", "show", waiting.run_id), f"/runs/{waiting.run_id}/"),
        (("waits", "show", waiting.id), f"/waits/{waiting.id}/"),
        (("calls", "show", unknown.id), f"/calls/{unknown.id}/"),
        (("checkpoints", "show", completed.id, 2), f"/runs/{completed.id}/checkpoints/2/"),
        (("checkpoints", "diff", completed.id, 1, 2), f"/runs/{completed.id}/checkpoints/1/diff/2/"),
    ):
        assert manage(*command, *AS, "--json").json == doors.api("GET", path).json()


# ── acts and their refusals ──


def test_a_refusal_is_a_sentence_with_its_code(waiting: Wait) -> None:
    stale = ("--revision", 1, "--digest", "0", "--args-digest", "0", "--reason", "x")
    error = refused(manage("waits", "decide", waiting.id, "--approve", *stale, *AS, "--json"), "STALE_REVISION")
    assert error["facts"]["revision"] == waiting.checkpoint_revision
    plain = manage("waits", "decide", waiting.id, "--approve", *stale, *AS)
    assert (plain.code, plain.out) == (1, "") and "(STALE_REVISION)" in plain.err
    assert not Decision.objects.filter(wait=waiting).exists()


def test_a_decision_without_what_was_seen_is_a_usage_error(waiting: Wait) -> None:
    ran = manage("waits", "decide", waiting.id, "--approve", "--reason", "x", *AS)
    assert (ran.code, ran.out) == (2, "") and "--digest" in ran.err
    record = manage("waits", "show", waiting.id, *AS, "--json").json
    assert manage("waits", "decide", waiting.id, *seen(record), "--reason", "x", *AS).code == 2
    both = ("--approve", "--reject")
    assert manage("waits", "decide", waiting.id, *both, *seen(record), "--reason", "x", *AS).code == 2


def test_a_wait_is_rejected(doors: Doors) -> None:
    wait = manage("waits", "show", doors.waiting().id, *AS, "--json").json
    ran = manage("waits", "decide", wait["id"], "--reject", *seen(wait), "--reason", "not now", *AS, "--json")
    assert ran.json["status"] == "REJECTED" and ran.json["decision"]["reason"] == "not now"
    late = manage("waits", "decide", wait["id"], "--approve", *seen(wait), "--reason", "yes", *AS, "--json")
    assert refused(late, "ALREADY_DECIDED")["facts"]["by"] == OPERATOR


def test_a_run_is_stopped_and_the_stop_is_shown(doors: Doors) -> None:
    run = doors.started()
    ran = manage("runs", "stop", run, "--reason", "wrong files", *AS, "--json")
    assert (ran.code, ran.json["status"], ran.json["stop"]["status"]) == (0, "CANCELLED", "SETTLED")
    refused(manage("runs", "stop", run, "--reason", "again", *AS, "--json"), "RUN_ENDED")
    refused(manage("runs", "resume", run, "--reason", "on", *AS, "--json"), "NOTHING_TO_RESUME")


def test_a_run_is_paused_and_resumed(doors: Doors) -> None:
    run = doors.waiting().run_id
    ran = manage("runs", "pause", run, "--reason", "not tonight", *AS, "--json")
    assert (ran.code, ran.json["status"], ran.json["hold_reason"]) == (0, "HELD", "PAUSED")
    assert (ran.json["pause"]["status"], ran.json["pause"]["reason"], ran.json["stop"]) == (
        "ADOPTED",
        "not tonight",
        None,
    )
    assert "ADOPTED, asked for by" in manage("runs", "show", run, *AS).out
    ran = manage("runs", "resume", run, "--reason", "morning", *AS, "--json")
    assert (ran.code, ran.json["status"], ran.json["pause"]["status"]) == (0, "WAITING", "SETTLED")


def test_a_cap_is_raised(doors: Doors) -> None:
    run = doors.waiting().run_id
    raising = ("runs", "raise-cap", run, "--unit", "tokens", "--reason", "more to read", *AS, "--json")
    ran = manage(*raising, "--cap", "9000000")
    assert ran.code == 0
    assert next(b for b in ran.json["budgets"] if b["unit"] == "tokens")["cap"] == 9_000_000
    assert refused(manage(*raising, "--cap", "9000000"), "CAP_NOT_HIGHER")["facts"]["cap"] == 9_000_000


def test_a_run_under_way_is_bound_to_more(doors: Doors) -> None:
    run = doors.waiting().run_id
    ran = manage("runs", "bind", run, "--constraint", "Be brief.", "--reason", "asked for less", *AS, "--json")
    assert (ran.code, ran.json["commitments"][-1]["statement"]) == (0, "Be brief.")


def test_a_run_is_settled(doors: Doors) -> None:
    run = doors.waiting().run_id
    ran = manage("runs", "show", run, *AS)
    assert "decide, pause, stop, settle" in ran.out
    ran = manage("runs", "settle", run, "--reason", "nobody needs it", *AS, "--json")
    assert (ran.code, ran.json["status"]) == (0, "SETTLED")
    assert "publish_report/overlap-v2" in ran.json["settlement"]["open_obligations"]
    refused(manage("runs", "settle", run, "--reason", "again", *AS, "--json"), "RUN_ENDED")


def test_a_goal_is_revised(doors: Doors) -> None:
    run = doors.waiting().run_id
    ran = manage("runs", "revise-goal", run, "--goal", "Only compare.", "--reason", "asked for less", *AS, "--json")
    assert ran.code == 0 and ran.json["goal"] == "Only compare."
    assert [wait["status"] for wait in ran.json["waits"]] == ["SUPERSEDED"]


def test_an_obligation_is_released(doors: Doors) -> None:
    run = doors.waiting().run_id
    (promise,) = manage("obligations", "list", "--run", run, "--status", "OPEN", *AS, "--json").json
    ran = manage("obligations", "release", promise["id"], "--reason", "no wiki", *AS, "--json")
    assert (ran.code, ran.json["status"]) == (0, "RELEASED")


def test_a_run_is_bound_and_what_binds_it_is_withdrawn(files: tuple[str, ...]) -> None:
    terms = ("--constraint", "Be brief.", "--assumption", "It is June.", "--deny", "NON_IDEMPOTENT")
    ran = manage("runs", "start", "fund_comparison", *files, *terms, *AS, "--json")
    assert [row["statement"] for row in ran.json["commitments"][-3:]] == [
        "Be brief.",
        "Send no NON_IDEMPOTENT call.",
        "It is June.",
    ]
    run = ran.json["id"]
    listed = manage("commitments", "list", "--run", run, "--kind", "ASSUMPTION", "--status", "LIVE", *AS, "--json").json
    ran = manage("commitments", "withdraw", listed[0]["id"], "--reason", "it is July", *AS, "--json")
    assert (ran.code, ran.json["status"]) == (0, "WITHDRAWN")
    refused(
        manage("commitments", "withdraw", listed[0]["id"], "--reason", "again", *AS, "--json"), "COMMITMENT_WITHDRAWN"
    )


def test_a_verdict_needs_a_follow_up_where_it_was_not_executed(unknown: ToolCall) -> None:
    said = ("--verdict", "NOT_EXECUTED", "--evidence", "Not there.")
    error = refused(manage("calls", "reconcile", unknown.id, *said, *AS, "--json"), "INVALID")
    assert error["facts"]["field"] == "then"


def test_a_start_says_which_file_and_what_is_wrong(tmp_path: Path, files: tuple[str, ...]) -> None:
    before = Run.objects.count()
    (tmp_path / "bad.csv").write_text("nothing,of,use\n1,2,3\n")
    start = ("runs", "start", "fund_comparison", *AS, "--json")
    refused(manage(*start, *files[:2], "--file", f"b={tmp_path}/bad.csv"), "INPUT_REFUSED")
    error = refused(manage(*start, *files[:2], "--file", f"b={tmp_path}/gone.csv"), "FILE_UNREADABLE")
    assert error["facts"] == {"path": f"{tmp_path}/gone.csv", "reason": "No such file or directory"}
    refused(manage(*start, *files[:2], "--file", f"b={tmp_path}"), "FILE_UNREADABLE")
    assert manage(*start, "--file", "nonsense").code == 2
    assert manage(*start, *files, *files[:2]).code == 2
    with (tmp_path / "big.csv").open("wb") as big:
        big.truncate(9 * 1024 * 1024)
    refused(manage(*start, *files[:2], "--file", f"b={tmp_path}/big.csv"), "INPUT_TOO_BIG")
    assert Run.objects.count() == before


def test_an_input_that_is_text_may_be_typed(tmp_path: Path) -> None:
    start = ("runs", "start", "evidence_search", *AS, "--json")
    claims = ("--text", "claims=The first claim here.")
    ran = manage(*start, *claims)
    assert ran.code == 0 and ran.json["inputs"][0]["filename"] == "typed text"
    (tmp_path / "claims.txt").write_text("The first claim here.")
    assert manage(*start, "--file", f"claims={tmp_path}/claims.txt").code == 0
    assert manage(*start, *claims, "--file", f"claims={tmp_path}/claims.txt").code == 2
    assert manage(*start, "--text", "claims").code == 2
    refused(manage(*start, "--text", "claims=short"), "INPUT_REFUSED")


def test_the_same_key_starts_one_run(files: tuple[str, ...]) -> None:
    start = ("runs", "start", "fund_comparison", *files, "--key", "by hand", *AS, "--json")
    first, second = manage(*start).json, manage(*start).json
    assert first["id"] == second["id"] and (first["new"], second["new"]) == (True, False)


# ── reading ──


def test_what_is_not_there_exits_1_and_says_so() -> None:
    for command in (
        ("runs", "show", MISSING),
        ("waits", "show", MISSING),
        ("calls", "show", MISSING),
        ("checkpoints", "show", MISSING, 1),
        ("reports", "show", MISSING),
    ):
        error = refused(manage(*command, *AS, "--json"), "NOT_FOUND")
        assert MISSING in error["message"] and OPERATOR in error["message"]
    assert manage("runs", "show", "not-an-id", *AS).code == 2


def test_a_run_without_a_report_says_so(doors: Doors) -> None:
    refused(manage("reports", "show", doors.started(), *AS, "--json"), "NOT_FOUND")


def test_lists_are_cut_aloud(doors: Doors) -> None:
    doors.started(), doors.started()
    ran = manage("runs", "list", "--limit", 1, "--status", "queued", *AS, "--json")
    assert len(ran.json) == 1 and ran.json[0]["status"] == "QUEUED" and "more than 1" in ran.err
    assert manage("runs", "list", "--limit", 0, *AS).code == 2
    assert manage("runs", "list", "--status", "NONSENSE", *AS).code == 2


def test_people_get_text(doors: Doors, waiting: Wait, unknown: ToolCall, completed: Run) -> None:
    for command, words in (
        (("runs", "list"), ["STATUS", str(waiting.run_id)]),
        (("runs", "show", waiting.run_id), ["WAITING", "AWAITING_APPROVAL", str(waiting.id)]),
        (("waits", "list"), ["OPEN", str(waiting.id)]),
        (("waits", "show", waiting.id), [waiting.args_digest, "NON_IDEMPOTENT", '"channel": "wiki"']),
        (("calls", "list", "--status", "uncertain"), [str(unknown.id)]),
        (("calls", "show", unknown.id), ["NO_RESPONSE"]),
        (("checkpoints", "list", completed.id), ["(head)", "FINISHED"]),
        (("checkpoints", "show", completed.id, 1), ["READY_TO_DECIDE"]),
        (("checkpoints", "diff", completed.id, 1, 2), ["$.revision", "- 1", "+ 2"]),
        (("checkpoints", "diff", completed.id, 1, 1), ["do not differ"]),
        (("reports", "show", completed.id), ["wiki PUBLISHED", "Weight overlap: 45"]),
        (("obligations", "list", "--run", completed.id), ["FULFILLED"]),
        (("members", "list"), ["tour", OPERATOR]),
    ):
        ran = manage(*command, *(() if command[0] == "members" else AS))
        assert ran.code == 0, ran
        assert all(word in ran.out for word in words), (command, ran.out)


def test_untrusted_text_cannot_move_the_terminal(doors: Doors, files: tuple[str, ...]) -> None:
    title, goal = "read \u202e right to left", "clear \x1b[2J the screen"
    spoken = ("--title", title, "--goal", goal)
    run = manage("runs", "start", "fund_comparison", *files, *spoken, *AS, "--json").json["id"]
    for command in (("runs", "show", run), ("runs", "list")):
        text = manage(*command, *AS).out
        assert "\x1b" not in text and "\u202e" not in text and "[U+202E]" in text
    assert "[ESC]" in manage("runs", "show", run, *AS).out
    shown = manage("runs", "show", run, *AS, "--json").json
    assert (shown["title"], shown["goal"]) == (title, goal)


def test_a_title_is_one_line_of_text(doors: Doors, files: tuple[str, ...]) -> None:
    for title in ("two\nlines", "clear \x1b[2J", "not \ufffd text"):
        ran = manage("runs", "start", "fund_comparison", *files, "--title", title, *AS, "--json")
        assert refused(ran, "INVALID")["facts"]["field"] == "title"


# ── waiting ──


def test_await_says_why_it_ended_in_vain(doors: Doors, waiting: Wait, completed: Run) -> None:
    ran = manage("runs", "await", waiting.run_id, "--until", "COMPLETED", "--timeout", 0, *AS, "--json")
    assert refused(ran, "TIME_PASSED")["facts"]["status"] == "WAITING"
    ran = manage("runs", "await", completed.id, "--until", "WAITING", "--timeout", 60, *AS, "--json")
    assert refused(ran, "ENDED_OTHERWISE")["facts"]["status"] == "COMPLETED"
    assert manage("runs", "await", completed.id, "--until", "DONE", *AS).code == 2
    assert manage("runs", "await", completed.id, "--until", "COMPLETED", "--timeout", "nan", *AS).code == 2


def test_await_notices_a_state_that_has_passed(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = doors.started()
    monkeypatch.setattr(awaiting, "_hinted", lambda *_: drive(run_id))
    ran = manage("runs", "await", run_id, "--until", "RUNNING", "--timeout", 30, *AS, "--json")
    assert (ran.code, ran.json["reached"], ran.json["status"]) == (0, "RUNNING", "WAITING")


def test_await_is_woken_by_a_hint(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting, "LOOK_SECONDS", 600.0)
    run_id = doors.started()
    answers: list[Ran] = []

    def wait() -> None:
        answers.append(manage("runs", "await", run_id, "--until", "WAITING", "--timeout", 60, *AS, "--json"))
        connections.close_all()

    thread = threading.Thread(target=wait)
    thread.start()
    _listening(run_id)
    drive(run_id)
    thread.join(30)
    assert answers and answers[0].code == 0 and answers[0].json["reached"] == "WAITING"


def _listening(run_id: UUID) -> None:
    """Wait until the other thread's connection listens."""

    def listens() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM pg_stat_activity WHERE query = 'LISTEN signalbox' AND datname = current_database()"
            )
            return cursor.fetchone() is not None

    wait_until(listens, f"somebody listens for run {run_id}")


# ── who acts ──


def test_the_acting_person_must_be_named_where_there_are_several(doors: Doors) -> None:
    ran = manage("runs", "list", "--json")
    assert (ran.code, ran.out) == (2, "") and "--as USERNAME is required" in ran.err
    refused(manage("runs", "list", "--as", "nobody", "--json"), "NO_MEMBER")


def test_the_only_person_acts_without_being_named(live_database: str) -> None:
    nobody = manage("runs", "list", "--json")
    assert nobody.code == 2 and "no member yet" in nobody.err
    manage("members", "set", "alone", "robin", "--roles", "operator")
    assert manage("runs", "list", "--json") == Ran(0, "[]\n", "")


def test_people_and_tokens_are_made(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    made = manage(
        "members", "set", "north", "n.berg", "--roles", "operator,approver", "--tenant-name", "North", "--json"
    )
    assert made.code == 0 and made.json["roles"] == ["approver", "operator"]
    assert Tenant.objects.get(slug="north").name == "North"
    assert authenticate(username="n.berg", password=made.json["password"]) is not None
    again = manage("members", "set", "north", "n.berg", "--roles", "viewer", "--json")
    assert again.json["password"] is None
    assert authenticate(username="n.berg", password=made.json["password"]) is not None
    assert Membership.objects.get(user__username="n.berg").roles == ["viewer"]
    monkeypatch.setattr("sys.stdin", io.StringIO("a long pass phrase\n"))
    given = manage("members", "set", "north", "n.berg", "--roles", "viewer", "--password-stdin", "--json")
    assert given.json["password"] is None and "pass phrase" not in given.out
    assert authenticate(username="n.berg", password="a long pass phrase") is not None
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    weak = manage("members", "set", "north", "n.berg", "--roles", "viewer", "--password-stdin", "--json")
    assert refused(weak, "INVALID")["facts"]["field"] == "password"
    token = manage("members", "token", "create", "north", "n.berg", "--name", "laptop", "--json").json["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert Client().get("/api/v1/runs/", headers=headers).json()["results"] == []
    assert manage("members", "token", "revoke", "north", "n.berg", "--name", "laptop", "--json").json["revoked"] == 1
    assert Client().get("/api/v1/runs/", headers=headers).status_code == 401
    refused(manage("members", "token", "revoke", "north", "n.berg", "--name", "laptop", "--json"), "NOT_FOUND")
    refused(manage("members", "token", "create", "tour", "n.berg", "--name", "x", "--json"), "NOT_FOUND")
    User.objects.get(username="n.berg").memberships.all().delete()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("north", "x", "--roles", "king"), 2),
        (("north", "x", "--roles", ""), 2),
        (("north", "x"), 2),
        (("no slug", "x", "--roles", "viewer"), 1),
        (("north", "no name", "--roles", "viewer"), 1),
        (("n" * 65, "x", "--roles", "viewer"), 1),
    ],
)
def test_members_are_not_made_of_nonsense(doors: Doors, arguments: tuple[str, ...], code: int) -> None:
    before = User.objects.count(), Tenant.objects.count()
    assert manage("members", "set", *arguments, "--json").code == code
    assert (User.objects.count(), Tenant.objects.count()) == before


# ── as a process ──


@pytest.mark.process
def test_the_commands_work_as_processes_of_their_own(stack: Stack, tmp_path: Path, files: tuple[str, ...]) -> None:
    made = stack.manage_json("members", "set", "tour", OPERATOR, "--roles", "operator,approver,reconciler")
    assert made["username"] == OPERATOR
    run = stack.manage_json("runs", "start", "fund_comparison", *files)["id"]
    assert stack.manage_json("runs", "show", run)["created_by"] == f"person:{OPERATOR}"
    waited = stack.manage("runs", "await", run, "--until", "WAITING", "--timeout", "0", "--json", code=1)
    assert json.loads(waited)["error"]["code"] == "TIME_PASSED"
    assert stack.manage("runs", "show", MISSING, code=1) == ""
    assert stack.manage("waits", "decide", MISSING, "--approve", code=2) == ""
    stack.environment["SIGNALBOX_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none"
    silent = json.loads(stack.manage("runs", "list", "--json", code=1))
    assert silent["error"]["code"] == "DATABASE_SILENT"


def test_the_audit_chain_can_be_walked_and_a_change_is_named(doors: Doors) -> None:
    doors.started()
    whole = manage("audit", "verify", "--as", "only-auditor", "--json")
    assert (whole.code, whole.json["whole"]) == (0, True)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE accounts_auditevent SET actor = 'person:nobody' WHERE seq = 1")
        cursor.execute("SET session_replication_role = DEFAULT")
    broken = manage("audit", "verify", "--as", "only-auditor", "--json")
    assert (broken.code, broken.json["error"]["code"]) == (1, "CHAIN_BROKEN")
    assert "event 1" in broken.err


def test_a_flag_is_raised_listed_and_closed_by_command(doors: Doors) -> None:
    call = doors.unknown()
    verdict = ("--verdict", "NOT_EXECUTED", "--then", "RETRY", "--evidence", "Nothing is there.")
    assert manage("calls", "reconcile", call.id, *verdict, *AS).code == 0
    said = ("--says", "EXECUTED", "--evidence", "It is there after all.")
    shown = manage("calls", "contradict", call.id, *said, *AS)
    assert shown.code == 0 and "HUMAN says EXECUTED (open)" in shown.out
    refused(manage("calls", "contradict", call.id, *said, *AS, "--json"), "NOTHING_CONTRADICTED")
    flags = manage("contradictions", "list", "--open", *AS, "--json").json
    [flag] = [one for one in flags if one["call"] == str(call.id)]
    assert flag["step"] in manage("contradictions", "list", *AS).out
    closing = ("contradictions", "close", flag["id"], "--how", "do_not_send", "--reason", "I looked again.", *AS)
    assert "DO_NOT_SEND" in manage(*closing).out
    refused(manage(*closing, "--json"), "CONTRADICTION_CLOSED")


def test_workspaces_and_memory_are_read_by_command(doors: Doors) -> None:
    start = ("runs", "start", "evidence_search", "--text", "claims=The first claim here.", "--workspace", "A grid")
    run = manage(*start, *AS, "--json").json
    drive(UUID(run["id"]))
    assert "A grid" in manage("workspaces", "list", *AS).out
    assert "The first claim here." in manage("workspaces", "show", run["workspace"], *AS).out
    assert manage("workspaces", "show", run["workspace"], *AS, "--json").json[0]["version"] == 1
    assert manage("memory", "list", "--subject", "nothing", *AS).out.strip() == "Nothing is remembered."
