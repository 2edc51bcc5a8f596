"""One system for all scenarios: it starts once, each test puts it back in order and the invariants are checked after."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import settings
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from runtime.registry import agents
from tests.scenarios.invariants import check_invariants
from tests.scenarios.world import World, running_world
from tests.services import TEMPLATE, Services, using_database
from tests.stack import Stack

DATABASE = "scenarios"
# A worker frozen inside a transaction loses its session when its lease expires.
FROZEN_SESSIONS = "-c lock_timeout=15s -c idle_in_transaction_session_timeout=2s"


@pytest.fixture(scope="package")
def scenario_stack(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    services.cluster.create_database(DATABASE, template=TEMPLATE)
    folder: Path = tmp_path_factory.mktemp("scenarios")
    stack = Stack(services, f"{services.cluster.url(DATABASE)}&options={quote(FROZEN_SESSIONS)}", folder)
    stack.environment["DJANGO_SETTINGS_MODULE"] = "tests.scenarios.settings"
    try:
        yield stack
    finally:
        stack.close()
        services.drop(DATABASE)


@pytest.fixture(scope="package")
def shared_world(scenario_stack: Stack, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    told = override_settings(AGENTS=[*settings.AGENTS, "tests.scenarios.agents.Family"])
    with told, using_database(DATABASE), django_db_blocker.unblock(), running_world(scenario_stack) as world:
        agents.cache_clear()
        yield world
    agents.cache_clear()


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """The running system. After the test whatever it left must hold the invariants."""
    shared_world.tidy()
    shared_world.start_processes()
    yield shared_world
    check_invariants(shared_world)
