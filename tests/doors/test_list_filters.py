"""The filters of the lists over HTTP and by command are those of their pages."""

import pytest

from tests.doors.asking import problem
from tests.doors.typed import AS
from tests.doors.world import Doors, manage

CASES = [
    ("waits", "tool=publish_report", True),
    ("waits", "tool=nothing_like_it", False),
    ("waits", "status=OPEN", True),
    ("waits", "person=nobody", False),
    ("waits", "since=1 h", True),
    ("waits", "until=1 h", False),
    ("waits", "due=2000-01-01", False),
    ("calls", "tool=publish_report", True),
    ("calls", "effect_class=NON_IDEMPOTENT", True),
    ("calls", "effect_class=IDEMPOTENT", False),
    ("calls", "external_ref=nothing", False),
    ("calls", "unknown=yes", False),
    ("calls", "since=1 h", True),
]


@pytest.mark.parametrize(("listed", "filters", "found"), CASES)
def test_waits_and_calls_are_narrowed_alike_at_both_doors(doors: Doors, listed: str, filters: str, found: bool) -> None:
    wait = doors.waiting()
    wanted = str(wait.id if listed == "waits" else wait.tool_call_id)
    over_http = doors.api("GET", f"/{listed}/?limit=200&{filters.replace(' ', '%20')}").json()["results"]
    by_command = manage(listed, "list", "--limit", 200, "--where", filters, *AS, "--json").json
    assert [row["id"] for row in over_http] == [row["id"] for row in by_command]
    assert (wanted in [row["id"] for row in over_http]) == found


@pytest.mark.parametrize("listed", ["waits", "calls"])
def test_a_filter_that_can_not_be_read_is_named_and_nothing_is_listed(doors: Doors, listed: str) -> None:
    refusal = problem(doors.api("GET", f"/{listed}/?since=soon"), 400, "INVALID")
    assert "since" in str(refusal["facts"])
    ran = manage(listed, "list", "--where", "since=soon", *AS)
    assert ran.code != 0 and "since: Give a day" in ran.err
    ran = manage(listed, "list", "--where", "colour=red", *AS)
    assert ran.code != 0 and "This list has no filter" in ran.err
