"""Fixtures of the engine's tests: one engine in this process, with told agents, and hooks at the named fault points."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from django.test import override_settings
from pytest_django import DjangoDbBlocker, Settings

from approvals.models import Wait
from runs import faults, wakeups
from runtime.registry import agents
from tests.agents import AGENTS, SCRIPT, calls
from tests.engine.engine import At, Engine, open_wait, people
from tests.scenarios.invariants import broken_invariants
from tests.services import Services, cloned_database

# Leases last until a test lets them expire, retries do not wait, and no page listens.
ENGINE_SETTINGS = {
    "AGENTS": ["runtime.agents.fund_comparison.FundComparison", *AGENTS],
    "LEASE_TTL_SECONDS": 120,
    "RETRY_BASE_SECONDS": 0.001,
    "LIVE_HINTS": False,
}


@contextmanager
def made_engine() -> Iterator[Engine]:
    """An engine on the database that Django points at. Hints are noted and go nowhere."""
    with override_settings(**ENGINE_SETTINGS), pytest.MonkeyPatch.context() as patch:
        agents.cache_clear()
        SCRIPT.clear()
        engine = Engine(people("north"))

        def note(run_id: UUID, delay: object) -> None:
            engine.hints.append(run_id)

        patch.setattr(wakeups, "_send", note)
        yield engine
    agents.cache_clear()


@pytest.fixture
def engine(live_database: str) -> Iterator[Engine]:
    """An engine on a database of the test's own."""
    with made_engine() as engine:
        yield engine
        broken = broken_invariants()
        assert not broken, broken


@pytest.fixture(scope="module")
def shared_engine(services: Services, django_db_blocker: DjangoDbBlocker) -> Iterator[Engine]:
    """One engine for all tests of a module that leave nothing behind."""
    with cloned_database(services), django_db_blocker.unblock(), made_engine() as engine:
        yield engine


@pytest.fixture
def wait(engine: Engine) -> Wait:
    """The open wait of a run that asks for one call."""
    return open_wait(engine.run(calls(("once", "a"))))


@pytest.fixture
def at_point(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> At:
    """Have something happen, once, where this process next reaches a named fault point (see runs.faults)."""
    hooks: dict[str, Callable[[], None]] = {}

    def take(order: Path) -> None:
        hook = hooks.pop(order.name, None)
        if hook:
            hook()

    settings.FAULT_DIR = "in-process"
    monkeypatch.setattr(faults, "_take", take)
    return hooks.__setitem__
