"""A console of its own, in which things are made for each act, and somebody who is signed in and has no mouse."""

from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from django.conf import settings
from django.test import override_settings
from playwright.sync_api import Browser
from pytest_django import DjangoDbBlocker

from accounts.states import Role
from tests.pages.conftest import member
from tests.pages.driven import Outside, driving, person
from tests.pages.keyboard.driver import Keyboard
from tests.pages.keyboard.house import House
from tests.pages.looks.conftest import session_of
from tests.services import Services, using_database
from tests.stack import Stack

DATABASE = "keyboard"
ANN, BEN, CAM = "ann.moreau", "ben.diaz", "c.amara"


@pytest.fixture(scope="package")
def house(
    services: Services,
    told_runs: str,
    outside_process: Outside,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    services.cluster.create_database(DATABASE, template=told_runs)
    driven = override_settings(**driving(outside_process), NOTICE_NETWORKS=[ip_network("127.0.0.0/8")])
    stack = Stack(services, services.cluster.url(DATABASE), tmp_path_factory.mktemp("keyboard"))
    stack.environment["DJANGO_SETTINGS_MODULE"] = "tests.pages.keyboard.settings"
    stack.environment["SIGNALBOX_OUTSIDE_URL"] = outside_process.url
    stack.environment["SIGNALBOX_NOTICE_NETWORKS"] = '["127.0.0.0/8"]'
    try:
        with using_database(DATABASE), django_db_blocker.unblock(), driven:
            outside_process.tell(mode="ok")
            stack.start_web()
            for name in (ANN, BEN):
                member("funds", name, frozenset(Role))
            for slug in ("funds", "elsewhere"):
                member(slug, CAM, frozenset(Role))
            yield House(stack.url, person(ANN), person(BEN), outside_process, tmp_path_factory.mktemp("files"))
    finally:
        stack.close()
        services.drop(DATABASE)


@pytest.fixture
def by(house: House, browser: Browser) -> Iterator[Keyboard]:
    """Ann, at a page that is open nowhere yet."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session_of(ANN), "url": house.site}
    context.add_cookies([cookie])  # type: ignore[list-item]
    page = context.new_page()
    page.on("filechooser", lambda _: None)  # before any is opened: from the first listener on none is the browser's own
    yield Keyboard(page, house.site)
    context.close()
