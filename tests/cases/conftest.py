"""Some of the prepared cases, made once for each module that asks for them."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pytest_django import DjangoDbBlocker

from tests.cases.agents import FOLDER, NOW
from tests.cases.house import House, in_folder, under
from tests.cases.prepare import prepare
from tests.pages.driven import Outside
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
    name, folder = f"cases_{request.module.__name__.rpartition('.')[2]}", tmp_path_factory.mktemp("cases")
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
