"""The pages of several people: votes and their withdrawal, who looks, who stands in for whom, and many waits at once."""

import re
from typing import Any

import pytest

from accounts.models import User
from accounts.states import Role
from approvals.models import Decision, Delegation, Look, Vote, Wait
from tests.engine.engine import demand, sql
from tests.pages.conftest import Member, member
from tests.pages.driven import Driven, person, told, waiting, words
from tests.pages.test_decision import form, refused, url


def pair() -> Wait:
    """The told wait, asking for two people."""
    return demand(told("waiting").wait, quorum=2)


# ── votes ────────────────────────────────────────────────────────────────────


def test_a_vote_is_shown_with_what_is_missing_and_can_be_taken_back(ann: Member, ben: Member) -> None:
    """B22: whoever has approved sees that another person is needed."""
    wait = pair()
    assert "Nothing is sent yet." in ann.get(url(wait))
    assert ann.post(url(wait), **form(wait, "APPROVE", "Numbers match.")).status == 302
    html = words(ann.get(url(wait)))
    assert "Your approval is stored. Nothing is sent yet: one more person has to approve." in html
    assert "It is the last of 2" not in html
    assert "Quorum: 1 of 2" in html
    assert "“Numbers match.”" in html
    assert "You have approved. It waits for another person: 1 of 2." in html
    assert "ALREADY_VOTED" in refused(ann, wait, 409, **form(wait, "APPROVE"))
    assert "It is the last of 2" in words(ben.get(url(wait)))
    page = words(ann.get(f"/waits/{wait.id}/withdraw/"))
    assert "You may vote again." in page
    assert ann.post(f"/waits/{wait.id}/withdraw/", reason="One line is wrong.").status == 302
    html = words(ann.get(url(wait)))
    assert "Quorum: 0 of 2" in html
    assert "“One line is wrong.”" in html
    assert not Decision.objects.filter(wait=wait).exists()


def test_nothing_is_taken_back_once_it_is_decided(ann: Member, ben: Member) -> None:
    wait = pair()
    for who in (ann, ben):
        assert who.post(url(wait), **form(wait, "APPROVE")).status == 302
    assert "ALREADY_DECIDED" in ann.post(f"/waits/{wait.id}/withdraw/", reason="too late").html
    assert 'aria-disabled="true">Take it back' in ann.get(f"/waits/{wait.id}/withdraw/")


def test_the_page_of_a_call_names_everybody_who_approved_it(ann: Member, ben: Member) -> None:
    wait = pair()
    for who in (ann, ben):
        assert who.post(url(wait), **form(wait, "APPROVE")).status == 302
    shown = words(ann.get(f"/calls/{wait.tool_call_id}/"))
    assert re.search(r"revision \d+: ann\.moreau ?, ben\.[a-z]+ approved", shown), shown[shown.index("wait …") :][:200]


def test_a_page_that_was_shown_whole_is_a_look_and_a_panel_or_a_head_is_none(ann: Member) -> None:
    wait = told("waiting").wait
    ann.get(url(wait), panel="wait-facts")
    ann.client.head(url(wait))
    assert not Look.objects.exists()
    ann.get(url(wait))
    ann.get(url(wait))
    assert list(Look.objects.values_list("actor", "door")) == [("person:ann.moreau", "page")]


def test_an_approval_waits_for_the_time_to_look_and_the_form_says_how_long(ann: Member) -> None:
    wait = demand(told("waiting").wait, dwell_seconds=600)
    html = ann.get(url(wait))
    assert re.search(r'data-gate-in="(600|59\d)"', html)
    assert "DWELL" in refused(ann, wait, 409, **form(wait, "APPROVE"))
    assert ann.post(url(wait), **form(wait, "REJECT")).status == 302


