"""A dry run of a policy: what it would say of the newest calls of a tenant, beside what the one in force says of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from approvals.policies import Demand, Facts, Policy, Ruling, read
from approvals.selectors import access_policy, grants_standing, policy_number, policy_of, rulings_of
from approvals.services import arguments_intact, faults_refusal, grant_for
from approvals.states import PolicyOutcome
from receipts.selectors import call_arguments, calls_recent
from runtime.registry import agents, tool_of

CALLS_LIMIT = 1000


@dataclass(frozen=True)
class Rehearsed:
    """One call: what was said of it then ("" where nothing is stored), what the policy in force says, and what the draft says."""

    call_id: UUID
    run_id: UUID
    step: str
    tool: str
    agent: str
    at: datetime
    was: str
    now: Ruling
    draft: Ruling

    @property
    def changes(self) -> bool:
        """Whether the draft says something else, or asks something else of people."""
        return _said(self.now) != _said(self.draft)


@dataclass(frozen=True)
class Rehearsal:
    """A dry run. `number` is that of the policy in force. Calls whose stored arguments were changed are only counted."""

    number: int
    rows: tuple[Rehearsed, ...]
    unreadable: int

    @property
    def changed(self) -> tuple[Rehearsed, ...]:
        """The calls of which the draft says something else."""
        return tuple(row for row in self.rows if row.changes)


def policy_rehearse(*, actor: Actor, text: str, limit: int = 100) -> Rehearsal | Refused:
    """What a text would say of the last `limit` calls of the actor's tenant. It changes nothing and sends nothing.

    Each call is ruled on as of when it was recorded, in this environment, and as if it were the next one: where a standing grant would
    stand now for the person that is asked, it goes by that grant, under the policy in force and under the draft. No use is counted.
    A call that a constraint of its run denied stays denied. Needs the permission to govern. A faulty text is refused with its faults.
    """
    if not actor.may(Permission.GOVERN):
        return NotAllowed({"permission": str(Permission.GOVERN), "actor": actor.name})
    if not 1 <= limit <= CALLS_LIMIT:
        return Invalid({"field": "limit", "reason": f"from 1 to {CALLS_LIMIT}."})
    refused = faults_refusal(text)
    if refused is not None:
        return refused
    return _rehearse(actor.tenant_id, Policy(_DRAFT, read(text).document), limit)


def policy_rehearse_version(*, actor: Actor, number: int, limit: int = 100) -> Rehearsal | Refused:
    """The same for a version that is saved, or the built-in policy (0). Raises NotFound."""
    if number == 0 and actor.may(Permission.GOVERN):
        return _rehearse(actor.tenant_id, policy_of(actor.tenant_id, 0), limit)
    text = access_policy(actor=actor, number=number).text if number else ""
    return policy_rehearse(actor=actor, text=text, limit=limit)


_DRAFT = -1


def _rehearse(tenant_id: UUID, draft: Policy, limit: int) -> Rehearsal:
    number = policy_number(tenant_id)
    in_force = policy_of(tenant_id, number)
    calls = calls_recent(tenant_id=tenant_id, limit=limit)
    stored = rulings_of([call.id for call in calls])
    granted = _Granted(tenant_id)
    rows = []
    for call in calls:
        if not arguments_intact(call):
            continue
        before = stored.get(call.id)
        facts = _facts(call, before)
        rows.append(
            Rehearsed(
                call_id=call.id,
                run_id=call.run_id,
                step=call.step_name,
                tool=call.tool,
                agent=facts.agent,
                at=call.created_at,
                was=before.outcome if before else "",
                now=granted(call, in_force.rule_on(facts), facts),
                draft=granted(call, draft.rule_on(facts), facts),
            )
        )
    return Rehearsal(number, tuple(rows), len(calls) - len(rows))


class _Granted:
    """The standing grants of a dry run, read once, by the tool that a call was bound to."""

    def __init__(self, tenant_id: UUID) -> None:
        self._standing: dict[tuple[str, str, str], list[Any]] = {}
        for grant in grants_standing(tenant_id):
            self._standing.setdefault((grant.agent, grant.tool, grant.tool_hash), []).append(grant)

    def __call__(self, call: Any, ruling: Ruling, facts: Facts) -> Ruling:
        """What is said of a call once the grants are looked at."""
        return grant_for(
            call, ruling, run=call.run, agent=facts.agent, environment=facts.environment, standing=self._for
        )

    def _for(self, call: Any, *, agent: str) -> Sequence[Any]:
        return self._standing.get((agent, call.tool, call.tool_hash), ())


def _facts(call: Any, before: Any) -> Facts:
    key = call.run.agent_version.agent.key
    agent = agents().get(key)
    tool = tool_of(agent.spec, call.tool) if agent else None
    denied_by_run = before is not None and before.outcome == PolicyOutcome.DENY and before.rule.startswith("Rule 0:")
    return Facts(
        tool=call.tool,
        tool_known=True,
        effect_class=call.effect_class,
        local=tool is not None and tool.local,
        args=call_arguments(call),
        agent=key,
        environment=settings.ENVIRONMENT_NAME,
        at=call.created_at,
        forbidden_by=before.rule if denied_by_run else "",
    )


def _said(ruling: Ruling) -> tuple[PolicyOutcome, int, Demand | None]:
    """What a ruling comes to; what it asks of people who approve counts only where it asks them."""
    asked = ruling.demand if ruling.outcome == PolicyOutcome.REQUIRE_APPROVAL else None
    return ruling.outcome, ruling.verdict_people, asked
