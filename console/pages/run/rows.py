"""The rows that say how a run stands now, whichever of its events are looked at."""

from dataclasses import dataclass
from functools import cache
from uuid import UUID

from django.db.models import QuerySet

from accounts.statements import Questions, compose
from approvals.models import Wait
from approvals.states import LIVE_WAIT
from checkpoints.models import Head, Obligation
from receipts.models import Attempt, Publication, ReportVersion, ToolCall
from receipts.states import CallStatus, ModelCallStatus
from runs.models import Budget, ControlRequest, Lease, Run
from runs.states import OPEN_CONTROL, ControlKind


@dataclass(frozen=True)
class RunRows:
    """A run as it is now: what is live, open, sent or in doubt, and the newest report version."""

    run: Run
    lease: Lease
    head: Head | None
    budgets: list[Budget]
    obligations: list[Obligation]
    controls: list[ControlRequest]
    waits: list[Wait]
    publications: list[Publication]
    version: ReportVersion | None
    sent: Attempt | None
    unknown: UUID | None

    def control(self, kind: ControlKind) -> ControlRequest | None:
        """The open request of this kind."""
        return next((control for control in self.controls if control.kind == kind), None)


ANY_RUN, ANY_TENANT = UUID(int=0), UUID(int=1)  # they stand for those of the run that is asked about


@cache
def _questions() -> Questions:
    """How a run stands, in the order of `run_rows`."""
    run = Run(id=ANY_RUN, tenant_id=ANY_TENANT)
    waits = Wait.objects.filter(run=run, status__in=LIVE_WAIT).select_related("tool_call").defer("tool_call__args")
    published = Publication.objects.filter(tool_call__in=waits.values("tool_call_id"))
    called, asked = _unanswered(run)
    unknown = ToolCall.objects.filter(tenant=run.tenant_id, run=run, unknown=True, blocking=True).defer("args")
    return compose(
        Head.objects.filter(run=run),
        Budget.objects.filter(run=run).order_by("unit"),
        Obligation.objects.filter(run=run).order_by("promised_at", "id"),
        ControlRequest.objects.filter(run=run, status__in=OPEN_CONTROL).order_by("-accepted_at"),
        waits.order_by("opened_at", "id"),
        published.select_related("report_version"),
        ReportVersion.objects.filter(run=run).order_by("-committed_at", "-version_no")[:1],
        called[:1],
        asked[:1],
        unknown.order_by("-ordinal")[:1],
    )


def run_rows(run: Run) -> RunRows:
    """How a run that `access_run` has given out stands, in one query."""
    found = _questions().ask({ANY_RUN: run.id, ANY_TENANT: run.tenant_id})
    head, budgets, obligations, controls, live, publications, version, tool, model, doubted = found
    return RunRows(
        run=run,
        lease=run.lease,
        head=next(iter(head), None),
        budgets=budgets,
        obligations=obligations,
        controls=controls,
        waits=live,
        publications=publications,
        version=next(iter(version), None),
        sent=next(iter([*tool, *model]), None),
        unknown=doubted[0].id if doubted else None,
    )


def _unanswered(run: Run) -> tuple[QuerySet[Attempt], QuerySet[Attempt]]:
    """The attempts without an outcome yet, the newest first: of tool calls, and of model calls."""
    rows = Attempt.objects.filter(outcome=None).select_related("tool_call", "model_call").defer("tool_call__args")
    rows = rows.order_by("-dispatched_at")
    tried = rows.filter(tool_call__run=run, tool_call__live=True, tool_call__status=CallStatus.DISPATCHED)
    return tried, rows.filter(model_call__run=run, model_call__status=ModelCallStatus.DISPATCHED)
