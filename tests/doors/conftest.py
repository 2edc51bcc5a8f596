"""One database and one outside world for the tests of the doors; each test makes the runs that it changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from approvals.models import Wait
from receipts.models import ToolCall
from runs.models import Run
from tests.doors.things import Things, made_things
from tests.doors.world import ALDER, BIRCH, Doors, make_doors
from tests.services import Services, cloned_database
from tests.unit.outside_world import outside_world


@pytest.fixture(scope="package")
def doors(
    services: Services, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("outside")
    with (
        cloned_database(services),
        django_db_blocker.unblock(),
        outside_world(folder) as outside,
        override_settings(OUTSIDE_URL=outside.url, LEASE_TTL_SECONDS=120),  # longer than any test takes
    ):
        yield make_doors(outside)


@pytest.fixture(scope="module")
def waiting(doors: Doors) -> Wait:
    """An open wait that no test of the module decides. Those of another module may stop a whole tenant."""
    return doors.waiting()


@pytest.fixture(scope="module")
def unknown(doors: Doors) -> ToolCall:
    """A call of unknown outcome that no test reconciles."""
    return doors.unknown()


@pytest.fixture(scope="module")
def completed(doors: Doors) -> Run:
    """A run that is over."""
    return doors.completed()


@pytest.fixture(scope="module")
def things(doors: Doors, waiting: Wait, unknown: ToolCall, completed: Run) -> Iterator[Things]:
    """What paths name, for a walk that changes none of it."""
    yield from made_things(doors, waiting, unknown, completed)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    for name, text in (("alder.csv", ALDER), ("birch.csv", BIRCH)):
        (tmp_path / name).write_text(text)
    return "--file", f"a={tmp_path}/alder.csv", "--file", f"b={tmp_path}/birch.csv"
