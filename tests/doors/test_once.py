"""A form acts once, however often it is sent: clicked twice, sent again by the browser, gone back to."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.models import Model
from django.test import Client

from accounts.models import SentForm, User
from accounts.services import form_send, member_set
from accounts.states import Role
from approvals.models import Delegation, Grant
from approvals.services import delegation_end, grant_revoke
from tests.doors.world import Doors, person

WHO = "every-role"
ENDS = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
GIVEN = {
    "tool": "fund_comparison/publish_report",
    "condition": "args['title'] == 'none'",
    "hours": "8",
    "max_uses": "1",
    "reason": "a routine",
}
FORMS: tuple[tuple[str, dict[str, Any], type[Model]], ...] = (
    ("/delegations/", {"taker": "only-approver", "ends_at": ENDS, "reason": "away"}, Delegation),
    ("/grants/", GIVEN, Grant),
)
each_form = pytest.mark.parametrize(("path", "fields", "makes"), FORMS, ids=[path for path, *_ in FORMS])


@pytest.fixture
def client(doors: Doors) -> Iterator[Client]:
    """Somebody with every role. What they give is taken back: it would stand for other tests."""
    member_set(tenant=doors.tenant, username=WHO, password=None, roles=frozenset(Role))
    yield signed_in()
    actor = person(WHO)
    for given in Delegation.objects.filter(giver=actor.label, ended_at=None):
        delegation_end(actor=actor, delegation_id=given.id)
    for grant in Grant.objects.filter(owner=actor.label, revoked_at=None):
        grant_revoke(actor=actor, grant_id=grant.id, reason="the test is over")


def signed_in() -> Client:
    client = Client()
    client.force_login(User.objects.get(username=WHO))
    return client


def key_of(client: Client, path: str) -> str:
    """The key of the form that a page was drawn with."""
    return str(re.findall(r'name="form_key" value="([^"]+)"', client.get(path).content.decode())[0])


@contextmanager
def made(model: type[Model], number: int) -> Iterator[None]:
    before = model._default_manager.count()
    yield
    assert model._default_manager.count() == before + number


@each_form
def test_a_form_that_is_sent_again_makes_nothing_more(
    client: Client, path: str, fields: dict[str, Any], makes: type[Model]
) -> None:
    sent = {**fields, "form_key": key_of(client, path)}
    with made(makes, 1):
        assert client.post(path, sent).status_code == 302
        again = client.post(path, sent, follow=True)
    assert "That form was sent before, and is not done a second time." in again.content.decode()
    with made(makes, 1):  # a page that is drawn anew is another form
        assert client.post(path, {**sent, "form_key": key_of(client, path)}).status_code == 302


def test_of_two_clicks_at_the_same_instant_one_acts(client: Client) -> None:
    path, fields, makes = FORMS[0]
    sent = {**fields, "form_key": key_of(client, path)}

    def click(clicker: Client) -> int:
        try:
            return clicker.post(path, sent).status_code
        finally:
            connections.close_all()

    with made(makes, 1), ThreadPoolExecutor(4) as clicks:
        assert list(clicks.map(click, [signed_in() for _ in range(4)])) == [302] * 4


def test_a_form_that_was_refused_is_taken_once_it_is_put_right(client: Client) -> None:
    path, fields, makes = FORMS[0]
    sent = {**fields, "form_key": key_of(client, path)}
    with made(makes, 0):
        assert client.post(path, {**sent, "reason": ""}).status_code == 400
    with made(makes, 1):
        assert client.post(path, sent).status_code == 302


def test_the_key_of_a_form_is_kept_for_a_day(client: Client) -> None:
    old = SentForm.objects.create(key="00000000-0000-4000-8000-000000000001")
    SentForm.objects.filter(key=old.key).update(at=datetime.now(UTC) - timedelta(hours=25))
    path, fields, _ = FORMS[0]
    client.post(path, {**fields, "form_key": key_of(client, path)})
    assert not SentForm.objects.filter(key=old.key).exists() and SentForm.objects.exists()
    assert not form_send(key=SentForm.objects.latest("at").key)
