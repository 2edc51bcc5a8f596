"""Every receipt of a run: what was asked, what was called, and where what it wrote is published."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from receipts.models import Attempt, ModelCall, Publication, ToolCall
from receipts.states import AttemptOutcome


@dataclass(frozen=True)
class Ledger:
    """The receipts of a run, each kind in its order."""

    turns: Sequence[ModelCall]
    calls: Sequence[ToolCall]
    publications: Sequence[Publication]


def ledger_of(run_id: UUID) -> Ledger:
    """Every model call, tool call and publication of a run."""
    published = Publication.objects.filter(report_version__run_id=run_id)
    return Ledger(
        turns=list(ModelCall.objects.filter(run_id=run_id).order_by("turn_no")),
        calls=list(ToolCall.objects.filter(run_id=run_id).defer("args").order_by("ordinal")),
        publications=list(
            published.select_related("report_version__report").order_by("report_version__committed_at", "id")
        ),
    )


def unanswered_attempts(run_id: UUID) -> int:
    """How many attempts of a run have no outcome, or got no answer."""
    of_run = Q(tool_call__run_id=run_id) | Q(model_call__run_id=run_id)
    unanswered = Q(outcome=None) | Q(outcome=AttemptOutcome.NO_RESPONSE)
    return Attempt.objects.filter(of_run, unanswered).count()
