"""A standing grant for a tool of an agent, as both are installed here."""

from dataclasses import dataclass

from accounts.errors import NotAllowed, Refused
from accounts.states import Actor, Permission
from approvals.errors import NoSuchTool
from approvals.services import GrantGiven, Scope, grant_give
from receipts.states import EffectClass
from runtime.registry import agents, tool_of
from runtime.services.guards import audited
from runtime.tools.registry import definition_hash


@dataclass(frozen=True)
class GrantRequest:
    """What a person allows in advance: calls of one tool of one agent, where a condition holds, for hours and uses."""

    agent: str
    tool: str
    condition: str = ""
    hours: int = 24
    max_uses: int = 1


def tool_grant(*, actor: Actor, wanted: GrantRequest, reason: str) -> GrantGiven | Refused:
    """Allow a tool in advance, in the definition that it has now. Needs the permission to decide.

    The grant stands for one approval of the giver, wherever policy would ask one person that the giver could be. It does
    not stand where policy asks more, and lapses with its time, its uses, its tool, its revocation, or the giver's role.
    """
    if not actor.may(Permission.DECIDE):
        refused = NotAllowed({"permission": str(Permission.DECIDE), "actor": actor.name})
        return audited(refused, actor, "grant.give", "tenant", actor.tenant_id)
    agent = agents().get(wanted.agent)
    tool = tool_of(agent.spec, wanted.tool) if agent else None
    if agent is None or tool is None:
        known = (
            [one.key for one in agent.spec.tools if one.effect_class != EffectClass.READ_ONLY]
            if agent
            else sorted(agents())
        )
        missing = NoSuchTool({"field": "tool", "agent": wanted.agent, "tool": wanted.tool, "known": ", ".join(known)})
        return audited(missing, actor, "grant.give", "tenant", actor.tenant_id)
    scope = Scope(
        agent=wanted.agent,
        tool=tool.key,
        tool_hash=definition_hash(tool),
        condition=wanted.condition.strip(),
        hours=wanted.hours,
        max_uses=wanted.max_uses,
    )
    return grant_give(actor=actor, scope=scope, reason=reason)
