"""Every receipt of a run: what was asked, what was called, and where what it wrote is published."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from accounts.statements import together
from receipts.models import Attempt, ModelCall, Publication, ToolCall
from receipts.selectors.attempts import attempts_of, lost_between, takeovers
from receipts.states import AttemptOutcome
from runs.models import RunInput, RunTransition


@dataclass(frozen=True)
class Ledger:
    """The receipts of a run, each kind in its order. `unanswered`: the attempts that have no outcome, or got no answer. `leases`:
    when the run was taken, and by whom. `inputs`: what was uploaded for it.
    """

    turns: Sequence[ModelCall]
    calls: Sequence[ToolCall]
    publications: Sequence[Publication]
    unanswered: Sequence[Attempt]
    leases: Sequence[RunTransition]
    inputs: Sequence[RunInput]

    @property
    def lost(self) -> list[dict[str, Any]]:
        """Who was lost while it held the run, as `lost_workers` says it."""
        silent = [attempt for attempt in self.unanswered if attempt.outcome == AttemptOutcome.NO_RESPONSE]
        return lost_between(self.leases, silent)


def ledger_of(run_id: UUID) -> Ledger:
    """Every model call, tool call and publication of a run, and what stands beside them, in one query."""
    published = Publication.objects.filter(report_version__run_id=run_id).select_related("report_version__report")
    unanswered = attempts_of(run_id, Q(outcome=None) | Q(outcome=AttemptOutcome.NO_RESPONSE))
    return Ledger(
        *together(
            ModelCall.objects.filter(run_id=run_id).order_by("turn_no"),
            ToolCall.objects.filter(run_id=run_id).defer("args").order_by("ordinal"),
            published.order_by("report_version__committed_at", "id"),
            unanswered.select_related("tool_call", "model_call").defer("tool_call__args").order_by("id"),
            takeovers(run_id),
            RunInput.objects.filter(run_id=run_id).order_by("name"),
        )
    )
