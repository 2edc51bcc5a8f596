"""Continue, fork, replay, migrate and pin anew, on every door."""

import json
from typing import Any
from uuid import UUID

import pytest

from accounts.states import Role
from approvals.models import Wait
from receipts.models import SecondEffect, ToolCall
from receipts.selectors import written_arguments
from runs.models import Run
from runtime.services import run_stop
from tests.doors.test_access import browser
from tests.doors.world import OPERATOR, Doors, manage, person

KEY = {"Idempotency-Key": "again"}


@pytest.fixture
def stopped(doors: Doors) -> Run:
    """A run that was stopped while it waited for its publication."""
    wait = doors.waiting()
    run_stop(actor=person(OPERATOR), run_id=wait.run_id, reason="not today")
    return Run.objects.get(id=wait.run_id, status="CANCELLED")


def told(run_id: UUID, *names: str) -> list[Any]:
    run = Run.objects.get(id=run_id)
    return [getattr(run, name) for name in names]


def test_the_api_continues_a_run_once_per_key(doors: Doors, stopped: Run) -> None:
    path = f"/runs/{stopped.id}/continue/"
    made = doors.api("POST", path, {"reason": "go on", "goal": "Publish it."}, **KEY)
    assert made.status_code == 201, made.content
    record = made.json()
    assert made["Location"].endswith(f"/runs/{record['id']}/")
    assert (record["origin"], record["continued_from"], record["goal"]) == ("CONTINUED", str(stopped.id), "Publish it.")
    assert [promise["status"] for promise in record["obligations"]].count("OPEN") == 1
    again = doors.api("POST", path, {"reason": "go on", "goal": "Publish it."}, **KEY)
    assert (again.status_code, again.json()["id"]) == (200, record["id"])
    other = doors.api("POST", path, {"reason": "go on"})
    assert (other.status_code, other.json()["code"]) == (409, "ALREADY_CONTINUED")


def test_the_api_previews_and_forks_a_revision(doors: Doors, stopped: Run) -> None:
    path = f"/runs/{stopped.id}/checkpoints/4/fork/"
    seen = doors.api("GET", f"{path}preview/").json()
    assert [call["step"] for call in seen["kept"]] and seen["turns"] > 0
    assert {call["step"] for call in seen["reused"]} >= {"send_answer_part/v1"}
    assert not {call["id"] for call in seen["kept"]} & {call["id"] for call in seen["repeated"]}
    made = doors.api("POST", path, {"reason": "try it differently"})
    assert made.status_code == 201, made.content
    assert (made.json()["forked_from"], made.json()["forked_from_revision"]) == (str(stopped.id), 4)


def test_the_api_replays(doors: Doors, stopped: Run) -> None:
    record = doors.api("GET", f"/runs/{stopped.id}/replay/").json()
    assert {step["kind"] for step in record["steps"]} == {"MESSAGE", "TURN", "CALL"}
    assert all(step["intact"] for step in record["steps"])
    assert record["phases"][0] == {"revision": 1, "phase": "READY_TO_DECIDE"}


def test_what_stands_of_a_run_is_said_on_every_door(doors: Doors, stopped: Run) -> None:
    """A-003, A-158: the publication did not happen, the first version stays, and nothing is unknown."""
    record = doors.api("GET", f"/runs/{stopped.id}/recovery/").json()
    assert sum(record["counts"].values()) == len(record["lines"])
    named = {line["name"]: line["standing"] for line in record["lines"]}
    assert (named["overlap v1 on console"], named["publish_report/overlap-v2"]) == ("REUSABLE", "REAUTHORISE")
    assert (record["counts"]["UNKNOWN"], record["next_acts"], record["point"]["readable"]) == (0, ["continue"], True)
    ran = manage("runs", "recovery", str(stopped.id), "--as", OPERATOR, "--json")
    assert (ran.code, ran.json) == (0, record)
    shown = browser(OPERATOR).get(f"/runs/{stopped.id}/recovery/").content.decode()
    assert all(
        words in shown for words in ("Nobody knows", "To be authorised again", "Reusable", "overlap v1 on console")
    )


@pytest.mark.parametrize(("act", "code"), [("migrate", "NOTHING_TO_MIGRATE"), ("repin", "NOTHING_TO_PIN")])
def test_an_upgrade_that_is_not_needed_is_refused_on_every_door(
    doors: Doors, waiting: Wait, act: str, code: str
) -> None:
    answer = doors.api("POST", f"/runs/{waiting.run_id}/{act}/", {"reason": "deployed"})
    assert (answer.status_code, answer.json()["code"]) == (409, code)
    ran = manage("runs", act, str(waiting.run_id), "--reason", "deployed", "--as", OPERATOR, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, code)
    shown = browser(OPERATOR).post(f"/runs/{waiting.run_id}/{act}/", {"reason": "deployed"})
    assert shown.status_code == 409 and code in shown.content.decode()


def test_the_command_line_continues_forks_and_replays(doors: Doors, stopped: Run) -> None:
    run, by = str(stopped.id), ("--as", OPERATOR, "--json")
    assert manage("runs", "preview-fork", run, "4", *by).json["revision"] == 4
    forked = manage("runs", "fork", run, "4", "--reason", "try it", *by).json
    assert (forked["origin"], forked["new"]) == ("FORKED", True)
    continued = manage("runs", "continue", run, "--reason", "go on", "--title", "Once more", *by).json
    assert (continued["origin"], continued["title"]) == ("CONTINUED", "Once more")
    assert manage("runs", "replay", run, *by).json["steps"]
    text = manage("runs", "replay", run, "--as", OPERATOR).out
    assert "send_answer_part/v1" in text and "yes" in text
    assert "begins with" in manage("runs", "preview-fork", run, "4", "--as", OPERATOR).out


