"""Writes of standing grants: given and revoked by people, and counted in the commit that sends a call by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.audit import audit_append, audit_refused
from accounts.errors import Invalid, NotAllowed, Refused
from accounts.models import ClockTimestamp, Tenant
from accounts.selectors import authority_of, still_may
from accounts.statements import fetch
from accounts.states import Actor, Permission, permissions_of
from approvals.errors import GrantOver
from approvals.models import Grant, GrantUse
from approvals.policies import Demand, Facts, Ruling, Unanswerable, condition_fault, holds
from approvals.selectors import access_grant, grants_for
from approvals.services.checks import arguments_intact
from approvals.statements import GRANT_USE
from approvals.states import PolicyOutcome
from checkpoints.envelope import unfit_text
from receipts.models import ToolCall
from receipts.selectors import call_arguments
from runs.canonical import bounded, digest

REASON_LIMIT = 4000
USES_LIMIT = 1000
HOURS_LIMIT = 30 * 24


@dataclass(frozen=True)
class Scope:
    """What a grant is for. `tool_hash`: the tool's definition now; a tool that is redefined is not covered any more."""

    agent: str
    tool: str
    tool_hash: str
    condition: str
    hours: int
    max_uses: int


@dataclass(frozen=True)
class GrantGiven:
    """A grant stands."""

    grant_id: UUID


@dataclass(frozen=True)
class GrantRevoked:
    """A grant stands no more. What was sent by it stays sent."""

    grant_id: UUID
    uses: int


def grant_give(*, actor: Actor, scope: Scope, reason: str) -> GrantGiven | Refused:
    """Let one tool of one agent be called without asking, within a scope. The caller has looked the tool up.

    Needs the permission to decide: it is the giver's approval in advance, used only while they may still decide.
    """
    with transaction.atomic():
        given = _give_refusal(actor, scope, reason.strip()) or _give(actor, scope, reason.strip())
    if isinstance(given, Refused):
        audit_refused(actor=actor, action="grant.give", object_type="tenant", object_id=actor.tenant_id, refused=given)
    return given


def _give(actor: Actor, scope: Scope, reason: str) -> GrantGiven:
    grant = Grant.objects.create(
        tenant_id=actor.tenant_id,
        owner=actor.label,
        agent=scope.agent,
        tool=scope.tool,
        tool_hash=scope.tool_hash,
        condition=scope.condition,
        reason=reason,
        expires_at=ClockTimestamp() + timedelta(hours=scope.hours),
        max_uses=scope.max_uses,
    )
    named = {"agent": scope.agent, "tool": scope.tool, "tool_hash": scope.tool_hash, "hours": scope.hours}
    said = {"condition_digest": digest(scope.condition.encode()), "reason_digest": digest(reason.encode())}
    _audit(actor, "grant.give", grant.id, {**named, **said, "max_uses": scope.max_uses})
    return GrantGiven(grant.id)


def _give_refusal(actor: Actor, scope: Scope, reason: str) -> Refused | None:
    if not actor.may(Permission.DECIDE):
        return NotAllowed({"permission": str(Permission.DECIDE), "actor": actor.name})
    for field, why in {
        "reason": unfit_text(reason, REASON_LIMIT),
        "condition": condition_fault(scope.condition) if scope.condition else "",
        "hours": "" if 1 <= scope.hours <= HOURS_LIMIT else f"from 1 to {HOURS_LIMIT}.",
        "max_uses": "" if 1 <= scope.max_uses <= USES_LIMIT else f"from 1 to {USES_LIMIT}.",
    }.items():
        if why:
            return Invalid({"field": field, "reason": why})
    return None


def grant_revoke(*, actor: Actor, grant_id: UUID, reason: str) -> GrantRevoked | Refused:
    """End a grant from this commit on. Anybody who may decide may. Raises NotFound."""
    access_grant(actor=actor, id=grant_id)
    with transaction.atomic():
        outcome = _revoke(actor, grant_id, reason.strip())
    if isinstance(outcome, Refused):
        audit_refused(actor=actor, action="grant.revoke", object_type="grant", object_id=grant_id, refused=outcome)
    return outcome


