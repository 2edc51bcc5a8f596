"""Fixtures of the engine's tests: one engine in this process, with told agents, and hooks at the named fault points."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection
from django.test import override_settings
from pytest_django import DjangoDbBlocker, Settings

from accounts.models import Tenant
from approvals.models import Wait
from approvals.selectors import policy_of
from runs import faults, wakeups
from runtime.loop import drive
from runtime.policy import IN_FORCE
from runtime.registry import agents
from tests.agents import AGENTS
from tests.engine.asking import asked
from tests.engine.engine import At, Engine, open_wait, people
from tests.engine.family import awaits, spawn, tell
from tests.scripted import SCRIPT, calls, done
from tests.services import Services, cloned_database

# Leases last until a test lets them expire, retries do not wait, and no page listens.
ENGINE_SETTINGS = {
    "AGENTS": [
        "runtime.agents.fund_comparison.FundComparison",
        "runtime.agents.evidence_search.EvidenceSearch",
        *AGENTS,
    ],
    "LEASE_TTL_SECONDS": 120,
    "RETRY_BASE_SECONDS": 0.001,
}

WIPE = """
SET session_replication_role = replica;
DO $$ DECLARE wiped text; BEGIN
    FOR wiped IN SELECT relname FROM pg_class WHERE relkind = 'r'
        AND (relname ~ '^(runs|receipts|checkpoints|approvals)_' OR relname IN ('accounts_auditevent', 'accounts_notice', 'accounts_endpoint'))
    LOOP EXECUTE format('DELETE FROM %I', wiped); END LOOP;
    UPDATE accounts_audithead SET seq = 0, hash = repeat('0', 64);
    UPDATE accounts_tenant SET self_approval = true;
END $$;
SET session_replication_role = origin;
"""


@contextmanager
def made_engine(tenant: Tenant) -> Iterator[Engine]:
    """An engine on the database that Django points at. Hints are noted and go nowhere."""
    with override_settings(**ENGINE_SETTINGS), pytest.MonkeyPatch.context() as patch:
        agents.cache_clear()
        policy_of.cache_clear()
        IN_FORCE.clear()
        SCRIPT.clear()
        engine = Engine(tenant)

        def note(run_id: UUID) -> None:
            engine.hints.append(run_id)

        patch.setattr(wakeups, "_send", note)
        yield engine
    agents.cache_clear()


@pytest.fixture(scope="module")
def tenant(services: Services, django_db_blocker: DjangoDbBlocker) -> Iterator[Tenant]:
    """A tenant with its people on a migrated database for the tests of a module, committed to for real."""
    with cloned_database(services), django_db_blocker.unblock():
        tenant = people("north")
        wipe()  # making people is audited; what a test looks at begins after that
        yield tenant


@pytest.fixture
def engine(tenant: Tenant) -> Iterator[Engine]:
    """An engine without runs; what a test leaves is wiped, past the triggers."""
    with made_engine(tenant) as engine:
        yield engine
        wipe()


def wipe() -> None:
    """Forget every run and every audited act; tenants and people stay."""
    connection.close()  # whatever a test has set in this session
    with connection.cursor() as cursor:
        cursor.execute(WIPE)


@pytest.fixture(scope="module")
def shared_engine(tenant: Tenant) -> Iterator[Engine]:
    """One engine for all tests of a module that leave nothing behind."""
    with made_engine(tenant) as engine:
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


@pytest.fixture
def parent(engine: Engine) -> UUID:
    """A parent that waits for its child, which is queued."""
    tell([spawn("c"), awaits], [calls(("look", "a")), done()])
    run_id = engine.start("parent")
    drive(run_id)
    return run_id


@pytest.fixture
def question(engine: Engine) -> Wait:
    """The open question of a run that asks in its first turn."""
    return open_wait(engine.run(calls(asked())))
