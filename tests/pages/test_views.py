"""Saved views: a list under a name, one's own or shared, and it shows what holds now."""

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import AuditEvent, SavedView
from accounts.services import member_set
from accounts.states import Role
from tests.pages import story
from tests.pages.conftest import Member


def keep(who: Member, name: str = "Held ones", shared: str = "", **more: str) -> SavedView:
    answer = who.post(
        "/views/", listed="runs", query="status=HELD&sort=oldest&after=x", name=name, shared=shared, **more
    )
    assert answer.status == 302 and answer.location == "/runs/?status=HELD&sort=oldest"
    return SavedView.objects.get(name=name)


def test_a_view_keeps_filters_order_and_columns_and_not_the_place(mo: Member) -> None:
    view = keep(mo)
    assert view.query == "status=HELD&sort=oldest"
    held = story.held(mo.tenant, timezone.now(), "BUDGET", "spent", "tokens")
    assert f'id="run-{held.run.id}"' in mo.get(f"/runs/?{view.query}")
    html = mo.get("/runs/")
    assert 'href="/runs/?status=HELD&amp;sort=oldest"' in html and "Held ones" in html
    assert "Held ones" not in mo.get("/waits/")
    assert AuditEvent.objects.get(action="view.save").detail["listed"] == "runs"


def test_others_see_what_is_shared_and_nothing_else(mo: Member, stranger: Member) -> None:
    keep(mo, "Mine")
    shared = keep(mo, "Ours", shared="yes")
    membership = member_set(tenant=mo.tenant, username="vi", password=None, roles=frozenset({Role.VIEWER}))
    other = Client()
    other.force_login(membership.user)
    html = other.get("/runs/").content.decode()
    assert "Ours" in html and "Mine" not in html
    assert other.post(f"/views/{shared.id}/remove/", {"name": "Ours"}).status_code == 403
    assert "Ours" not in stranger.get("/views/") and "Mine" not in stranger.get("/views/")
    assert stranger.client.get(f"/views/{shared.id}/remove/").status_code == 404


@pytest.mark.parametrize(("name", "said"), [("", "a name of at most"), ("x" * 101, "a name of at most")])
def test_what_can_not_be_a_name_is_said(mo: Member, name: str, said: str) -> None:
    answer = mo.post("/views/", listed="runs", name=name)
    assert answer.status == 400 and said in answer.html
    assert not SavedView.objects.exists()


def test_a_filter_that_is_too_long_is_not_kept_in_part(mo: Member) -> None:
    query = "&".join(f"q={'x' * 190}" for _ in range(11)) + "&status=HELD"
    answer = mo.post("/views/", listed="runs", name="Long", query=query)
    assert answer.status == 400 and "an address of at most 2000 characters" in answer.html
    assert not SavedView.objects.exists()


def test_a_name_stands_once_for_each_list(mo: Member) -> None:
    keep(mo)
    assert mo.post("/views/", listed="runs", name="Held ones").status == 409
    assert mo.post("/views/", listed="waits", name="Held ones").status == 302


def test_a_view_goes_by_the_name_that_was_seen(mo: Member) -> None:
    view = keep(mo)
    assert mo.post(f"/views/{view.id}/remove/", name="another").status == 400
    assert mo.post(f"/views/{view.id}/remove/", name="Held ones").status == 302
    assert not SavedView.objects.exists()
    assert AuditEvent.objects.filter(action__in=["view.remove", "view.remove.refused"]).count() == 2
