"""The policy that a worker goes by, and what it says of a call.

A process keeps in mind which version of a tenant is in force, so that no step reads it: what a step sends on its word, it sends
only where that version is still the one in force (`GOVERNED`), and where it is not, nothing is sent and the policy is read again.
"""

from typing import Any
from uuid import UUID

from django.conf import settings

from approvals.policies import Facts, Policy, Ruling
from approvals.selectors import policy_head_open, policy_number, policy_of
from approvals.services import arguments_intact, grant_for
from checkpoints.errors import Unreadable
from receipts.selectors import call_arguments
from receipts.statements import NewCall
from runs.selectors import database_now
from runtime.contracts import Tool
from runtime.registry import tool_of
from runtime.session import Session

IN_FORCE: dict[UUID, int] = {}


def policy_believed(tenant_id: UUID) -> Policy:
    """The version that this process believes to be in force; it is read where it has none in mind.

    The row that says so is made here at the latest: where a dispatch made it, two of a new tenant would wait for each other.
    """
    number = IN_FORCE.get(tenant_id)
    if number is not None:
        return policy_of(tenant_id, number)
    policy_head_open(tenant_id)
    return policy_read(tenant_id)


def policy_read(tenant_id: UUID) -> Policy:
    """The version that is in force now, kept in mind."""
    IN_FORCE[tenant_id] = policy_number(tenant_id)
    return policy_of(tenant_id, IN_FORCE[tenant_id])


def rule_on(session: Session, call: Any) -> Ruling:
    """What the session's policy says of a stored call, and the standing grants where it would ask a person. Raises Unreadable
    where its arguments are not the recorded ones.
    """
    ruling = _rule(session, call, tool_of(session.spec, call.tool), _arguments(session.policy, call))
    return grant_for(call, ruling, run=session.run, agent=session.spec.key, environment=settings.ENVIRONMENT_NAME)


def rule_on_new(session: Session, call: NewCall, tool: Tool) -> Ruling:
    """What the session's policy says of a call that is about to be recorded."""
    return _rule(session, call, tool, call.args)


def _rule(session: Session, call: Any, tool: Tool | None, args: bytes) -> Ruling:
    policy = session.policy
    facts = Facts(
        tool=call.tool,
        tool_known=tool is not None,
        effect_class=call.effect_class,
        local=tool is not None and tool.local,
        args=args,
        agent=session.spec.key,
        environment=settings.ENVIRONMENT_NAME,
        at=database_now() if policy.needs_clock else None,
        forbidden_by=session.snapshot.contract.forbids(tool=call.tool, effect_class=call.effect_class),
    )
    return policy.rule_on(facts)


def _arguments(policy: Policy, call: Any) -> bytes:
    if not policy.rules:
        return b"{}"
    if not arguments_intact(call):
        raise Unreadable("DIGEST_MISMATCH", f"the arguments of call {call.id} are not the recorded ones")
    return call_arguments(call)
