"""The pages of standing grants: give, look at, revoke, and where one was used."""

from uuid import uuid4

import pytest

from approvals.models import Grant
from tests.pages.conftest import Member

FORM = {"tool": "fund_comparison/publish_report", "condition": "", "hours": "8", "max_uses": "5", "reason": "a routine"}


def given(mo: Member, **fields: str) -> str:
    answer = mo.post("/grants/", **(FORM | fields))
    assert answer.status == 302, answer.html
    return answer.location


def test_a_grant_is_given_shown_and_revoked_with_reasons(mo: Member, viewer: Member) -> None:
    assert "No grant was given." in mo.get("/grants/")
    address = given(mo, condition="args['title'] == '<b>x</b>'")
    shown = viewer.get(address)
    assert "0 of 5 calls" in shown and "a routine" in shown and "STANDS" in shown
    assert "&lt;b&gt;x&lt;/b&gt;" in shown and "<b>x</b>" not in shown
    assert "Nothing was sent by it yet." in shown
    listed = f'href="{address}"'
    assert listed in mo.get("/grants/?state=STANDS&tool=publish_report&person=mo.okafor")
    assert listed not in mo.get("/grants/?state=REVOKED&state=LAPSED&state=USED_UP")
    assert mo.post(address, reason="no more").location == address
    assert listed in mo.get("/grants/?state=REVOKED") and listed not in mo.get("/grants/?state=STANDS")
    over = viewer.get(address)
    assert "revoked" in over and "no more" in over
    again = mo.post(address, reason="once more")
    assert again.status == 409 and "mo.okafor has revoked this grant" in again.html


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"hours": "0"}, "hours: from 1 to 720."),
        ({"hours": "many"}, "hours: from 1 to 720."),
        ({"max_uses": "1001"}, "uses: from 1 to 1000."),
        ({"condition": "toool == 'a'"}, "did you mean tool?"),
        ({"reason": " "}, "reason: it is empty"),
        ({"tool": "fund_comparison/nothing"}, "has no tool “nothing”"),
        ({"tool": ""}, "Known: asking_fund_comparison"),
    ],
)
def test_what_can_not_be_given_is_refused_and_what_was_typed_stays(
    mo: Member, fields: dict[str, str], said: str
) -> None:
    answer = mo.post("/grants/", **(FORM | {"reason": "because of the audit"} | fields))
    assert answer.status == 400
    assert said in answer.html
    assert fields.get("reason", "because of the audit") in answer.html
    assert not Grant.objects.exists()


def test_who_may_not_decide_gives_and_revokes_nothing(mo: Member, viewer: Member, stranger: Member) -> None:
    address = given(mo)
    assert "needs the role approver" in viewer.get("/grants/")
    assert viewer.post("/grants/", **FORM).status == 403
    assert viewer.post(address, reason="mine").status == 403
    assert stranger.client.get(address).status_code == 404
    assert stranger.client.get(f"/grants/{uuid4()}/").status_code == 404
    assert Grant.objects.get().revoked_at is None
