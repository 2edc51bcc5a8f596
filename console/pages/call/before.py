"""The last call like one of unknown outcome, so that what it did is not taken for what this one did."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from console.pages.diff import Difference, difference, json_pieces
from console.pages.stored import stored_arguments
from receipts.models import ToolCall
from runs.models import Run
from runtime.masking import Masks

RUNS = 200  # where it is looked for: the newest runs of the same agent


@dataclass(frozen=True)
class Before:
    """An earlier call of the same step that was sent, and how it differs from this one."""

    call: ToolCall
    difference: Difference

    @property
    def sent_at(self) -> datetime:
        sent: datetime | None = getattr(self.call, "sent_at", None)
        return sent or self.call.created_at


def sent_before(call: ToolCall) -> QuerySet[ToolCall]:
    """The newest earlier call of the same step that was sent, among the newest runs of the same agent."""
    runs = Run.objects.filter(
        tenant_id=call.tenant_id, thread__agent_id=call.run.agent_version.agent_id, created_at__lte=call.created_at
    )
    newest = runs.order_by("-created_at", "-id").values("id")[:RUNS]
    like = ToolCall.objects.filter(run__in=newest, tool=call.tool, step_name=call.step_name, attempts__gt=0)
    return like.filter(created_at__lt=call.created_at).select_related("run").order_by("-created_at", "-id")[:1]


def against(call: ToolCall, before: ToolCall, masks: Masks) -> Before:
    """How a call differs from one before it. `masks`: those of nobody, so that what is marked is masked on both sides, whoever
    looks: equal values have equal digests.
    """
    then, now = stored_arguments(before, masks.of(before)), stored_arguments(call, masks.of(call))
    if then is None or now is None:
        return Before(before, Difference([], 0, 0, 0, 0))
    return Before(before, difference(json_pieces(then.value), json_pieces(now.value)))
