"""Policies through the API and the command line: the same answers, and a dry run that says what would change."""

from pathlib import Path

import pytest

from accounts.models import Membership
from approvals.models import PolicyHead, PolicyVersion, Wait
from receipts.models import ToolCall
from tests.doors.typed import refused
from tests.doors.world import Doors, manage

TEXT = '[[rule]]\nname = "two look at it"\ntools = ["publish_report"]\nthen = "ask"\npeople = 2\n'
FAULTY = '[[rule]]\nname = "x"\nthen = "ask"\npeople = "two"\nspeed = 3\n'
AS = ("--as", "only-governance", "--json")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(TEXT)
    return path


def test_a_policy_is_tried_saved_compared_and_put_in_force(doors: Doors, waiting: Wait, file: Path) -> None:
    tried = doors.api("POST", "/policies/try/", {"text": TEXT, "limit": 500}, by="only-governance").json()
    (row,) = [row for row in tried["rows"] if row["call"] == str(waiting.tool_call_id)]
    assert (row["was"], row["now"], row["draft"], row["changes"]) == (*["REQUIRE_APPROVAL"] * 3, True)
    assert row["draft_rule"].endswith("two look at it")
    assert tried["changed"] == len([row for row in tried["rows"] if row["changes"]]) < tried["looked_at"]
    saved = doors.api("POST", "/policies/", {"text": TEXT, "summary": "two people"}, by="only-governance")
    number = saved.json()["number"]
    assert (saved.status_code, saved.json()["version"], saved.json()["text"]) == (201, f"v{number}", TEXT)
    again = manage("policies", "save", "--file", file, "--summary", "again", *AS)
    assert again.json["number"] == number
    file.write_text(TEXT.replace("2", "3"))
    other = manage("policies", "save", "--file", file, "--summary", "three people", *AS).json["number"]
    assert manage("policies", "diff", number, other, *AS).json["lines"][-2:] == ["-people = 2", "+people = 3"]
    assert manage("policies", "try", "--number", number, *AS).json["in_force"] == 0
    stale = doors.api("POST", f"/policies/{number}/activate/", {"seen": other, "reason": "r"}, by="only-governance")
    assert (stale.status_code, stale.json()["code"]) == (409, "POLICY_MOVED")
    done = doors.api(
        "POST", f"/policies/{number}/activate/", {"seen": 0, "reason": "two see more"}, by="only-governance"
    )
    assert (done.status_code, done.json()["version"]) == (200, f"v{number}")
    twice = manage("policies", "activate", number, "--seen", number, "--reason", "again", *AS)
    assert refused(twice, "POLICY_IN_FORCE")["facts"] == {"version": f"v{number}"}
    back = manage("policies", "activate", 0, "--seen", number, "--reason", "one is enough", *AS)
    assert [entry["reason"] for entry in back.json["activations"][:2]] == ["one is enough", "two see more"]
    assert manage("policies", "in-force", *AS).json["version"] == "builtin-1"
    assert PolicyHead.objects.get(tenant=doors.tenant).number == 0
    listed = doors.api("GET", "/policies/?limit=1", by="only-viewer").json()
    assert [policy["number"] for policy in listed["results"]] == [other]


def test_both_doors_name_every_fault_at_its_place(doors: Doors, file: Path) -> None:
    file.write_text(FAULTY)
    before = PolicyVersion.objects.count()
    answer = doors.api("POST", "/policies/", {"text": FAULTY, "summary": "wrong"}, by="only-governance")
    assert (answer.status_code, answer.json()["code"]) == (400, "POLICY_FAULTY")
    ran = refused(manage("policies", "save", "--file", file, "--summary", "wrong", *AS), "POLICY_FAULTY")
    tried = doors.api("POST", "/policies/try/", {"text": FAULTY}, by="only-governance").json()
    assert answer.json()["facts"] == ran["facts"] == tried["facts"]
    places = [(fault["rule"], fault["field"], fault["line"]) for fault in ran["facts"]["all"]]
    assert places == [(1, "people", 4), (1, "speed", 5)]
    assert PolicyVersion.objects.count() == before


def test_a_dry_run_reads_nothing_of_another_tenant_and_changes_nothing(doors: Doors, waiting: Wait) -> None:
    tried = doors.api("POST", "/policies/try/", {"text": TEXT}, by="stranger").json()
    assert tried["rows"] == []
    assert Membership.objects.filter(user__username="stranger").exists()
    assert ToolCall.objects.get(id=waiting.tool_call_id).status == "AWAITING_APPROVAL"


def test_what_policy_said_is_on_the_record_of_a_call(doors: Doors, waiting: Wait) -> None:
    (said,) = doors.api("GET", f"/calls/{waiting.tool_call_id}/").json()["policy"]
    assert (said["outcome"], said["version"]) == ("REQUIRE_APPROVAL", "builtin-1")
    assert said["rule"].startswith("Rule 4: it leaves a mark outside")