def test_the_password_is_asked_for_once_in_five_minutes(ann: Member) -> None:
    run, other = told("waiting"), waiting(person("ann.moreau"))
    wait, second = (demand(one.wait, step_up=True) for one in (run, other))
    user = User.objects.get(username="ann.moreau")
    user.set_password("long and secret")
    user.save()
    ann.client.force_login(user)
    assert 'name="password"' in ann.get(url(wait))
    assert "STEP_UP" in refused(ann, wait, 403, **form(wait, "APPROVE"))
    assert "WRONG_PASSWORD" in refused(ann, wait, 403, **form(wait, "APPROVE", password="guessed"))
    assert ann.post(url(wait), **form(wait, "APPROVE", password="long and secret")).status == 302
    assert 'name="password"' not in ann.get(url(second))
    assert ann.post(url(second), **form(second, "APPROVE")).status == 302


@pytest.mark.parametrize(("ends_at", "stored"), [("approvals_decision", True), ("accounts_passwordtry", False)])
def test_what_is_said_of_a_decision_is_so_though_the_session_ends_in_the_middle_of_it(
    ann: Member, ends_at: str, stored: bool
) -> None:
    """Signed out in another tab while the decision is stored, or while its password is looked at. A session that is gone can't be
    saved at the end of a request, which then answered that nothing was stored.
    """
    wait = demand(told("waiting").wait, step_up=True)
    user = User.objects.get(username="ann.moreau")
    user.set_password("long and secret")
    user.save()
    ann.client.force_login(user)
    sql(
        "CREATE FUNCTION sign_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM django_session; RETURN NULL; END';"
        f"CREATE TRIGGER sign_out AFTER INSERT OR UPDATE ON {ends_at} EXECUTE FUNCTION sign_out()"
    )
    answer = ann.post(url(wait), **form(wait, "APPROVE", "Numbers match.", password="long and secret"))
    assert (answer.status == 302, Decision.objects.filter(wait=wait).exists()) == (stored, stored)
    assert stored or ("SESSION_OVER" in answer.html and "Numbers match.</textarea>" in answer.html)


# ── who looks ────────────────────────────────────────────────────────────────


def test_who_looks_is_shown_to_the_others_and_binds_nobody(ann: Member, ben: Member) -> None:
    wait = told("waiting").wait
    assert "Nobody has said so." in ann.get(url(wait))
    assert ann.post(f"/waits/{wait.id}/look/", act="claim").status == 302
    assert "ann.moreau since" in words(ben.get(url(wait)))
    assert "ann.moreau looks at it" in words(ben.get("/inbox/"))
    assert "ALREADY_TAKEN" in ben.post(f"/waits/{wait.id}/look/", act="claim").html
    assert ben.post(f"/waits/{wait.id}/assign/", person="ben.diaz", reason="I know it").status == 302
    assert "“I know it”" in words(ann.get(url(wait)))
    assert ann.post(url(wait), **form(wait, "APPROVE")).status == 302


# ── who stands in ────────────────────────────────────────────────────────────


def test_a_delegation_is_given_used_and_ended_on_its_page(ann: Member) -> None:
    viewer = member("funds", "v.reader", frozenset({Role.VIEWER}))
    wait = told("waiting").wait
    assert "which you do not have in this tenant" in viewer.get(url(wait))
    sent = {"taker": "v.reader", "starts_at": "", "ends_at": "2027-01-15T18:00", "reason": "On leave."}
    answer = ann.post("/delegations/", **sent)
    assert answer.status == 302, answer.html
    assert "in force" in words(ann.get("/delegations/"))
    assert "You may, for ann.moreau." in words(viewer.get(url(wait)))
    given = Delegation.objects.get()
    assert ann.post(f"/delegations/{given.id}/end/").status == 302
    assert "DELEGATION_OVER" in ann.post(f"/delegations/{given.id}/end/").html
    assert "NOT_ALLOWED" in refused(viewer, wait, 403, **form(wait, "APPROVE"))
    again = ann.post("/delegations/", **(sent | {"ends_at": "yesterday"}))
    assert (again.status, "On leave." in again.html) == (400, True)


