"""Roles and what each may do (model.md section 3.7). Pure Python."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

# The name of a group of people.
GROUP = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    RECONCILER = "reconciler"
    AUDITOR = "auditor"
    GOVERNANCE = "governance"


class Permission(StrEnum):
    READ = "read"
    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    SETTLE = "settle"
    REVISE = "revise"
    BUDGET = "budget"
    DECIDE = "decide"
    RECONCILE = "reconcile"
    RELEASE = "release"
    AUDIT = "audit"
    RETAIN = "retain"
    GOVERN = "govern"
    NOTIFY = "notify"


GRANTS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: frozenset(
        {
            *(Permission.READ, Permission.START, Permission.STOP, Permission.RESUME),
            *(Permission.PAUSE, Permission.REVISE, Permission.BUDGET, Permission.SETTLE, Permission.NOTIFY),
        }
    ),
    Role.APPROVER: frozenset({Permission.READ, Permission.DECIDE, Permission.RELEASE}),
    Role.RECONCILER: frozenset({Permission.READ, Permission.RECONCILE, Permission.RELEASE}),
    Role.AUDITOR: frozenset({Permission.AUDIT}),
    Role.GOVERNANCE: frozenset({Permission.READ, Permission.RETAIN, Permission.GOVERN}),
}


def roles_with(permission: Permission) -> tuple[Role, ...]:
    """The roles that hold a permission, in the order they are listed."""
    return tuple(role for role, held in GRANTS.items() if permission in held)


def permissions_of(roles: frozenset[str]) -> frozenset[Permission]:
    """Everything that a set of roles may do."""
    return frozenset(p for role in roles for p in GRANTS.get(Role(role), frozenset()))


class EndpointKind(StrEnum):
    """The ways by which people hear of something outside the pages."""

    WEBHOOK = "WEBHOOK"
    MAIL = "MAIL"
    CHAT = "CHAT"


class NoticeKind(StrEnum):
    """What people are told of outside the pages."""

    OPENED = "OPENED"
    REMINDER = "REMINDER"
    ESCALATED = "ESCALATED"
    DECIDED = "DECIDED"
    ASSIGNED = "ASSIGNED"
    RELEASED = "RELEASED"
    DELEGATED = "DELEGATED"
    UNKNOWN_CALL = "UNKNOWN_CALL"
    HELD = "HELD"
    STUCK = "STUCK"
    TEST = "TEST"


# What an endpoint can be asked to hear of: a test is told to the one that is tested.
HEARD = [kind for kind in NoticeKind if kind != NoticeKind.TEST]


class Subject(StrEnum):
    """What a notice is about, and so the page that it leads to."""

    WAIT = "wait"
    RUN = "run"
    CALL = "call"
    DELEGATION = "delegation"
    TENANT = "tenant"
    ENDPOINT = "endpoint"


class NoticeStatus(StrEnum):
    """SKIPPED: there was nothing to say any more, or nobody to say it to."""

    PENDING = "PENDING"
    SENT = "SENT"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


NOTICE_MOVES = [("PENDING", "SENT"), ("PENDING", "FAILED"), ("PENDING", "SKIPPED")]


@dataclass(frozen=True)
class Actor:
    """Who acts, in which tenant, with which roles and in which groups. `label` is what records keep. `confirmed_at`: when
    they last gave their password on this session, by the database's clock; None on a door where they did not. `tenant` is its
    short name.
    """

    tenant_id: UUID
    name: str
    roles: frozenset[str] = frozenset()
    kind: str = "person"
    door: str = "page"
    groups: frozenset[str] = frozenset()
    confirmed_at: datetime | None = None
    tenant: str = ""

    @property
    def label(self) -> str:
        return f"{self.kind}:{self.name}"

    def may(self, permission: Permission) -> bool:
        """True if one of the roles grants the permission."""
        return permission in permissions_of(self.roles)