def _revoke(actor: Actor, grant_id: UUID, reason: str) -> GrantRevoked | Refused:
    if not actor.may(Permission.DECIDE):
        return NotAllowed({"permission": str(Permission.DECIDE), "actor": actor.name})
    why = unfit_text(reason, REASON_LIMIT)
    if why:
        return Invalid({"field": "reason", "reason": why})
    changed = Grant.objects.filter(id=grant_id, revoked_at=None).update(
        revoked_at=ClockTimestamp(), revoked_by=actor.label, revocation_reason=reason
    )
    grant = Grant.objects.get(id=grant_id)
    if not changed:
        return GrantOver({"by": grant.revoked_by.partition(":")[2], "at": f"{grant.revoked_at:%Y-%m-%d %H:%M:%S} UTC"})
    _audit(actor, "grant.revoke", grant_id, {"uses": grant.uses, "reason_digest": digest(reason.encode())})
    return GrantRevoked(grant_id, grant.uses)


def grant_for(
    call: ToolCall,
    ruling: Ruling,
    *,
    run: Any,
    agent: str,
    environment: str,
    standing: Callable[..., Sequence[Grant]] = grants_for,
) -> Ruling:
    """What policy says of a call once standing grants are looked at: one that covers it stands for the person that is asked.

    It never stands for two people, for a rule that says so or is of high risk, or for somebody who could not approve this
    wait themselves now. Called by the worker that rules on the call, and by a dry run; the use is counted when it is sent.
    `standing` reads the grants that stand for the call's tool.
    """
    if not ruling.coverable or call.author is not None or not arguments_intact(call):
        return ruling
    facts = Facts(call.tool, True, call.effect_class, False, call_arguments(call), agent, environment)
    for grant in standing(call, agent=agent):
        if _condition_holds(grant, facts) and _owner_could_approve(grant, ruling.demand, run):
            who = grant.owner.partition(":")[2]
            said = bounded(f"Allowed by grant {grant.id} of {who}. {ruling.rule}", 500)
            return replace(ruling, outcome=PolicyOutcome.ALLOW, rule=said, granted_by=grant.id)
    return ruling


def _condition_holds(grant: Grant, facts: Facts) -> bool:
    if not grant.condition:
        return True
    try:
        return holds(grant.condition, facts.named)
    except Unanswerable:
        return False


def _owner_could_approve(grant: Grant, demand: Demand, run: Any) -> bool:
    roles, groups = authority_of(tenant_id=grant.tenant_id, labels=[grant.owner]).get(
        grant.owner, (frozenset(), frozenset())
    )
    asked = demand.required_role in roles and (not demand.required_group or demand.required_group in groups)
    if Permission.DECIDE not in permissions_of(roles) or not asked:
        return False
    starter_may = demand.starter_may_decide and Tenant.objects.get(id=grant.tenant_id).self_approval
    return starter_may or run.created_by != grant.owner


def grant_use(grant_id: UUID, call: ToolCall) -> bool:
    """Count a use of a grant, in the transaction that sends the call. False where it stands no more: nothing is sent by it.

    The grant stays as it is until the commit, and so does the membership of who gave it (ruling 35).
    """
    used = fetch(GRANT_USE, {"grant": grant_id})
    if not used or not still_may(tenant_id=call.tenant_id, label=used[0][0], permission=Permission.DECIDE):
        return False
    GrantUse.objects.create(tool_call=call, grant_id=grant_id)
    return True


def _audit(actor: Actor, action: str, grant_id: UUID, detail: dict[str, Any]) -> None:
    audit_append(actor=actor, action=action, object_type="grant", object_id=grant_id, detail=detail)
