"""Roles and what each may do (model.md section 3.7). Pure Python."""

from enum import StrEnum


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
    RESUME = "resume"
    REVISE = "revise"
    DECIDE = "decide"
    RECONCILE = "reconcile"
    RELEASE = "release"
    AUDIT = "audit"


GRANTS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: frozenset(
        {Permission.READ, Permission.START, Permission.STOP, Permission.RESUME, Permission.REVISE}
    ),
    Role.APPROVER: frozenset({Permission.READ, Permission.DECIDE, Permission.RELEASE}),
    Role.RECONCILER: frozenset({Permission.READ, Permission.RECONCILE, Permission.RELEASE}),
    Role.AUDITOR: frozenset({Permission.AUDIT}),
    Role.GOVERNANCE: frozenset({Permission.READ}),
}


def permissions_of(roles: frozenset[str]) -> frozenset[Permission]:
    """Everything that a set of roles may do."""
    return frozenset(p for role in roles for p in GRANTS.get(Role(role), frozenset()))
