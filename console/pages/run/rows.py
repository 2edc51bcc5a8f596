"""The rows behind a run page: a window of what happened, in a fixed number of queries, bodies left where they are."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

from approvals.models import Wait
from checkpoints.models import Checkpoint, Head, Obligation, SaveAttempt
from receipts.models import Attempt, Publication, Reconciliation, ReportVersion
from runs.models import Budget, ControlRequest, Lease, Refusal, Run, RunTransition

WINDOW = 200  # rows of one kind, and events of one page

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class RunRows:
    """A run and its newest rows before `before` (or its newest at all), oldest first within each kind."""

    run: Run
    lease: Lease
    head: Head | None
    budgets: list[Budget]
    obligations: list[Obligation]
    transitions: list[RunTransition]
    checkpoints: list[Checkpoint]
    attempts: list[Attempt]
    waits: list[Wait]
    versions: list[ReportVersion]
    publications: list[Publication]
    controls: list[ControlRequest]
    refusals: list[Refusal]
    lost_saves: list[SaveAttempt]
    verdicts: list[Reconciliation]
    before: datetime | None


def run_rows(run: Run, before: datetime | None = None) -> RunRows:
    """Load the window of a run that `access_run` has given out: 14 queries, whatever the run holds."""
    attempts = Attempt.objects.filter(Q(tool_call__run=run) | Q(model_call__run=run))
    waits = Wait.objects.filter(run=run).select_related("tool_call", "decision").defer("tool_call__args")
    publications = Publication.objects.filter(report_version__run=run).exclude(channel="console")
    verdicts = Reconciliation.objects.filter(tool_call__run=run).select_related("tool_call")
    return RunRows(
        run=run,
        lease=Lease.objects.get(run=run),
        head=Head.objects.filter(run=run).first(),
        budgets=list(Budget.objects.filter(run=run).order_by("unit")),
        obligations=list(Obligation.objects.filter(run=run).order_by("promised_at", "id")),
        transitions=_window(RunTransition.objects.filter(run=run), "at", before),
        checkpoints=_window(Checkpoint.objects.filter(run=run).defer("body"), "created_at", before),
        attempts=_window(
            attempts.select_related("tool_call", "model_call").defer("tool_call__args"), "dispatched_at", before
        ),
        waits=_window(waits, "opened_at", before),
        versions=_window(ReportVersion.objects.filter(run=run), "committed_at", before),
        publications=_window(publications.select_related("report_version").order_by(), "changed_at", before),
        controls=_window(ControlRequest.objects.filter(run=run), "accepted_at", before),
        refusals=_window(Refusal.objects.filter(run=run), "at", before),
        lost_saves=_window(SaveAttempt.objects.filter(run=run, kind=None), "at", before),
        verdicts=_window(verdicts.defer("tool_call__args"), "at", before),
        before=before,
    )


def _window(rows: QuerySet[M], clock: str, before: datetime | None) -> list[M]:
    older = rows.filter(**{f"{clock}__lt": before}) if before else rows
    return list(older.order_by(f"-{clock}", "-pk")[:WINDOW])[::-1]
