"""A team of five in two tenants, in browsers and by command line, on real processes: several people decide one call; a wait
is escalated and its time ends while its page is open; policy and tool are changed while a wait is open.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from accounts.services import member_set, tenant_create
from accounts.states import Role
from approvals.models import Decision, Vote, Wait
from approvals.selectors import policy_number
from approvals.services import policy_activate
from tests.engine.engine import sql, sql_past_triggers
from tests.journey.test_other_ends import send_approval
from tests.journey.visitor import PASSWORD, Visitor
from tests.scenarios.records import Records
from tests.scenarios.world import APPROVER, World

pytestmark = [pytest.mark.browser, pytest.mark.process]

# Who starts the runs is world.APPROVER. Dora has every role, elsewhere.
TEAM = {"ann": (Role.APPROVER, "funds"), "ben": (Role.APPROVER, "board"), "gail": (Role.GOVERNANCE, "")}
DORA = "dora"
TWO_PEOPLE = """
[[rule]]
name = "Two people publish"
tools = ["publish_report"]
then = "ask"
people = 2
starter_may_decide = false
"""
FUNDS_FIRST = """
[[rule]]
name = "Those of the funds, then the board"
tools = ["publish_report"]
then = "ask"
group = "funds"
deadline = "4h"
escalate = "2h"
escalate_to = "group:board"
"""


@pytest.fixture(scope="module")
def team(running: World) -> None:
    for name, (role, group) in TEAM.items():
        groups = frozenset({group} if group else ())
        member_set(tenant=running.tenant, username=name, password=PASSWORD, roles=frozenset({role}), groups=groups)
    elsewhere = tenant_create(slug="elsewhere", name="Elsewhere")
    member_set(tenant=elsewhere, username=DORA, password=PASSWORD, roles=frozenset(Role))


@pytest.fixture
def govern(world: World, team: None, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Call it with rules: gail saves them and puts them in force, by command line. Afterwards the built-in policy holds again."""

    def put_in_force(text: str) -> None:
        path = tmp_path / "policy.toml"
        path.write_text(text)
        saved = manage(world, "policies", "save", "--file", str(path), "--summary", "for a team", "--as", "gail")
        seen = policy_number(world.tenant.id)
        said = ("--seen", str(seen), "--reason", "The team grew.", "--as", "gail")
        manage(world, "policies", "activate", str(saved["number"]), *said)

    yield put_in_force
    seen = policy_number(world.tenant.id)
    if seen:
        policy_activate(actor=world.person("gail"), number=0, seen=seen, reason="the test is over")


@pytest.fixture
def come(visit: Callable[..., Visitor], team: None) -> Callable[[str], Visitor]:
    """Somebody of the team, signed in, in a browser of their own."""

    def signed_in(name: str) -> Visitor:
        person = visit(name)
        person.sign_in()
        return person

    return signed_in


def manage(world: World, *arguments: str, code: int = 0) -> Any:
    return json.loads(world.stack.manage(*arguments, "--json", code=code))


def decide(world: World, wait: Wait, by: str, *, code: int = 0) -> Any:
    """Approve by command line what `waits show` shows."""
    bound = {
        "--revision": wait.checkpoint_revision,
        "--digest": wait.checkpoint_digest,
        "--args-digest": wait.args_digest,
    }
    shown = [str(part) for pair in bound.items() for part in pair]
    return manage(
        world, "waits", "decide", str(wait.id), "--approve", *shown, "--reason", f"{by} read it", "--as", by, code=code
    )


def without_scripts(person: Visitor, visit: Callable[..., Visitor], path: str) -> Page:
    """A tab of the same person that hears of nothing."""
    still = visit(person.name, java_script_enabled=False, storage_state=person.context.storage_state())
    still.page.goto(still.url + path)
    return still.page


def test_two_of_a_team_approve_one_withdraws_one_is_stood_in_for_and_nobody_else_counts(
    world: World, come: Callable[[str], Visitor], govern: Callable[[str], None]
) -> None:
    govern(TWO_PEOPLE)
    run_id, wait = world.run_to_wait()
    path = f"waits/{wait.id}/"
    ann, ben = come("ann"), come("ben")
    for person in (ann, ben):
        person.open(path)
        expect(person.page.locator("#wait-facts")).to_contain_text("Quorum: 0 of 2")

    assert decide(world, wait, APPROVER, code=1)["error"]["code"] == "SELF_APPROVAL"
    assert decide(world, wait, DORA, code=1)["error"]["code"] == "NOT_FOUND"
    assert decide(world, wait, "gail", code=1)["error"]["code"] == "NOT_ALLOWED"

    send_approval(ann.page, "Numbers match.")
    expect(ann.page.locator("#wait-facts")).to_contain_text("It waits for another person: 1 of 2.")
    expect(ben.page.locator("#wait-facts")).to_contain_text("Quorum: 1 of 2")
    ann.open(f"{path}withdraw/")
    ann.page.get_by_label("Your reason").fill("One line is wrong.")
    ann.page.get_by_role("button", name="Take it back").click()
    expect(ben.page.locator("#wait-facts")).to_contain_text("Quorum: 0 of 2")
    send_approval(ann.page, "It was right.")
    expect(ben.page.locator("#wait-facts")).to_contain_text("Quorum: 1 of 2")

    soon = sql("SELECT to_char(now() + interval '1 day', 'YYYY-MM-DD')")[0][0]
    manage(world, "delegations", "give", "--to", "gail", "--until", soon, "--reason", "On leave.", "--as", "ben")
    decide(world, wait, "gail")
    for person in (ann, ben):
        expect(person.page.locator("#wait-live")).to_contain_text("gail approved this call")
    expect(ben.page.locator("#off-a")).to_have_text("Off: this wait is closed. What came of it")
    world.wait_status(run_id, "COMPLETED")
    assert decide(world, wait, "ben", code=1)["error"]["code"] == "ALREADY_DECIDED"
    votes = Vote.objects.filter(wait=wait).order_by("at").values_list("actor", "voice", "withdrawal_reason")
    assert [tuple(part.removeprefix("person:") for part in vote) for vote in votes] == [
        ("ann", "ann", "One line is wrong."),
        ("ann", "ann", ""),
        ("gail", "ben", ""),
    ]
    assert world.executions(Records(run_id).call("publish_report")) == 1


