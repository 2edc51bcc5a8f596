"""A stop, an abort or a pause of a scope over the API and by command: the same acts, the same refusals, one progress."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from runs.models import Run, ScopeControl
from tests.doors.asking import form, problem
from tests.doors.world import OPERATOR, STRANGER, Doors, manage

AS = ("--as", OPERATOR, "--json")


@pytest.fixture(autouse=True)
def nothing_stands(doors: Doors) -> Any:
    """What a test leaves standing would stop the next one's starts."""
    yield
    for row in ScopeControl.objects.filter(status="STANDING"):
        assert manage("scopes", "lift", row.id, "--reason", "the test is over", *AS).code == 0


def act(doors: Doors, what: str, scope: str = "TENANT", of: str = "", by: str = OPERATOR) -> Any:
    body = {"act": what, "scope": scope, "of": of, "reason": "an incident"}
    return doors.api("POST", "/scopes/", body, by=by)


def test_a_tenant_is_stopped_shown_and_lifted_over_the_api(doors: Doors) -> None:
    run = doors.started()
    told = doors.api("GET", "/scopes/preview/?scope=TENANT").json()
    assert told["live_runs"] >= 1 and told["by_status"]["QUEUED"] >= 1 and told["name"] == "everything of this tenant"
    answer = act(doors, "stop")
    stopped = answer.json()
    assert (answer.status_code, stopped["kind"], stopped["status"]) == (201, "STOP", "STANDING")
    assert (stopped["progress"]["left"], stopped["progress"]["accepted"]) == (0, 0)
    assert stopped["progress"]["settled"] >= 1
    assert Run.objects.get(id=run).status == "CANCELLED"
    assert doors.api("GET", f"/runs/{run}/").json()["stop"]["scope_control"] == stopped["id"]
    assert act(doors, "stop").status_code == 200
    facts = problem(doors.start(form()), 409, "SCOPE_STOPPED")["facts"]
    assert (facts["control"], facts["by"], facts["reason"]) == (stopped["id"], OPERATOR, "an incident")
    assert doors.start(form(), by=STRANGER).status_code == 201
    listed = doors.api("GET", "/scopes/?status=STANDING").json()["results"]
    assert [row["id"] for row in listed] == [stopped["id"]]
    lifted = doors.api("POST", f"/scopes/{stopped['id']}/lift/", {"reason": "it is over"}).json()
    assert (lifted["status"], lifted["lift_reason"]) == ("LIFTED", "it is over")
    problem(doors.api("POST", f"/scopes/{stopped['id']}/lift/", {"reason": "again"}), 409, "ALREADY_LIFTED")
    problem(doors.api("POST", f"/scopes/{stopped['id']}/abort/", {"reason": "again"}), 409, "ALREADY_LIFTED")
    assert doors.start(form()).status_code == 201


def test_a_tenant_of_something_is_nothing_on_every_door(doors: Doors) -> None:
    """Who names an agent or a thread and the wrong kind would stop everything."""
    assert problem(act(doors, "stop", of="fund_comparison"), 400, "INVALID")["facts"]["field"] == "of"
    ran = manage("scopes", "stop", "tenant", "--of", "fund_comparison", "--reason", "an incident", *AS)
    assert (ran.code != 0, ran.json["error"]["code"]) == (True, "NOT_FOUND")
    browser = Client()
    browser.force_login(User.objects.get(username=OPERATOR))
    for sent in ({"of": "fund_comparison"}, {"scope": "TENANT", "of": "fund_comparison"}, {}):
        assert browser.post("/scopes/new/", {"act": "stop", "reason": "an incident", **sent}).status_code == 404
    assert not ScopeControl.objects.filter(status="STANDING").exists()


def test_an_agent_is_paused_by_command_and_goes_on(doors: Doors) -> None:
    run = str(doors.started())
    ran = manage("scopes", "pause", "agent", "--of", "fund_comparison", "--reason", "a look first", *AS)
    assert (ran.code, ran.json["kind"], ran.json["agent"]) == (0, "PAUSE", "fund_comparison")
    shown = manage("runs", "show", run, *AS).json
    assert (shown["status"], shown["hold_reason"]) == ("HELD", "PAUSED")
    refused = manage("runs", "resume", run, "--reason", "only this", *AS)
    assert refused.json["error"]["code"] == "SCOPE_PAUSED"
    new = doors.start(form()).json()
    assert (new["status"], new["pause"]["scope_control"]) == ("HELD", ran.json["id"])
    assert manage("scopes", "abort-on", ran.json["id"], "--reason", "now", *AS).json["error"]["code"] == "NOT_A_STOP"
    text = manage("scopes", "show", ran.json["id"], "--as", OPERATOR).out
    assert "the agent fund_comparison" in text and "a look first" in text
    assert manage("scopes", "lift", ran.json["id"], "--reason", "looked", *AS).json["status"] == "LIFTED"
    assert manage("runs", "show", run, *AS).json["status"] == "QUEUED"


def test_a_thread_is_named_by_its_id_and_a_foreign_one_is_missing(doors: Doors) -> None:
    run = doors.started()
    thread = doors.api("GET", f"/runs/{run}/").json()["thread_id"]
    problem(act(doors, "stop", "THREAD", thread, by=STRANGER), 404, "NOT_FOUND")
    problem(act(doors, "stop", "THREAD", "nothing"), 404, "NOT_FOUND")
    problem(act(doors, "stop", "AGENT", "nobody"), 404, "NOT_FOUND")
    assert act(doors, "abort", "THREAD", thread).json()["abort_reason"] == "an incident"
    assert Run.objects.get(id=run).status == "CANCELLED"


def test_what_lives_in_a_scope_is_counted_in_a_fixed_number_of_queries(
    doors: Doors, django_assert_max_num_queries: Any
) -> None:
    for _ in range(3):
        doors.started()
    with django_assert_max_num_queries(14):
        doors.api("GET", "/scopes/preview/?scope=AGENT&of=fund_comparison")
    id = act(doors, "pause").json()["id"]
    with django_assert_max_num_queries(10):
        doors.api("GET", f"/scopes/{id}/")
