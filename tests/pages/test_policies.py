"""The pages of policies: write, try, compare and put in force in a browser's forms."""

import pytest
from django.utils.html import escape

from accounts.states import Role
from approvals.models import PolicyActivation, PolicyVersion
from tests.pages.conftest import Member, member

TWO = '# two people\n[[rule]]\nname = "Two <b>look</b>"\neffects = ["NON_IDEMPOTENT"]\nthen = "ask"\npeople = 2\n'
NONE = '[[rule]]\nname = "Nothing goes"\nthen = "deny"\n'


@pytest.fixture
def gail(mo: Member) -> Member:
    """Somebody of mo's tenant who governs, and nothing else."""
    return member("funds", "g.overn", frozenset({Role.GOVERNANCE}))


def saved(gail: Member, text: str, summary: str = "for a test") -> str:
    """The address of a version that was saved in the editor."""
    answer = gail.post("/policies/new/", text=text, summary=summary, do="save")
    assert answer.status == 302, answer.html
    return answer.location


def test_a_tenant_without_a_policy_is_told_what_holds(gail: Member, viewer: Member) -> None:
    empty = gail.get("/policies/")
    assert "The built-in policy is in force." in empty and empty.count("asks one approver") == 1
    assert "Write a draft" in gail.get("/policies/") and "Write a draft" not in viewer.get("/policies/")
    assert "Everything else asks one approver." in viewer.get("/policies/0/")


def test_what_is_wrong_is_said_at_its_place_and_what_was_typed_stays(gail: Member) -> None:
    text = TWO.replace("people = 2", 'people = "two"') + "speed = 3\n"
    for do in ("try", "save"):
        answer = gail.post("/policies/new/", text=text, summary="half done", do=do)
        assert answer.status == 400
        assert "rule 1, people, line 6" in answer.html and "rule 1, speed, line 7" in answer.html
        assert escape('people = "two"') in answer.html and "half done" in answer.html
    assert not PolicyVersion.objects.exists()


def test_a_rule_is_shown_in_words_and_its_name_as_text(gail: Member) -> None:
    html = gail.get(saved(gail, TWO))
    assert "Two &lt;b&gt;look&lt;/b&gt;" in html and "<b>look</b>" not in html
    assert "2 different approvers" in html and "effect NON_IDEMPOTENT" in html


def test_a_draft_is_tried_before_it_is_saved_and_nothing_is_stored(gail: Member) -> None:
    answer = gail.post("/policies/new/", text=TWO, summary="", do="try")
    assert answer.status == 200
    assert "There is no call yet to try it on." in answer.html
    assert not PolicyVersion.objects.exists()


def test_a_version_is_put_in_force_with_a_reason_after_its_difference_was_shown(gail: Member, viewer: Member) -> None:
    first, second = saved(gail, TWO), saved(gail, NONE)
    assert gail.post(first, seen="0", reason="the audit").location == first
    html = gail.get(second)
    assert "v1 is in force" in html and "Nothing goes" in html and "# two people" in html
    assert "Put v2 in force" in html
    assert f'href="{first}"' in viewer.get("/policies/?text=people") and f'href="{second}"' not in viewer.get(
        "/policies/?until=1 h"
    )
    listed = viewer.get("/policies/")
    assert "the audit" in listed and "in force" in listed
    assert PolicyActivation.objects.get().activated_by == "person:g.overn"


def test_who_looked_at_another_version_in_force_is_told(gail: Member) -> None:
    first, second = saved(gail, TWO), saved(gail, NONE)
    gail.post(first, seen="0", reason="the audit")
    answer = gail.post(second, seen="0", reason="stricter")
    assert answer.status == 409
    assert "Policy v1 came into force meanwhile" in answer.html and "stricter" in answer.html
    assert PolicyActivation.objects.count() == 1


def test_who_does_not_govern_reads_and_writes_nothing(viewer: Member, gail: Member, stranger: Member) -> None:
    first = saved(gail, TWO)
    assert "needs the role governance" in viewer.get(first)
    opened = viewer.get("/policies/new/")
    assert "needs the role governance" in opened and "Nothing was done" not in opened
    assert viewer.post(first, seen="0", reason="mine").status == 403
    assert viewer.post("/policies/new/", text=NONE, do="try").status == 403
    assert viewer.post("/policies/new/", text=NONE, summary="mine", do="save").status == 403
    assert stranger.client.get(first).status_code == 404
    assert PolicyVersion.objects.count() == 1
