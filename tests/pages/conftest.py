"""People of two tenants, signed in, for the tests of the pages."""

from dataclasses import dataclass

import pytest
from django.test import Client

from accounts.models import Tenant
from accounts.services import member_set, tenant_create
from accounts.states import Role

ALL = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER})


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
