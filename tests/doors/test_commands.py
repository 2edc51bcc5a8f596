"""The command line: exit codes, one JSON document, who acts, and the whole story without a browser."""

import io
import json
import threading
from pathlib import Path
from uuid import UUID

import pytest
from django.contrib.auth import authenticate
from django.db import connection, connections
from django.test import Client

from accounts.models import Membership, Tenant, User
from accounts.selectors import actor_named
from approvals.models import Wait
from console.management import awaiting
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from tests.doors.tabs import notify
from tests.doors.typed import AS, MISSING, refused
from tests.doors.world import OPERATOR, Doors, Ran, manage
from tests.stack import Stack
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("doors")

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
    notify(Run.objects.get(id=run_id))  # this process sends no hints by itself
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
    finance = manage("members", "set", "north", "n.berg", "--roles", "viewer", "--groups", "Finance, on-call", "--json")
    assert finance.json["groups"] == ["finance", "on-call"]
    kept = manage("members", "set", "north", "n.berg", "--roles", "viewer", "--json")
    assert kept.json["groups"] == ["finance", "on-call"]
    assert actor_named(username="n.berg", door="command").groups == {"finance", "on-call"}
    assert manage("members", "set", "north", "n.berg", "--roles", "viewer", "--groups", "a b").code == 2
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
