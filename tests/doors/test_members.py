"""Making and changing members, tokens and what a tenant wants is in the audit chain of the tenant, with who did it."""

import getpass
from typing import Any

from accounts.audit import audit_verify
from accounts.models import ApiToken, AuditEvent, Tenant, User
from tests.doors.world import Doors, manage


def acts(slug: str, *actions: str) -> list[tuple[str, dict[str, Any]]]:
    """What was audited of these actions in a tenant, in order; by the account of this machine."""
    rows = AuditEvent.objects.filter(tenant__slug=slug, action__in=actions).order_by("seq")
    assert {row.actor for row in rows} <= {f"installation:{getpass.getuser()}"}
    return [(row.action, {k: v for k, v in row.detail.items() if k != "door"}) for row in rows]


def test_a_tenant_and_each_change_of_a_member_is_audited_with_before_and_after(doors: Doors) -> None:
    manage("members", "set", "rowan", "kim", "--roles", "viewer")
    manage("members", "set", "rowan", "kim", "--roles", "approver,viewer", "--groups", "finance")
    manage("members", "set", "rowan", "kim", "--roles", "viewer,approver", "--groups", "finance")
    viewer, both = {"roles": ["viewer"], "groups": []}, {"roles": ["approver", "viewer"], "groups": ["finance"]}
    assert acts("rowan", "tenant.create", "member.add", "member.change", "member.password") == [
        ("tenant.create", {"slug": "rowan"}),
        ("member.add", {"username": "kim", "before": None, "now": viewer}),
        ("member.password", {"username": "kim"}),
        ("member.change", {"username": "kim", "before": viewer, "now": both}),
    ]
    assert audit_verify(Tenant.objects.get(slug="rowan").id) == 4
    event = AuditEvent.objects.get(tenant__slug="rowan", action="member.change")
    assert (event.object_type, event.object_id) == ("member", str(User.objects.get(username="kim").id))


def test_a_password_is_audited_in_every_tenant_of_its_person(doors: Doors, monkeypatch: Any) -> None:
    manage("members", "set", "hazel", "lou", "--roles", "viewer")
    manage("members", "set", "aspen", "lou", "--roles", "viewer")
    monkeypatch.setattr("sys.stdin", Typed("a long enough pass phrase\n"))
    manage("members", "set", "aspen", "lou", "--roles", "viewer", "--password-stdin")
    assert len(acts("hazel", "member.password")) == 2 and len(acts("aspen", "member.password")) == 1
    stored = [str(row.detail) for row in AuditEvent.objects.filter(tenant__slug__in=["hazel", "aspen"])]
    assert not [text for text in stored if "pass phrase" in text]


def test_a_token_is_audited_as_it_is_made_and_revoked_without_its_secret(doors: Doors) -> None:
    manage("members", "set", "maple", "max", "--roles", "viewer")
    made = manage("members", "token", "create", "maple", "max", "--name", "ci", "--json").json["token"]
    assert manage("members", "token", "revoke", "maple", "max", "--name", "ci").code == 0
    assert manage("members", "token", "revoke", "maple", "max", "--name", "ci").code == 1
    named = {"username": "max", "roles": ["viewer"]}
    assert acts("maple", "token.create", "token.revoke") == [("token.create", named), ("token.revoke", named)]
    event = AuditEvent.objects.get(tenant__slug="maple", action="token.create")
    assert event.object_id == str(ApiToken.objects.get(membership__user__username="max").id)
    assert made not in str(event.detail) + str(bytes(event.canonical))


def test_what_a_tenant_wants_is_audited_where_it_changes(doors: Doors) -> None:
    manage("members", "set", "cedar", "cy", "--roles", "viewer")
    shown = manage("members", "rules", "cedar", "--json").json
    assert shown == {"tenant": "cedar", "two_for_verdicts": False, "self_approval": True}
    assert manage("members", "rules", "cedar", "--two-for-verdicts", "yes").code == 0
    manage("members", "rules", "cedar", "--two-for-verdicts", "yes")
    changed = manage("members", "rules", "cedar", "--self-approval", "no", "--json").json
    assert changed == {"tenant": "cedar", "two_for_verdicts": True, "self_approval": False}
    assert acts("cedar", "tenant.rules") == [
        ("tenant.rules", {"before": {"two_for_verdicts": False}, "now": {"two_for_verdicts": True}}),
        ("tenant.rules", {"before": {"self_approval": True}, "now": {"self_approval": False}}),
    ]
    assert manage("members", "rules", "nowhere", "--self-approval", "no").code == 1


class Typed:
    """A stdin that holds these lines."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    def readline(self) -> str:
        return self._lines.pop(0)