def test_a_wait_is_escalated_and_its_time_ends_while_the_page_is_open(
    world: World, come: Callable[[str], Visitor], visit: Callable[..., Visitor], govern: Callable[[str], None]
) -> None:
    """B27: the page says so before the click, and what is sent all the same is refused."""
    govern(FUNDS_FIRST)
    _, wait = world.run_to_wait()
    path = f"waits/{wait.id}/"
    ben = come("ben")
    page = ben.open(path)
    expect(page.locator("#wait-facts")).to_contain_text("in the group funds, and you are none.")
    sql_past_triggers("UPDATE approvals_wait SET escalate_at = clock_timestamp() WHERE id = %s", wait.id)
    expect(page.locator("#wait-facts")).to_contain_text("You may.")

    ben.open(path)
    page.get_by_label("Your reason").fill("Typed before it was over.")
    expect(page.locator("#off-a")).to_be_hidden()
    still = without_scripts(ben, visit, path)
    sql("UPDATE approvals_wait SET deadline = clock_timestamp() WHERE id = %s", wait.id)
    expect(page.locator("#wait-live")).to_contain_text("Nobody decided in time.")
    approve = page.get_by_role("button", name="Approve this call")
    expect(approve).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#off-a")).to_have_text("Off: this wait is closed. What came of it")
    expect(page.get_by_label("Your reason")).to_have_value("Typed before it was over.")
    send_approval(still, "Typed before it was over.")
    expect(still.get_by_role("alert")).to_contain_text("Nothing was decided. The time to decide ended at")
    expect(still.get_by_label("Your reason")).to_have_value("Typed before it was over.")
    assert not Decision.objects.filter(wait=wait).exists()


def test_policy_and_tool_are_changed_while_a_wait_is_open(
    world: World, come: Callable[[str], Visitor], visit: Callable[..., Visitor], govern: Callable[[str], None]
) -> None:
    run_id, wait = world.run_to_wait()
    ann = come("ann")
    page = ann.open(f"waits/{wait.id}/")
    still = without_scripts(ann, visit, f"waits/{wait.id}/")
    govern(TWO_PEOPLE)
    expect(page.locator("#wait-live")).to_contain_text("Out of date. Nothing was decided.")
    refused(still, "Out of date. Nothing was decided.")
    still.get_by_role("link", name="Open the current wait").click()
    expect(still.locator("#wait-facts")).to_contain_text("Quorum: 0 of 2")

    again = world.open_wait(run_id)
    page = ann.open(f"waits/{again.id}/")
    with redeployed(world):
        expect(page.locator("#wait-live")).to_contain_text("the tool publish_report was changed after this was asked")
        expect(page.get_by_role("button", name="Approve this call")).to_have_attribute("aria-disabled", "true")
        refused(still, "Out of date. Nothing was decided.")
        assert world.wait_status(run_id, "HELD").hold_reason == "RESUME_REFUSED"
    records = Records(run_id)
    assert [one.status for one in records.waits] == ["SUPERSEDED", "SUPERSEDED"]
    assert (records.decisions, world.executions(records.call("publish_report"))) == ([], 0)


def refused(page: Page, words: str) -> None:
    send_approval(page, "Typed before it changed.")
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(page.get_by_label("Your reason")).to_have_value("Typed before it changed.")


@contextmanager
def redeployed(world: World) -> Iterator[None]:
    """Workers and clock replaced by those of a deploy that changed the tool; the ones before come back at the end."""
    before = world.stack.environment["DJANGO_SETTINGS_MODULE"]
    replace_processes(world, "tests.journey.redefined")
    try:
        yield
    finally:
        replace_processes(world, before)


def replace_processes(world: World, settings: str) -> None:
    while world.workers:
        world.kill_worker(0)
    world.stop_beat()
    world.stack.environment["DJANGO_SETTINGS_MODULE"] = settings
    world.start_processes()
