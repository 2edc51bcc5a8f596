"""What was written about a run on its way, over HTTP. Each list is in the order in which it was written."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from checkpoints.models import Lapse, SaveAttempt, TaskWrite
from console.api.paging import Order, PageQuery
from console.api.parsing import read
from console.api.view import ApiView, operation, paged
from console.records.ledger import (
    LapseRecord,
    RefusalRecord,
    SaveRecord,
    TaskRecord,
    TransitionRecord,
    TurnRecord,
    WakeupRecord,
    turn_rows,
)
from runs.models import Refusal, RunTransition, Wakeup
from runs.selectors import access_run

AS_WRITTEN = Order(("id",), descending=False)


class RunTransitions(ApiView):
    """The moves of a run's status."""

    @operation("runs_transitions", paged(TransitionRecord), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """They form one chain that ends at the status of today."""
        rows = RunTransition.objects.filter(run=access_run(actor=self.actor, id=id))
        return self.page(f"transitions {id}", rows, AS_WRITTEN, read(PageQuery, request.query_params), TransitionRecord)


class RunRefusals(ApiView):
    """What was refused of a run."""

    @operation("runs_refusals", paged(RefusalRecord), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """Writes under a stale fence, saves, resumes, late results and what else was not let through."""
        rows = Refusal.objects.filter(run=access_run(actor=self.actor, id=id))
        return self.page(f"refusals {id}", rows, AS_WRITTEN, read(PageQuery, request.query_params), RefusalRecord)


class RunSaves(ApiView):
    """The saves of a run that were not simply acknowledged."""

    @operation("runs_saves", paged(SaveRecord), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """Refused ones, and those of unknown outcome with what the probe found."""
        rows, order = SaveAttempt.objects.filter(run=access_run(actor=self.actor, id=id)), ("at", "save_id")
        query = read(PageQuery, request.query_params)
        return self.page(f"saves {id}", rows, Order(order, descending=False), query, SaveRecord)


class RunLapses(ApiView):
    """The observations of a run that do not hold any more."""

    @operation("runs_lapses", paged(LapseRecord), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """Each was found past its half-life when the run was about to rest on it."""
        rows, order = Lapse.objects.filter(run=access_run(actor=self.actor, id=id)), ("at", "tool_call_id")
        query = read(PageQuery, request.query_params)
        return self.page(f"lapses {id}", rows, Order(order, descending=False), query, LapseRecord)


class RunTurns(ApiView):
    """The turns of a run."""

    @operation("runs_turns", paged(TurnRecord), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """What was asked of the model and sealed, with each try and each proposal, by digests."""
        rows = turn_rows(access_run(actor=self.actor, id=id))
        query = read(PageQuery, request.query_params)
        return self.page(f"turns {id}", rows, Order(("turn_no",), descending=False), query, TurnRecord)


class RunWakeups(ApiView):
    """The wakeups of a run."""

    @operation("runs_wakeups", paged(WakeupRecord), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """A decision, a deadline, a verdict or a child's end is a row here before anybody is told of it."""
        rows, order = Wakeup.objects.filter(run=access_run(actor=self.actor, id=id)), ("created_at", "id")
        query = read(PageQuery, request.query_params)
        return self.page(f"wakeups {id}", rows, Order(order, descending=False), query, WakeupRecord)


class RunTasks(ApiView):
    """The task writes of a run."""

    @operation("runs_tasks", paged(TaskRecord), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """What calls of a super-step gave while others were still out. They are no revisions."""
        rows = TaskWrite.objects.filter(run=access_run(actor=self.actor, id=id))
        return self.page(f"tasks {id}", rows, AS_WRITTEN, read(PageQuery, request.query_params), TaskRecord)
