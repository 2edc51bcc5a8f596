"""Whose waits a list shows: one's own, those at which nobody looks, or all. The choice is in the URL, and stays there."""

import pytest
from django.test import Client

from accounts.models import User
from approvals.models import Wait
from tests.doors.world import OPERATOR, Doors, manage


@pytest.fixture(scope="module")
def mine(doors: Doors) -> Wait:
    wait = doors.waiting()
    assert doors.api("POST", f"/waits/{wait.id}/claim/").status_code == 200
    return wait


@pytest.fixture(scope="module")
def nobodys(doors: Doors) -> Wait:
    return doors.waiting()


def browser(username: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=username))
    return client


def test_every_door_lists_ones_own_and_nobodys(doors: Doors, mine: Wait, nobodys: Wait) -> None:
    for whose, wanted, other in (("mine", mine, nobodys), ("unclaimed", nobodys, mine)):
        by_api = doors.api("GET", f"/waits/?whose={whose}&status=OPEN").content.decode()
        by_command = manage("waits", "list", "--status", "open", "--whose", whose, "--as", OPERATOR).out
        by_page = browser(OPERATOR).get(f"/inbox/?whose={whose}").content.decode()
        for shown in (by_api, by_command, by_page):
            assert (str(wanted.id) in shown, str(other.id) in shown) == (True, False)
    assert doors.api("GET", "/waits/?whose=nobody").status_code == 400
    assert str(mine.id) not in browser("only-approver").get("/inbox/?whose=mine").content.decode()


def test_what_cannot_be_taken_is_nobodys(doors: Doors, mine: Wait) -> None:
    call = doors.unknown()
    assert str(call.id) in browser(OPERATOR).get("/inbox/?whose=unclaimed").content.decode()
    assert str(call.id) not in browser(OPERATOR).get("/inbox/?whose=mine").content.decode()


def test_the_counts_of_the_tabs_are_those_of_the_choice(doors: Doors, mine: Wait, nobodys: Wait) -> None:
    page = browser(OPERATOR).get("/inbox/?whose=mine")
    counts = page.context["counts"]
    assert (counts.unknown, counts.held, counts.flags) == (0, 0, 0)
    assert counts.approvals == Wait.objects.filter(
        status="OPEN", assignments__ended_at=None, assignments__person=f"person:{OPERATOR}"
    ).count()  # fmt: skip


def test_the_choice_stays_in_every_link_of_the_inbox(doors: Doors, mine: Wait) -> None:
    shown = browser(OPERATOR).get("/inbox/?kind=approvals&whose=mine").content.decode()
    assert 'href="/inbox/?kind=held&amp;whose=mine"' in shown
    assert 'href="/inbox/?kind=approvals&amp;whose=unclaimed"' in shown
    assert f"/inbox/?kind=approvals&amp;whose=mine&amp;item=wait-{mine.id}" in shown
    assert f'href="/waits/{mine.id}/?inbox=kind%3Dapprovals%26whose%3Dmine"' in shown


def test_the_page_of_an_item_leads_back_to_the_inbox_as_it_was(doors: Doors, mine: Wait) -> None:
    carried = "?inbox=kind%3Dapprovals%26whose%3Dmine"
    shown = browser(OPERATOR).get(f"/waits/{mine.id}/{carried}").content.decode()
    assert '<a href="/inbox/?kind=approvals&amp;whose=mine">Inbox</a>' in shown
    assert f"/waits/{mine.id}/look/{carried}" in shown


def test_an_act_on_an_item_leads_back_with_the_choice(doors: Doors, nobodys: Wait) -> None:
    carried = "?inbox=whose%3Dunclaimed"
    taken = browser(OPERATOR).post(f"/waits/{nobodys.id}/look/{carried}", {"act": "claim"})
    assert taken["Location"] == f"/waits/{nobodys.id}/{carried}"
    seen = {"revision": nobodys.checkpoint_revision, "digest": nobodys.checkpoint_digest}
    said = {**seen, "args_digest": nobodys.args_digest, "verdict": "REJECT", "reason": "not now"}
    decided = browser(OPERATOR).post(f"/waits/{nobodys.id}/{carried}", said)
    assert (decided.status_code, decided["Location"]) == (302, f"/waits/{nobodys.id}/{carried}")


@pytest.mark.parametrize(
    "said", ["https://evil.example/", "//evil.example", "whose=%22%3E%3Cscript%3E", "kind=x", "%ff"]
)
def test_what_a_link_carries_leads_nowhere_but_to_the_inbox(doors: Doors, mine: Wait, said: str) -> None:
    shown = browser(OPERATOR).get(f"/waits/{mine.id}/", {"inbox": said}).content.decode()
    assert '<a href="/inbox/">Inbox</a>' in shown
