"""The rows that say how a run stands now, whichever of its events are looked at."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from approvals.models import Wait
from approvals.states import LIVE_WAIT
from checkpoints.models import Head, Obligation
from receipts.models import Attempt, Publication, ReportVersion, ToolCall
from receipts.states import CallStatus, ModelCallStatus
from runs.models import Budget, ControlRequest, Lease, Run
from runs.states import OPEN_CONTROL, ControlKind, HoldReason, RunStatus


@dataclass(frozen=True)
class RunRows:
    """A run as it is now. What its status has no use for is not read."""

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


def run_rows(run: Run) -> RunRows:
    """How a run that `access_run` has given out stands: 5 queries, and at most 3 more by its status."""
    waits = _live_waits(run) if run.status == RunStatus.WAITING else []
    return RunRows(
        run=run,
        lease=run.lease,
        head=Head.objects.filter(run=run).first(),
        budgets=list(Budget.objects.filter(run=run).order_by("unit")),
        obligations=list(Obligation.objects.filter(run=run).order_by("promised_at", "id")),
        controls=list(ControlRequest.objects.filter(run=run, status__in=OPEN_CONTROL).order_by("-accepted_at")),
        waits=waits,
        publications=list(_publications(wait.tool_call_id for wait in waits)) if waits else [],
        version=ReportVersion.objects.filter(run=run).order_by("-committed_at", "-version_no").first(),
        sent=_sent(run) if run.status in (RunStatus.RUNNING, RunStatus.STOPPING, RunStatus.QUEUED) else None,
        unknown=_unknown(run) if run.ended_at or run.hold_reason == HoldReason.UNCERTAIN_CALL else None,
    )


def _live_waits(run: Run) -> list[Wait]:
    rows = Wait.objects.filter(run=run, status__in=LIVE_WAIT).select_related("tool_call").defer("tool_call__args")
    return list(rows.order_by("opened_at", "id"))


def _publications(calls: Iterable[UUID]) -> Iterable[Publication]:
    return Publication.objects.filter(tool_call__in=list(calls)).select_related("report_version")


def _sent(run: Run) -> Attempt | None:
    """The newest attempt that has no outcome yet, of a tool call before one of a model call."""
    rows = Attempt.objects.filter(outcome=None).select_related("tool_call", "model_call").defer("tool_call__args")
    rows = rows.order_by("-dispatched_at")
    tried = rows.filter(tool_call__run=run, tool_call__status=CallStatus.DISPATCHED).first()
    return tried or rows.filter(model_call__run=run, model_call__status=ModelCallStatus.DISPATCHED).first()


def _unknown(run: Run) -> UUID | None:
    """The newest call of unknown outcome that blocks the run."""
    rows = ToolCall.objects.filter(run=run, status=CallStatus.UNCERTAIN, blocking=True)
    return rows.order_by("-ordinal").values_list("id", flat=True).first()