# ── many at once ─────────────────────────────────────────────────────────────


def several(how_many: int) -> list[Driven]:
    return [waiting(person("ann.moreau")) for _ in range(how_many)]


def batch_form(waits: list[Wait], verdict: str, reason: str = "All of one kind.") -> dict[str, Any]:
    """What the page of a batch sends."""
    seen = {f"seen-{w.id}": f"{w.checkpoint_revision}:{w.checkpoint_digest}:{w.args_digest}" for w in waits}
    return {"verdict": verdict, "reason": reason, "wait": [str(wait.id) for wait in waits], **seen}


def test_what_was_picked_is_shown_whole_the_gravest_first(ann: Member) -> None:
    first, second, third = (run.wait for run in several(3))
    demand(second, risk="HIGH")
    demand(third, risk="LOW", batchable=True)
    query = "&".join(f"wait={wait.id}" for wait in (third, first, second))
    html = ann.get(f"/inbox/batch/?{query}")
    places = [html.index(f'id="wait-{wait.id}"') for wait in (second, first, third)]
    assert places == sorted(places)
    assert "1 of high risk is among them." in words(html)
    assert "Left out, and still open" in words(html) and "Approve these 1" in words(html)
    apart = html[html.index("Left out, and still open") : html.index("Your reason")]
    assert re.findall(r'href="#wait-([^"]+)"[^>]*>(\d)<', apart) == [(str(second.id), "1"), (str(first.id), "2")]
    assert Look.objects.count() == 3


def test_many_are_rejected_with_one_reason_and_each_says_what_came_of_it(ann: Member, ben: Member) -> None:
    first, second = (run.wait for run in several(2))
    assert ben.post(url(second), **form(second, "APPROVE")).status == 302
    answer = ann.post("/inbox/batch/", **batch_form([first, second], "REJECT"))
    assert answer.status == 200
    html = words(answer.html)
    assert "1 stored, 1 refused." in html
    assert re.search(f'1 refused:\\s*<a href="#wait-{second.id}"', answer.html)
    assert "Rejected by ann.moreau" in html
    assert "Already decided: ben.diaz approved this call" in html
    assert Decision.objects.get(wait=first).reason == "All of one kind."


def test_only_what_the_policy_lets_be_approved_together_is(ann: Member) -> None:
    first, second = (run.wait for run in several(2))
    demand(first, batchable=True)
    answer = ann.post("/inbox/batch/", **batch_form([first, second], "APPROVE"))
    assert "NOT_TOGETHER" in answer.html
    assert [Wait.objects.get(id=wait.id).status for wait in (first, second)] == ["APPROVED", "OPEN"]
    assert Vote.objects.filter(wait__in=[first, second]).count() == 1


def test_a_batch_decides_nothing_that_moved_and_nothing_by_get(ann: Member) -> None:
    wait = several(1)[0].wait
    sent = batch_form([wait], "REJECT")
    ann.client.get("/inbox/batch/", sent)
    stale = sent | {f"seen-{wait.id}": f"1:{wait.checkpoint_digest}:{wait.args_digest}"}
    assert "STALE_REVISION" in ann.post("/inbox/batch/", **stale).html
    assert Wait.objects.get(id=wait.id).status == "OPEN"
    assert "Nothing is picked." in ann.get("/inbox/batch/")


def test_the_one_grave_call_among_trivial_ones_is_on_top_of_the_inbox(ann: Member) -> None:
    """S17: worded like the rest, and due later than all of them."""
    runs = several(4)
    grave = demand(runs[2].wait, risk="HIGH")
    html = ann.get("/inbox/?kind=approvals")
    rows = re.findall(r'id="row-wait-([0-9a-f-]{36})"', html)
    assert rows[0] == str(grave.id)
    assert "High risk" in html
