"""What was written about a run on its way, over HTTP. Each list is in the order in which it was written."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from console.api.paging import Order, PageQuery
from console.api.parsing import read
from console.api.view import ApiView, operation, paged
from console.records.ledger import LAPSES, REFUSALS, SAVES, TASKS, TRANSITIONS, TURNS, WAKEUPS, RunList
from runs.selectors import access_run


class _Ledger(ApiView):
    """A list of one run."""

    def listed(self, request: Request, id: UUID, name: str, wanted: RunList) -> Response:
        """One page of it. `name` binds a cursor to this list."""
        rows = wanted.rows(access_run(actor=self.actor, id=id))
        order = Order(wanted.order, descending=False)
        return self.page(f"{name} {id}", rows, order, read(PageQuery, request.query_params), wanted.record)


class RunTransitions(_Ledger):
    """The moves of a run's status."""

    @operation("runs_transitions", paged(TRANSITIONS.record), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """They form one chain that ends at the status of today."""
        return self.listed(request, id, "transitions", TRANSITIONS)


class RunRefusals(_Ledger):
    """What was refused of a run."""

    @operation("runs_refusals", paged(REFUSALS.record), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """Writes under a stale fence, saves, resumes, late results and what else was not let through."""
        return self.listed(request, id, "refusals", REFUSALS)


class RunSaves(_Ledger):
    """The saves of a run that were not simply acknowledged."""

    @operation("runs_saves", paged(SAVES.record), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """Refused ones, and those of unknown outcome with what the probe found."""
        return self.listed(request, id, "saves", SAVES)


class RunLapses(_Ledger):
    """The observations of a run that do not hold any more."""

    @operation("runs_lapses", paged(LAPSES.record), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """Each was found past its half-life when the run was about to rest on it."""
        return self.listed(request, id, "lapses", LAPSES)


class RunTurns(_Ledger):
    """The turns of a run."""

    @operation("runs_turns", paged(TURNS.record), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """What was asked of the model and sealed, with each try and each proposal, by digests."""
        return self.listed(request, id, "turns", TURNS)


class RunWakeups(_Ledger):
    """The wakeups of a run."""

    @operation("runs_wakeups", paged(WAKEUPS.record), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """A decision, a deadline, a verdict or a child's end is a row here before anybody is told of it."""
        return self.listed(request, id, "wakeups", WAKEUPS)


class RunTasks(_Ledger):
    """The task writes of a run."""

    @operation("runs_tasks", paged(TASKS.record), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """What calls of a super-step gave while others were still out. They are no revisions."""
        return self.listed(request, id, "tasks", TASKS)
