"""One furnished house with a web server for all who look at its pages, and a browser that is signed in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client, override_settings
from playwright.sync_api import Browser, BrowserContext
from pytest_django import DjangoDbBlocker

from accounts.models import User
from accounts.states import Role
from tests.pages.conftest import member
from tests.pages.driven import Outside, driving, person
from tests.pages.looks.furnish import House, furnish
from tests.pages.looks.places import ANN, NEWCOMER, Place, places
from tests.services import Services, using_database
from tests.stack import Stack

DATABASE = "furnished"


@dataclass(frozen=True)
class Furnished:
    """The house and its pages. The database is the current one as long as this is used."""

    house: House
    places: list[Place]

    def client(self, who: str) -> Client:
        client = Client()
        if who:
            client.force_login(User.objects.get(username=who))
        return client


@pytest.fixture(scope="package")
def furnished(
    services: Services, told_runs: str, outside_process: Outside, django_db_blocker: DjangoDbBlocker
) -> Iterator[Furnished]:
    services.cluster.create_database(DATABASE, template=told_runs)
    driven = override_settings(**driving(outside_process))
    with using_database(DATABASE), django_db_blocker.unblock(), driven:
        outside_process.tell(mode="ok")
        ann = member("funds", ANN, frozenset(Role))
        member("funds", "ben.diaz", frozenset(Role))
        member("elsewhere", NEWCOMER, frozenset(Role))
        house = furnish(ann.tenant, person(ANN), person("ben.diaz"))
        yield Furnished(house, places(house))
    services.drop(DATABASE)


@pytest.fixture(scope="package")
def site(services: Services, furnished: Furnished, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a web server in the house, with a slash."""
    stack = Stack(services, services.cluster.url(DATABASE), tmp_path_factory.mktemp("looks"))
    try:
        stack.start_web()
        yield stack.url
    finally:
        stack.close()


def session_of(who: str) -> str:
    """The key of a fresh session."""
    user = User.objects.get(username=who)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)


Signed = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def signed(browser: Browser, site: str) -> Iterator[Signed]:
    """Call it with a name and options of a context: a browser of that person. Closed at the end."""
    opened: list[BrowserContext] = []

    def come(who: str, **options: object) -> BrowserContext:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        if who:
            cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session_of(who), "url": site}
            context.add_cookies([cookie])  # type: ignore[list-item]
        opened.append(context)
        return context

    yield come
    for context in opened:
        context.close()
