"""The handover of a run over the API and by command: what its page says, in one record."""

from approvals.models import Wait
from receipts.models import ToolCall
from tests.doors.typed import AS
from tests.doors.world import OPERATOR, Doors, manage


def test_both_doors_hand_over_what_is_open_and_what_people_said(doors: Doors, waiting: Wait) -> None:
    record = doors.api("GET", f"/runs/{waiting.run_id}/handover/").json()
    assert record == manage("runs", "handover", waiting.run_id, *AS, "--json").json
    assert (record["run"], record["status"], record["goal"]["version"]) == (str(waiting.run_id), "WAITING", 1)
    assert next(one["page"] for one in record["open"]) == f"/waits/{waiting.id}/"
    assert record["next_acts"][0] == "decide" and record["unknown"] == []
    assert {one["name"] for one in record["inputs"]} == {"a", "b"}
    assert f"person:{OPERATOR}" in [one["who"] for one in record["watchers"]]
    text = manage("runs", "handover", waiting.run_id, *AS).out
    assert waiting.tool_call.step_name in text and "who acts next" in text


def test_a_handover_names_what_nobody_knows(doors: Doors, unknown: ToolCall) -> None:
    record = doors.api("GET", f"/runs/{unknown.run_id}/handover/").json()
    assert [line["id"] for line in record["unknown"] if line["thing"] == "CALL"] == [str(unknown.id)]
    assert str(unknown.id) not in [line["id"] for line in record["effects"]]
    assert [one["what"] for one in record["said"]] == [f"approved {unknown.step_name}"]
