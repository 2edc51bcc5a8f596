"""Acts by command line: the whole story, each act, and what is refused."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from accounts.models import AuditEvent
from approvals.models import Decision, Wait
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from tests.doors.typed import AS, refused, seen
from tests.doors.world import OPERATOR, Doors, manage

pytestmark = pytest.mark.usefixtures("doors")

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
    refused(manage("runs", "abort", run, "--reason", "again", *AS, "--json"), "RUN_ENDED")
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


# ── several at once ──


def test_a_batch_of_which_anything_was_refused_ends_with_a_code_of_its_own_and_says_of_each_what_came_of_it(
    doors: Doors,
) -> None:
    first, second = doors.waiting(), doors.waiting()

    def items(*waits: Wait) -> str:
        named = [{"id": str(one.id), "revision": one.checkpoint_revision, "digest": one.checkpoint_digest,
                  "args_digest": one.args_digest} for one in waits]  # fmt: skip
        return json.dumps(named)

    reject = ("waits", "decide-many", "--reject", "--reason", "not now", *AS)
    done = manage(*reject, "--items", items(first), "--json")
    assert (done.code, [one["outcome"] for one in done.json]) == (0, ["DECIDED"])
    in_part = manage(*reject, "--items", items(first, second), "--json")
    assert (in_part.code, in_part.err) == (3, "1 of them was refused.\n")
    assert [(one["outcome"], one["code"]) for one in in_part.json] == [("REFUSED", "ALREADY_DECIDED"), ("DECIDED", "")]
    none = manage(*reject, "--items", items(first, second))
    assert none.code == 3 and none.out.count("ALREADY_DECIDED") == 2 and "2 of them were refused." in none.err
    whole = manage(*reject, "--items", "[]", "--json")
    assert (whole.code, whole.json["error"]["code"]) == (1, "INVALID")


# ── files beside a call ──


def test_a_file_beside_a_call_is_saved_as_it_was_given_and_replaces_none(doors: Doors, tmp_path: Path) -> None:
    call = doors.unknown()
    (tmp_path / "seen.txt").write_bytes(b"one post\x00\xff")
    attached = manage("calls", "attach", call.id, "--file", tmp_path / "seen.txt", *AS, "--json")
    (one,) = attached.json["attachments"]
    save = ("calls", "attachment", call.id, one["id"], "--save-to", tmp_path / "saved", *AS)
    saved = manage(*save, "--json")
    assert (saved.code, saved.json["sha256"], saved.json["filename"]) == (0, one["sha256"], "seen.txt")
    assert (tmp_path / "saved").read_bytes() == b"one post\x00\xff"
    again = manage(*save)
    assert again.code == 2 and "is not replaced" in again.err
    nowhere = manage(*save[:-4], "--save-to", tmp_path / "no" / "where", *AS)
    assert nowhere.code == 2 and "can't be written" in nowhere.err
