"""One real system for the whole journey, two people who may do everything, and a browser for each of them."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, expect
from pytest_django import DjangoDbBlocker

from accounts.services import member_set
from accounts.states import Role
from runs.models import Run
from runtime.services import run_stop
from tests.journey.visitor import PASSWORD, Visitor, visitor
from tests.scenarios.invariants import check_invariants
from tests.scenarios.world import APPROVER, SECOND_APPROVER, World, running_world
from tests.services import TEMPLATE, Services, using_database
from tests.stack import Stack
from tests.waiting import wait_until

DATABASE = "journey"
PATIENCE = 30_000  # ms for a state that other processes bring about, on a busy machine
LEASE_TTL = "5"  # s; a frozen worker keeps its lease for longer than a click takes


@pytest.fixture(scope="package")
def journey_stack(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    services.cluster.create_database(DATABASE, template=TEMPLATE)
    stack = Stack(services, services.cluster.url(DATABASE), tmp_path_factory.mktemp("journey"))
    stack.environment["SIGNALBOX_LEASE_TTL_SECONDS"] = LEASE_TTL
    with closing(stack):
        yield stack
    services.drop(DATABASE)


@pytest.fixture(scope="package")
def running(journey_stack: Stack, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    """Everything started, with the web server. Hints come from the real processes, not from this one."""
    with using_database(DATABASE), django_db_blocker.unblock(), running_world(journey_stack) as world:
        journey_stack.start_web()
        roles = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER})
        for name in (APPROVER, SECOND_APPROVER):
            member_set(tenant=world.tenant, username=name, password=PASSWORD, roles=roles)
        yield world


@pytest.fixture
def world(running: World) -> Iterator[World]:
    """The running system with all of its workers. After the test its records must hold the invariants."""
    running.start_processes()
    yield running
    running.tidy()
    check_invariants(running)
    end_all_runs(running)


def end_all_runs(world: World) -> None:
    """Stop what a test left open, so that the next one begins with an empty inbox."""
    for run_id in Run.objects.filter(ended_at=None).values_list("id", flat=True):
        run_stop(actor=world.person(), run_id=run_id, reason="the test is over")  # refused if it has just ended
    wait_until(lambda: not Run.objects.filter(ended_at=None).exists(), "every run has ended")


@pytest.fixture
def visit(browser: Browser, world: World) -> Iterator[Callable[..., Visitor]]:
    """Call it with a name (and options of a browser context). Whatever a browser complained about fails the test."""
    expect.set_options(timeout=PATIENCE)
    visitors: list[Visitor] = []

    def come(name: str, **options: object) -> Visitor:
        visitors.append(visitor(browser, name, world.stack.url, **options))
        return visitors[-1]

    yield come
    for one in visitors:
        one.context.close()
    assert [complaint for one in visitors for complaint in one.complaints] == []


@pytest.fixture
def operator(visit: Callable[..., Visitor]) -> Visitor:
    """The operator, signed in."""
    person = visit(APPROVER)
    person.sign_in()
    return person


@pytest.fixture
def second(visit: Callable[..., Visitor]) -> Visitor:
    """A second operator, signed in, in a browser of their own."""
    person = visit(SECOND_APPROVER)
    person.sign_in()
    return person
