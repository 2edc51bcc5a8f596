"""The filters of the lists over HTTP and by command are those of their pages."""

import pytest

from receipts.models import ReportVersion
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


# A condition that never holds, or the calls of the other tests would need nobody.
GIVEN = {
    "condition": "tool == 'x'",
    "agent": "fund_comparison",
    "tool": "publish_report",
    "hours": 2,
    "max_uses": 3,
    "reason": "a routine",
}
POLICY = '[[rule]]\nname = "two"\ntools = ["publish_report"]\nthen = "ask"\npeople = 2\n'
MADE_CASES = [
    ("grants", "tool=publish_report", True),
    ("grants", "person=operator", True),
    ("grants", "agent=nobody", False),
    ("grants", "state=REVOKED", False),
    ("policies", "text=publish_report", True),
    ("policies", "q=narrow", True),
    ("policies", "person=operator", False),
    ("scopes", "kind=PAUSE", True),
    ("scopes", "kind=STOP", False),
    ("scopes", "scope=TENANT", True),
    ("reports", "status=PUBLISHED", True),
    ("reports", "channel=nowhere", False),
    ("reports", "agent=fund_comparison", True),
    ("reports", "until=1 h", False),
]


@pytest.fixture(scope="module")
def made(doors: Doors) -> dict[str, str]:
    """One thing of each kind, by the name of its list."""
    waiting = doors.waiting()
    version = ReportVersion.objects.filter(run=waiting.run).first()
    assert version is not None
    grant = doors.api("POST", "/grants/", GIVEN).json()["id"]
    saved = doors.api("POST", "/policies/", {"text": POLICY, "summary": "narrow"}, by="only-governance").json()
    paused = doors.api("POST", "/scopes/", {"act": "pause", "scope": "TENANT", "of": "", "reason": "filters"}).json()[
        "id"
    ]
    doors.api("POST", f"/scopes/{paused}/lift/", {"reason": "filters"})
    return {"grants": grant, "policies": str(saved["number"]), "scopes": paused, "reports": str(version.report_id)}


@pytest.mark.parametrize(("listed", "filters", "found"), MADE_CASES)
def test_what_is_made_is_narrowed_alike_at_both_doors(
    doors: Doors, made: dict[str, str], listed: str, filters: str, found: bool
) -> None:
    by = "only-governance" if listed == "policies" else "operator"
    name = "number" if listed == "policies" else "id"
    over_http = doors.api("GET", f"/{listed}/?limit=200&{filters.replace(' ', '%20')}", by=by).json()["results"]
    by_command = manage(listed, "list", "--limit", 200, "--where", filters, "--as", by, "--json").json
    assert over_http == by_command
    assert (made[listed] in [str(row[name]) for row in over_http]) == found


def test_revisions_are_narrowed_alike_at_both_doors(doors: Doors) -> None:
    run_id = doors.waiting().run_id
    for filters, found in (("trigger=INIT", True), ("purged=yes", False), ("since=1 h", True), ("until=1 h", False)):
        over_http = doors.api("GET", f"/runs/{run_id}/checkpoints/?limit=200&{filters.replace(' ', '%20')}").json()
        by_command = manage("checkpoints", "list", run_id, "--where", filters, *AS, "--json").json
        assert over_http["results"] == by_command and bool(by_command) == found, filters


def test_a_report_says_how_far_it_has_got(doors: Doors) -> None:
    run = doors.completed()
    version = ReportVersion.objects.filter(run=run).latest("version_no")
    (row,) = doors.api("GET", f"/reports/?run={run.id}").json()["results"]
    assert (row["id"], row["title"], row["agent"]) == (str(version.report_id), version.title, "fund_comparison")
    assert (row["versions"], row["published"]) == (version.version_no, version.version_no)


@pytest.mark.parametrize("listed", ["waits", "calls", "grants", "policies", "scopes", "reports"])
def test_a_filter_that_can_not_be_read_is_named_and_nothing_is_listed(doors: Doors, listed: str) -> None:
    refusal = problem(doors.api("GET", f"/{listed}/?since=soon"), 400, "INVALID")
    assert "since" in str(refusal["facts"])
    ran = manage(listed, "list", "--where", "since=soon", *AS)
    assert ran.code != 0 and "since: Give a day" in ran.err
    ran = manage(listed, "list", "--where", "colour=red", *AS)
    assert ran.code != 0 and "This list has no filter" in ran.err
