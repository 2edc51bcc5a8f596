"""The tour: offered to a person at their first sign-in, on the tenant's own things, until they say they need it no more."""

from datetime import timedelta

from django.utils import timezone

from tests.pages import story
from tests.pages.conftest import Member

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


def test_where_nothing_is_each_stop_says_how_to_get_something(mo: Member) -> None:
    html = mo.get("/tour/")
    assert html.count('href="/runs/new/"') == 2
    assert "Nothing waits now. Start a run: it asks you before it publishes." in html
    assert "To see one, have the outside world drop its answer" in html
