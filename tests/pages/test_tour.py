"""The tour: offered to a person at their first sign-in, on the tenant's own things, until they say they need it no more."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.states import Role
from tests.pages import story
from tests.pages.conftest import Member, member

OFFER = "Here for the first time?"


def test_it_is_offered_until_the_person_says_that_they_need_it_no_more(mo: Member, viewer: Member) -> None:
    assert OFFER in mo.get("/")
    assert mo.post("/tour/").location == "/"
    assert OFFER not in mo.get("/")
    assert OFFER in viewer.get("/"), "what one person has seen says nothing of another one"
    assert "You said" in mo.get("/tour/") and "I have seen it" not in mo.get("/tour/")


def test_its_stops_are_the_tenants_own_things(mo: Member, stranger: Member) -> None:
    now = timezone.now()
    waiting, wait = story.waiting(mo.tenant, now - timedelta(minutes=5))
    _, unknown = story.unknown(mo.tenant, now - timedelta(hours=2))
    html = mo.get("/tour/")
    for path in (
        f"/waits/{wait.id}/",
        f"/runs/{waiting.run.id}/",
        f"/runs/{waiting.run.id}/stop/",
        f"/calls/{unknown.id}/",
    ):
        assert f'href="{path}"' in html
    assert str(wait.id) not in stranger.get("/tour/")


def test_who_may_not_start_a_run_is_told_who_does(viewer: Member) -> None:
    html = viewer.get("/tour/")
    assert 'href="/runs/new/"' not in html and "Somebody with the role operator starts one" in html
    for path in ("/runs/", "/reports/", "/calls/", "/workspaces/"):
        assert 'href="/runs/new/"' not in viewer.get(path), path


@pytest.mark.parametrize(
    "path",
    ["/inbox/", "/inbox/batch/", "/search/?q=a", "/measures/", "/delegations/", "/workspaces/", "/memory/", "/tour/"],
)
def test_who_may_not_read_is_told_so_rather_than_that_nothing_is_there(mo: Member, path: str) -> None:
    answer = member("funds", "only.audits", frozenset({Role.AUDITOR})).client.get(path)
    assert answer.status_code == 403
    assert "This needs the permission “read”, which your roles do not hold." in answer.content.decode()


def test_where_nothing_is_each_stop_says_how_to_get_something(mo: Member) -> None:
    html = mo.get("/tour/")
    assert html.count('href="/runs/new/"') == 2
    assert "Nothing waits now. Start one: it asks before it publishes." in html
    assert "To see one, have the outside world drop its answer" in html
