"""Two people decide at the same instant; a page that is out of date; a decision by keyboard alone; an ended session."""

import re
from collections.abc import Callable, Sequence

import pytest
from playwright.sync_api import expect

from accounts.models import AuditEvent
from accounts.selectors import audit_of
from approvals.models import Decision, Wait
from tests.journey.inspection import inspect
from tests.journey.test_other_ends import send_approval, still_page
from tests.journey.visitor import PASSWORD, Visitor, expect_live, status
from tests.scenarios.records import Records
from tests.scenarios.world import APPROVER, World

pytestmark = [pytest.mark.browser, pytest.mark.process]

IN_A_MOMENT = 300  # ms; until then both browsers have been told
# At one instant by the clock that both browsers share.
SUBMIT_AT = "([id, at]) => { setTimeout(() => document.getElementById(id).requestSubmit(), at - Date.now()); }"
SAID = {"APPROVE": "approved", "REJECT": "rejected"}


def test_two_people_decide_at_the_same_instant(world: World, operator: Visitor, second: Visitor) -> None:
    race_often(world, [(operator, "APPROVE"), (second, "REJECT")], 10)


@pytest.mark.matrix
def test_two_people_decide_at_the_same_instant_often(world: World, operator: Visitor, second: Visitor) -> None:
    race_often(world, [(operator, "APPROVE"), (second, "REJECT")], 100)


def race_often(world: World, deciders: Sequence[tuple[Visitor, str]], times: int) -> None:
    for person, _ in deciders:  # no hint may close the slower form before it is sent
        person.page.route_web_socket("**/ws/live/", lambda _: None)
    for run_id in [world.start_run() for _ in range(times)]:
        race(world, world.open_wait(run_id), deciders)


def race(world: World, wait: Wait, deciders: Sequence[tuple[Visitor, str]]) -> None:
    """Both send their form at one instant. One decision is stored, and both are told whose it is."""
    for person, verdict in deciders:
        person.page.goto(f"{person.url}waits/{wait.id}/")
        person.page.locator(f"#{verdict.lower()}-form textarea").fill(f"{person.name} says {verdict}.")
    at = deciders[0][0].page.evaluate("Date.now()") + IN_A_MOMENT
    for person, verdict in deciders:
        person.page.evaluate(SUBMIT_AT, [f"{verdict.lower()}-form", at])
    said = {person.name: notice(person) for person, _ in deciders}
    decision = Decision.objects.get(wait=wait)
    winner = decision.actor.removeprefix("person:")
    assert decision.reason == f"{winner} says {decision.verdict}."
    for name, text in said.items():
        assert f"{winner} {SAID[decision.verdict]} this call" in text
        assert f"{decision.at:%H:%M:%S}" in text
        assert ("Your decision was not stored." in text) == (name != winner)
    assert [event.detail["code"] for event in refused_decisions(world, wait)] == ["ALREADY_DECIDED"]


def notice(person: Visitor) -> str:
    """What the page says in place of its lead sentence, once the form was answered."""
    shown = person.page.locator("#wait-live .notice")
    expect(shown).to_be_visible()
    return shown.inner_text()


def refused_decisions(world: World, wait: Wait) -> list[AuditEvent]:
    events = audit_of(tenant_id=world.tenant.id, object_type="wait", object_id=str(wait.id))
    return [event for event in events if event.action == "wait.decide.refused"]


def test_a_page_that_is_out_of_date_leads_to_the_current_wait(
    world: World, operator: Visitor, visit: Callable[..., Visitor]
) -> None:
    run_id, wait = world.run_to_wait()
    live = operator.tab(f"waits/{wait.id}/")
    stale = still_page(operator, visit, f"waits/{wait.id}/")
    revise_the_goal(operator, f"runs/{run_id}/goal/")

    expect(live.locator("#wait-live")).to_contain_text("Out of date. Nothing was decided.")
    expect(live.get_by_role("link", name="Open the current wait")).to_be_visible()
    inspect(live)
    send_approval(stale, "Typed before the goal was revised.")
    expect(stale.get_by_role("alert")).to_contain_text("Out of date. Nothing was decided.")
    expect(stale.locator("main")).to_contain_text("Publish only what both files say.")
    expect(stale.get_by_label("Your reason")).to_have_value("Typed before the goal was revised.")
    stale.get_by_role("link", name="Open the current wait").click()
    send_approval(stale, "Read again.")

    world.wait_status(run_id, "COMPLETED")
    records = Records(run_id)
    assert [one.status for one in records.waits] == ["SUPERSEDED", "CONSUMED"]
    assert world.executions(records.call("publish_report")) == 1


def revise_the_goal(operator: Visitor, path: str) -> None:
    page = operator.open(path)
    inspect(page)
    page.get_by_label("The goal from now on").fill("Compare the two funds. Publish only what both files say.")
    page.get_by_label("Your reason").fill("The sheet is not trusted.")
    page.get_by_role("button", name="Revise the goal").click()
    expect(page.locator("main")).to_contain_text("The goal is revised.")


def test_a_decision_by_keyboard_alone(world: World, visit: Callable[..., Visitor]) -> None:
    runs = dict(world.run_to_wait() for _ in range(2))
    person = visit(APPROVER)
    page, keys = person.page, person.page.keyboard
    page.goto(person.url)
    inspect(page)
    keys.type(APPROVER)
    keys.press("Tab")
    keys.type(PASSWORD)
    keys.press("Enter")
    expect(page.locator("h1")).to_have_text("Overview")
    expect_live(page)

    for key in ("g", "i"):
        keys.press(key)
    page.wait_for_url("**/inbox/")
    expect_live(page)
    for key in ("j", "j", "k", "Enter"):
        keys.press(key)
    page.wait_for_url(re.compile("/waits/"))
    expect_live(page)
    keys.press("a")
    keys.type("Read by keyboard.")
    keys.press("Control+Enter")
    expect(page.locator("#wait-live .notice")).to_contain_text("Read by keyboard.")
    decided = [wait for wait in runs.values() if str(wait.id) in page.url]
    assert [Decision.objects.get(wait=wait).reason for wait in decided] == ["Read by keyboard."]


def test_a_session_that_ended_in_another_tab_is_said(world: World, operator: Visitor) -> None:
    _, wait = world.run_to_wait()
    page = operator.open(f"waits/{wait.id}/")
    page.get_by_label("Your reason").fill("Typed before I signed out.")
    other = operator.tab("")
    other.locator(".menu--person summary").click()
    other.locator(".menu--person").get_by_role("button", name="Sign out").click()

    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "ended")
    expect(page.get_by_role("alert")).to_contain_text("Your session has ended. Nothing you do here is sent.")
    inspect(page)
    send = page.get_by_role("button", name="Approve this call")
    expect(send).to_have_attribute("aria-disabled", "true")
    send.click(force=True)
    expect(page.get_by_label("Your reason")).to_have_value("Typed before I signed out.")
    expect(status(page)).to_have_text("OPEN")
    assert not Decision.objects.filter(wait=wait).exists()
