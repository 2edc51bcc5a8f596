"""Standing grants through the API and the command line: the same answers."""

from approvals.models import Grant
from tests.doors.typed import refused
from tests.doors.world import OPERATOR, Doors, manage

AS = ("--as", OPERATOR, "--json")
BODY = {"agent": "fund_comparison", "tool": "publish_report", "hours": 2, "max_uses": 3, "reason": "a routine"}


def test_both_doors_give_show_and_revoke_the_same_grant(doors: Doors) -> None:
    made = doors.api("POST", "/grants/", BODY)
    assert made.status_code == 201
    grant = made.json()
    assert (grant["owner"], grant["uses"], grant["used_by"]) == (f"person:{OPERATOR}", 0, [])
    assert (
        manage("grants", "show", grant["id"], *AS).json == doors.api("GET", f"/grants/{grant['id']}/").json() == grant
    )
    given = ("fund_comparison", "publish_report", "--hours", 1, "--uses", 1, "--reason", "once", "--if", "tool == 'x'")
    other = manage("grants", "give", *given, *AS).json
    assert other["condition"] == "tool == 'x'"
    listed = [one["id"] for one in doors.api("GET", "/grants/").json()["results"]]
    assert listed[:2] == [other["id"], grant["id"]] == [one["id"] for one in manage("grants", "list", *AS).json][:2]
    over = doors.api("POST", f"/grants/{grant['id']}/revoke/", {"reason": "no more"}).json()
    assert (over["revoked_by"], over["revocation_reason"]) == (f"person:{OPERATOR}", "no more")
    refused(manage("grants", "revoke", grant["id"], "--reason", "again", *AS), "GRANT_OVER")
    assert Grant.objects.get(id=other["id"]).revoked_at is None


def test_both_doors_refuse_alike(doors: Doors) -> None:
    answer = doors.api("POST", "/grants/", BODY | {"tool": "nothing"})
    told = refused(
        manage("grants", "give", "fund_comparison", "nothing", "--hours", 2, "--uses", 3, "--reason", "r", *AS),
        "NO_SUCH_TOOL",
    )
    assert (answer.status_code, answer.json()["facts"]) == (400, told["facts"])


def test_numbers_are_numbers_and_what_does_not_fit_is_named_as_the_body_names_it(doors: Doors) -> None:
    for field, value in (("hours", "2"), ("max_uses", "3"), ("max_uses", 0), ("hours", 1000), ("reason", "\u200b")):
        answer = doors.api("POST", "/grants/", BODY | {field: value})
        assert (answer.status_code, answer.json()["facts"]["field"]) == (400, field), value
