"""What the tables say about one run, in the short form in which the scenarios state it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from approvals.models import Decision, Wait
from checkpoints.models import Checkpoint, Head, Obligation
from receipts.models import Attempt, Effect, ModelCall, Publication, ReportVersion, Result, ToolCall
from runs.models import BudgetEntry, ControlRequest, Lease, Refusal, Run, RunTransition, Wakeup


@dataclass(frozen=True)
class Records:
    """Everything stored about one run. Each property reads anew."""

    run_id: UUID

    @property
    def run(self) -> Run:
        return Run.objects.get(id=self.run_id)

    @property
    def lease(self) -> Lease:
        return Lease.objects.get(run_id=self.run_id)

    @property
    def head(self) -> tuple[int, str]:
        """(revision, phase)."""
        head = Head.objects.get(run_id=self.run_id)
        return head.revision, head.phase

    @property
    def phases(self) -> list[tuple[str, int]]:
        """(phase, fence) of every revision."""
        return list(Checkpoint.objects.filter(run_id=self.run_id).order_by("revision").values_list("phase", "fence"))

    @property
    def transitions(self) -> list[tuple[str, str, int | None]]:
        """(to status, cause, fence) in order."""
        rows = RunTransition.objects.filter(run_id=self.run_id).order_by("id")
        return list(rows.values_list("to_status", "cause", "fence"))

    def call(self, tool: str) -> ToolCall:
        """The one call of a tool."""
        return ToolCall.objects.get(run_id=self.run_id, tool=tool)

    @property
    def statuses(self) -> dict[str, tuple[str, int]]:
        """Tool (and input) to (status, attempts), of every call in order."""
        calls = ToolCall.objects.filter(run_id=self.run_id).order_by("ordinal")
        return {call.step_name: (call.status, call.attempts) for call in calls}

    def tries(self, receipt: ToolCall | ModelCall) -> list[tuple[str | None, int, str]]:
        """(outcome, fence, authorised by) of each attempt."""
        column = "tool_call" if isinstance(receipt, ToolCall) else "model_call"
        tries = Attempt.objects.filter(**{column: receipt}).order_by("attempt_no")
        return list(tries.values_list("outcome", "fence", "authorised_by"))

    @property
    def turns(self) -> list[tuple[str, int]]:
        """(status, attempts) of each model call in order."""
        turns = ModelCall.objects.filter(run_id=self.run_id).order_by("turn_no")
        return list(turns.values_list("status", "attempts"))

    def turn(self, turn_no: int) -> ModelCall:
        return ModelCall.objects.get(run_id=self.run_id, turn_no=turn_no)

    def result(self, call: ToolCall) -> tuple[str, bool, int | None, int | None] | None:
        """(source, ok, attempt, fence) of the accepted result, or None."""
        rows = Result.objects.filter(tool_call=call).values_list("source", "ok", "attempt_no", "fence")
        return rows.first()

    def effects(self, call: ToolCall) -> int:
        return Effect.objects.filter(tool_call=call).count()

    def budget(self, receipt: ToolCall | ModelCall, unit: str = "tool_calls") -> list[tuple[int, str, int]]:
        """(attempt, kind, amount) of every movement for one receipt."""
        rows = BudgetEntry.objects.filter(receipt_id=receipt.id, **{f"{unit}__isnull": False}).order_by("at", "kind")
        return list(rows.values_list("attempt_no", "kind", unit))

    @property
    def reports(self) -> list[tuple[int, str, str]]:
        """(version, channel, publication status) of every publication."""
        rows = Publication.objects.filter(report_version__run_id=self.run_id).order_by("report_version__version_no")
        return list(rows.values_list("report_version__version_no", "channel", "status"))

    def report(self, version: int) -> ReportVersion:
        return ReportVersion.objects.get(run_id=self.run_id, version_no=version)

    @property
    def waits(self) -> list[Wait]:
        return list(Wait.objects.filter(run_id=self.run_id).order_by("opened_at"))

    @property
    def decisions(self) -> list[tuple[str, str]]:
        """(verdict, actor)."""
        return list(Decision.objects.filter(wait__run_id=self.run_id).order_by("at").values_list("verdict", "actor"))

    @property
    def wakeups(self) -> list[tuple[str, str, int | None]]:
        """(cause, status, consumed fence) in order."""
        rows = Wakeup.objects.filter(run_id=self.run_id).order_by("created_at")
        return list(rows.values_list("cause", "status", "consumed_fence"))

    @property
    def refusals(self) -> list[tuple[str, int | None]]:
        """(kind, fence) in order."""
        return list(Refusal.objects.filter(run_id=self.run_id).order_by("id").values_list("kind", "fence"))

    @property
    def obligations(self) -> dict[str, str]:
        """Step name to status."""
        return dict(Obligation.objects.filter(run_id=self.run_id).values_list("step_name", "status"))

    def obligation(self, step_name: str) -> Obligation:
        return Obligation.objects.get(run_id=self.run_id, step_name=step_name)

    @property
    def stop_request(self) -> ControlRequest:
        return ControlRequest.objects.get(run_id=self.run_id, kind="STOP")

    def same(self, *names: str) -> dict[str, Any]:
        """Some of these facts, to compare with the same ones later."""
        return {name: getattr(self, name) for name in names}