def test_the_pages_continue_fork_and_replay(doors: Doors, stopped: Run) -> None:
    client, run = browser(OPERATOR), f"/runs/{stopped.id}/"
    assert "Continue as a new run" in client.get(run).content.decode()
    page = client.get(f"{run}checkpoints/4/fork/").content.decode()
    assert "send_answer_part/v1" in page and "Start the fork" in page
    forked = client.post(f"{run}checkpoints/4/fork/", {"reason": "try it", "goal": "Compare them.", "key": "k"})
    again = client.post(f"{run}checkpoints/4/fork/", {"reason": "try it", "goal": "Compare them.", "key": "k"})
    assert forked.status_code == 302 and forked["Location"] == again["Location"]
    continued = client.post(f"{run}continue/", {"reason": "go on"})
    assert continued.status_code == 302
    assert told(UUID(continued["Location"].split("/")[2]), "origin", "continued_from_id") == ["CONTINUED", stopped.id]
    shown = client.get(run).content.decode()
    assert "It is continued by" in shown and "Forked at revision 4 by" in shown
    replayed = client.get(f"{run}replay/?step=all").content.decode()
    assert "No model and no tool was asked" in replayed and "Text from the model." in replayed
    assert "holdings[0].name" in replayed and "{&#x27;" not in replayed
    viewer = browser(f"only-{Role.VIEWER}").get(f"{run}continue/").content.decode()
    assert "needs the role operator" in viewer


def test_a_second_effect_is_asked_for_on_every_door(doors: Doors, completed: Run) -> None:
    drafted, published, read = (
        ToolCall.objects.filter(run=completed, tool=tool).latest("ordinal")
        for tool in ("send_answer_part", "publish_report", "read_disclosure")
    )
    asked = doors.api("POST", f"/calls/{drafted.id}/repeat/", {"reason": "send it again"})
    assert asked.status_code == 200, asked.content
    again = doors.api("POST", f"/calls/{drafted.id}/repeat/", {"reason": "send it again"})
    assert (again.status_code, again.json()["code"]) == (409, "REPEAT_GRANTED")
    ran = manage("calls", "repeat", str(read.id), "--reason", "again", "--as", OPERATOR, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "NOTHING_TO_REPEAT")
    client = browser(OPERATOR)
    assert "once more" in client.get(f"/calls/{published.id}/").content.decode()
    assert client.post(f"/calls/{published.id}/repeat/", {"reason": "post it again"}).status_code == 302
    assert SecondEffect.objects.filter(tool_call__in=[drafted, published]).count() == 2


def test_a_call_is_written_anew_on_every_door(doors: Doors) -> None:
    """T42: the call that waits ends as REJECTED, and one with other arguments stands in its place."""
    wait, by = doors.waiting(), ("--as", OPERATOR, "--json")
    seen = {"revision": wait.checkpoint_revision, "digest": wait.checkpoint_digest, "args_digest": wait.args_digest}
    written = written_arguments(wait.tool_call)
    assert "body" not in written  # the tool fills it in
    flags = [text for name, value in seen.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    amend = ("waits", "amend", str(wait.id), *flags, "--reason", "a clearer title")
    same = manage(*amend, "--arguments", json.dumps(written), *by)
    assert (same.code, same.json["error"]["code"]) == (1, "NOTHING_AMENDED")
    assert manage(*amend, "--arguments", "[1]", *by).code == manage(*amend, "--arguments", "{", *by).code == 2

    client = browser(OPERATOR)
    shown = client.get(f"/waits/{wait.id}/amend/").content.decode()
    assert "Write this call anew" in shown and "Your call takes its place" in shown
    wrong = client.post(f"/waits/{wait.id}/amend/", {**seen, "arguments": "{", "reason": "typo"})
    assert wrong.status_code == 400 and "arguments" in wrong.content.decode()
    assert f"/waits/{wait.id}/amend/" in client.get(f"/waits/{wait.id}/").content.decode()

    changed = {**written, "summary": "Shorter."}
    made = doors.api("POST", f"/waits/{wait.id}/amend/", {**seen, "arguments": changed, "reason": "shorter"})
    assert made.status_code == 200, made.content
    call = made.json()
    assert (call["proposed_by"], call["author"], call["instead_of"]) == (
        "HUMAN",
        f"person:{OPERATOR}",
        str(wait.tool_call_id),
    )
    assert call["arguments"]["summary"] == "Shorter." and call["arguments"]["body"]
    assert ToolCall.objects.get(id=wait.tool_call_id).status == "REJECTED"
    again = doors.api("POST", f"/waits/{wait.id}/amend/", {**seen, "arguments": changed, "reason": "shorter"})
    assert (again.status_code, again.json()["code"]) == (409, "ALREADY_DECIDED")
    page = client.get(f"/calls/{call['id']}/").content.decode()
    assert "Written anew" in page

    other = doors.waiting()
    seen = {"revision": other.checkpoint_revision, "digest": other.checkpoint_digest, "args_digest": other.args_digest}
    text = json.dumps(written_arguments(other.tool_call) | {"summary": "Shorter."})
    led = client.post(f"/waits/{other.id}/amend/", {**seen, "arguments": text, "reason": "shorter"})
    assert led.status_code == 302
    assert ToolCall.objects.get(id=led["Location"].split("/")[2]).instead_of_id == other.tool_call_id
