"""Some of the prepared cases, made once for each module that asks for them."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, expect
from pytest_django import DjangoDbBlocker

from tests.cases.agents import FOLDER, NOW
from tests.cases.house import OPERATOR, House, in_folder, under
from tests.cases.prepare import prepare
from tests.pages.driven import Outside
from tests.pages.looks.conftest import session_of
from tests.services import TEMPLATE, Services, using_database
from tests.stack import Stack


@pytest.fixture(scope="package")
def other_side(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """One outside world for all cases; keys tell their orders apart."""
    stack = Stack(services, "", tmp_path_factory.mktemp("outside"))
    try:
        stack.start_outside()
        yield Outside(stack.outside_url)
    finally:
        stack.close()


@pytest.fixture(scope="module")
def prepared(
    services: Services,
    other_side: Outside,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[House]:
    """The house with the cases that the module names in CASES_WANTED, in a database that is the current one meanwhile."""
    name, folder = database_of(request), tmp_path_factory.mktemp("cases")
    services.cluster.create_database(name, template=TEMPLATE)
    with ExitStack() as held, pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(folder))
        in_folder(folder)
        held.enter_context(using_database(name))
        held.enter_context(django_db_blocker.unblock())
        house = prepare(other_side, password=None, only=request.module.CASES_WANTED)
        held.enter_context(under(other_side, NOW))
        yield house
    services.drop(name)


def database_of(request: pytest.FixtureRequest) -> str:
    """The database of the module that asks."""
    return f"cases_{request.module.__name__.rpartition('.')[2]}"


@pytest.fixture(scope="module")
def site(
    prepared: House, services: Services, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The address of a web server on the prepared cases, with a slash."""
    stack = Stack(services, services.cluster.url(database_of(request)), tmp_path_factory.mktemp("site"))
    stack.environment["DJANGO_SETTINGS_MODULE"] = "tests.cases.settings"
    try:
        stack.start_web()
        yield stack.url
    finally:
        stack.close()


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """The operator's browser."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session_of(OPERATOR), "url": site}
    context.add_cookies([cookie])  # type: ignore[list-item]
    expect.set_options(timeout=30_000)
    yield context.new_page()
    context.close()
