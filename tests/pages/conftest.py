"""People of two tenants, signed in, for the tests of the pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client, override_settings
from pytest_django import DjangoDbBlocker

from accounts.models import Membership, Tenant
from accounts.services import member_set, tenant_create
from accounts.states import Role
from tests.pages.driven import Outside, driving, tell_runs
from tests.services import TEMPLATE, Services, cloned_database, using_database
from tests.stack import Stack

COMMON, TOLD = "common_site", "told_site"
ALL = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER})


@dataclass(frozen=True)
class Answer:
    """What a form was answered with."""

    status: int
    location: str
    html: str


@dataclass(frozen=True)
class Member:
    """A person of a tenant with a browser."""

    tenant: Tenant
    name: str
    client: Client

    def get(self, path: str, panel: str = "") -> str:
        """The HTML of a page that answers 200, or of one of its panels."""
        headers = {"HX-Request": "true", "HX-Target": panel} if panel else {}
        response = self.client.get(path, headers=headers)
        assert response.status_code == 200, f"{path} answered {response.status_code}"
        return response.content.decode()

    def post(self, path: str, **fields: Any) -> Answer:
        """The answer to a form, not followed."""
        answer = self.client.post(path, fields)
        return Answer(answer.status_code, answer.headers.get("Location", ""), answer.content.decode())


def member(slug: str, name: str, roles: frozenset[Role]) -> Member:
    tenant = tenant_create(slug=slug, name=slug)
    membership = member_set(tenant=tenant, username=name, password=None, roles=roles)
    client = Client()
    client.force_login(membership.user)
    return Member(tenant, name, client)


@pytest.fixture
def mo(db: None) -> Member:
    """Operator, approver and reconciler."""
    return member("funds", "mo.okafor", ALL)


@pytest.fixture
def viewer(mo: Member) -> Member:
    """Somebody of the same tenant who may only read."""
    return member("funds", "v.reader", frozenset({Role.VIEWER}))


@pytest.fixture
def stranger(db: None) -> Member:
    """Somebody with every role in another tenant."""
    return member("elsewhere", "s.tranger", ALL)


@pytest.fixture(scope="session")
def outside_process(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """One outside world for all tests of the pages; keys tell their posts apart."""
    stack = Stack(services, "", tmp_path_factory.mktemp("outside"))
    try:
        stack.start_outside()
        yield Outside(stack.outside_url)
    finally:
        stack.close()


@pytest.fixture(scope="session")
def told_runs(services: Services, django_db_blocker: DjangoDbBlocker, outside_process: Outside) -> str:
    """The name of a database with people and with runs that a real loop has driven into the states of `tell_runs`."""
    name = "told_runs"
    services.cluster.create_database(name, template=TEMPLATE)
    with using_database(name), django_db_blocker.unblock(), override_settings(**driving(outside_process)):
        member("funds", "ann.moreau", ALL)
        tell_runs("ann.moreau", outside_process)
    return name


@pytest.fixture
def told_database(
    services: Services, told_runs: str, outside_process: Outside, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """The libpq URL of a clone of the told runs, which Django points at and on which a loop can be driven."""
    driven = override_settings(**driving(outside_process))
    with cloned_database(services, told_runs) as url, django_db_blocker.unblock(), driven:
        yield url


@pytest.fixture
def outside(told_database: str, outside_process: Outside) -> Outside:
    """The outside world, behaving, for a test on its own clone of the told runs."""
    outside_process.tell(mode="ok")
    return outside_process


@pytest.fixture
def ann(outside: Outside) -> Member:
    """Operator, approver and reconciler, on the test's own database."""
    return member("funds", "ann.moreau", ALL)


@pytest.fixture
def ben(ann: Member) -> Member:
    """A second person with the same roles."""
    return member("funds", "ben.diaz", ALL)


@pytest.fixture
def reader(ann: Member) -> Member:
    """Somebody of the same tenant who may only read."""
    return member("funds", "r.eader", frozenset({Role.VIEWER}))


@pytest.fixture
def outsider(ann: Member) -> Member:
    """Somebody with every role in another tenant."""
    return member("elsewhere", "o.utsider", ALL)


# ── web servers that many tests share ──


@contextmanager
def server(services: Services, name: str, template: str, folder: Path) -> Iterator[Stack]:
    """A new database, and what is needed to start a web server on it. It may tell this machine of things."""
    services.cluster.create_database(name, template=template)
    stack = Stack(services, services.cluster.url(name), folder)
    stack.environment["SIGNALBOX_NOTICE_NETWORKS"] = '["127.0.0.1/32"]'
    try:
        yield stack
    finally:
        stack.close()
        services.drop(name)


@pytest.fixture(scope="session")
def common_server(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with server(services, COMMON, TEMPLATE, tmp_path_factory.mktemp(COMMON)) as stack:
        yield stack


@pytest.fixture(scope="session")
def told_server(services: Services, told_runs: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with server(services, TOLD, told_runs, tmp_path_factory.mktemp(TOLD)) as stack:
        yield stack


def running(stack: Stack) -> Stack:
    """With a web server: the test before may have killed it."""
    if all(process.child.process is None for process in stack.processes):
        stack.start_web()
    return stack


@pytest.fixture
def common_site(common_server: Stack, django_db_blocker: DjangoDbBlocker) -> Iterator[Stack]:
    """A web server on a database that tests share, each with a tenant of its own; Django's connections point at it."""
    with using_database(COMMON), django_db_blocker.unblock():
        yield running(common_server)


@pytest.fixture
def own(common_site: Stack) -> Membership:
    """Somebody with every role to act in a tenant that is the test's own."""
    name = uuid4().hex[:12]
    tenant = tenant_create(slug=f"own-{name}", name="funds")
    return member_set(tenant=tenant, username=f"mo.{name}", password=None, roles=ALL)


@pytest.fixture
def told_site(told_server: Stack, outside_process: Outside, django_db_blocker: DjangoDbBlocker) -> Iterator[Stack]:
    """A web server on told runs that tests share: they only look at those, and decide runs of their own.

    Runs can be driven here. ann.moreau and ben.diaz may do everything.
    """
    with using_database(TOLD), django_db_blocker.unblock(), override_settings(**driving(outside_process)):
        outside_process.tell(mode="ok")
        for name in ("ann.moreau", "ben.diaz"):
            member("funds", name, ALL)
        yield running(told_server)
