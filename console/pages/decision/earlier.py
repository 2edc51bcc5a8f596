"""What people have decided before on calls of the same tool: what this call is held against."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import QuerySet

from approvals.models import Wait
from approvals.states import DecisionVerdict, WaitKind
from console.pages.decision.alike import Values, short_values
from console.pages.stored import stored_arguments
from receipts.models import ToolCall
from runs.models import Run
from runtime.masking import Masks

RUNS = 200  # where earlier calls are looked for: the newest runs of the same agent by then, and the run itself
NEAR = 1_000  # waits of these runs; the limit keeps the server from beginning with all decisions that people have made
CALLS = 100  # the newest of them


@dataclass(frozen=True)
class Earlier:
    """An earlier call of the same tool that was decided, and how. `arguments` is what may be shown of them to anybody."""

    call: ToolCall
    approved: bool
    actor: str
    reason: str
    at: datetime
    arguments: Any

    @cached_property
    def values(self) -> Values:
        return short_values(self.arguments)


def asked_before(wait: Wait) -> QuerySet[Wait]:
    """The earlier waits on calls of the same tool that people have decided, the newest first."""
    agent = wait.run.agent_version.agent_id
    runs = Run.objects.filter(tenant_id=wait.tenant_id, thread__agent_id=agent, created_at__lt=wait.opened_at)
    newest = Run.objects.filter(id__in=runs.order_by("-created_at", "-id").values("id")[:RUNS]).values("id")
    near = Wait.objects.filter(
        run__in=newest.union(Run.objects.filter(id=wait.run_id).values("id")),
        kind=WaitKind.APPROVAL,
        tool_call__tool=wait.tool_call.tool,
        opened_at__lt=wait.opened_at,
    ).exclude(id=wait.id)
    asked = Wait.objects.filter(
        id__in=near.order_by("-opened_at").values("id")[:NEAR], decision__actor__startswith="person:"
    )
    found = asked.select_related("tool_call__run__agent_version", "decision").defer(
        "tool_call__run__agent_version__manifest"
    )
    return found.order_by("-opened_at")[:CALLS]


def earlier_of(asked: Sequence[Wait], masks: Masks) -> list[Earlier]:
    """The calls of these waits and what was decided. `masks`: those of nobody. One whose bytes can't be read is left out."""
    found = (_earlier(one, masks) for one in asked)
    return [one for one in found if one is not None]


def _earlier(wait: Wait, masks: Masks) -> Earlier | None:
    call, said = wait.tool_call, wait.decision
    stored = stored_arguments(call, masks.of(call))
    if stored is None or not stored.intact:
        return None
    approved = said.verdict == DecisionVerdict.APPROVE
    return Earlier(call, approved, said.actor, said.reason, said.at, stored.value)


def approved_in(earlier: Sequence[Earlier]) -> list[Earlier]:
    """Those that people have approved, the newest first; each call once."""
    found = {one.call.id: one for one in reversed(earlier) if one.approved}
    return sorted(found.values(), key=lambda one: one.at, reverse=True)
