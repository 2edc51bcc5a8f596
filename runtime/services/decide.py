"""Deciding, as every door asks for it: `approval_decide` with what the runtime knows of the tool that is decided about."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from accounts.errors import Refused
from accounts.states import Actor
from approvals.selectors import looked_at
from approvals.services import Answered, Decided, Item, Locked, Seen, Voted, approval_decide, approvals_decide
from approvals.states import DecisionVerdict
from runs.selectors import agent_pinned
from runtime.masking import Masks
from runtime.registry import agents, tool_of
from runtime.tools.registry import definition_hash


class InstalledTools:
    """The tools of this installation, as a decision asks about them (approvals.services.Tools)."""

    def definition(self, run: Any, tool: str) -> str | None:
        """The hash of a tool's definition as the run's agent has it now; "" where it has no such tool, None without the agent."""
        installed = agents().get(agent_pinned(run.agent_version_id).key)
        if installed is None:
            return None
        found = tool_of(installed.spec, tool)
        return definition_hash(found) if found else ""

    def unseen(self, actor: Actor, locked: Locked) -> Sequence[str]:
        """The marked arguments of a wait that this person was never shown: they may not see them, or never asked for the
        wait by itself.
        """
        wait = locked.wait
        mask = Masks(actor, policy=locked.policy).of(wait.tool_call, run=locked.run)
        if not mask.marked:
            return ()
        return mask.paths or (() if looked_at(actor=actor, wait_id=wait.id) else mask.marked)


INSTALLED = InstalledTools()


def wait_decide(
    *, actor: Actor, wait_id: UUID, verdict: DecisionVerdict, seen: Seen, reason: str
) -> Decided | Voted | Refused:
    """Decide one wait, or give one of its votes, with every guard of `approval_decide`. Raises NotFound."""
    return approval_decide(actor=actor, wait_id=wait_id, verdict=verdict, seen=seen, reason=reason, tools=INSTALLED)


def waits_decide(
    *, actor: Actor, items: Sequence[Item], verdict: DecisionVerdict, reason: str
) -> list[Answered] | Refused:
    """Decide several waits, each with every guard of `approval_decide`."""
    return approvals_decide(actor=actor, items=items, verdict=verdict, reason=reason, tools=INSTALLED)
