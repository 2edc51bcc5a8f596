"""Fixtures of the contract of the store: one database for the tests of a module; each test has runs of its own."""

from collections.abc import Iterator

import pytest
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from runs import wakeups
from tests.contract.store import Store, Worker
from tests.services import Services, cloned_database


@pytest.fixture(scope="module")
def database(services: Services, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """A migrated database that is committed to for real. Hints go nowhere: nobody looks at these runs."""
    with (
        cloned_database(services) as url,
        django_db_blocker.unblock(),
        override_settings(LEASE_TTL_SECONDS=120),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(wakeups, "_send", lambda *_: None)
        yield url


@pytest.fixture(scope="module")
def store(database: str) -> Store:
    """The store of one tenant."""
    return Store.of("north")


@pytest.fixture(scope="module")
def foreign(database: str) -> Store:
    """The store of another tenant, on the same database."""
    return Store.of("south")


@pytest.fixture
def worker(store: Store) -> Worker:
    """A worker that has just taken a new run."""
    return store.worker()
