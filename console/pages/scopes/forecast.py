"""What an act on a scope would meet, as lists: what is on the wire, what waits for a person, and what stands already."""

from dataclasses import dataclass

from accounts.statements import planned_anew, together
from approvals.models import Wait
from receipts.models import Attempt
from receipts.selectors import on_the_wire
from runs.models import Agent, ScopeControl, Thread
from runs.selectors import runs_of_scope, standing_controls_of
from runs.states import LIVE_RUN, Scope

SHOWN = 20  # items of one kind; the counts stay true


@dataclass(frozen=True)
class Met:
    """The rows that an act on a scope meets. `wire`: what was sent and is not answered in its live runs, what is out of time first;
    `waits`: their open waits, what ends first on top; `standing`: what stands of this scope; `agents`: those of the tenant;
    `threads`: the thread that the scope is, if it is one.
    """

    wire: list[Attempt]
    waits: list[Wait]
    standing: list[ScopeControl]
    agents: list[Agent]
    threads: list[Thread]


@planned_anew()
def met_by(scope: Scope) -> Met:
    """What an act on a scope that `access_scope` has given out would meet, in one query."""
    runs = runs_of_scope(scope)
    live, wire = runs.filter(status__in=sorted(LIVE_RUN)), on_the_wire(runs)
    waits = Wait.objects.filter(run__in=live.values("id"), status="OPEN").select_related("tool_call", "run")
    return Met(
        *together(
            wire.select_related("tool_call__run", "model_call__run")
            .defer("tool_call__args")
            .order_by("deadline_at", "dispatched_at")[:SHOWN],
            waits.defer("tool_call__args").order_by("deadline", "id")[:SHOWN],
            standing_controls_of(scope).select_related("agent", "thread__agent", "tenant").order_by("-kind"),
            Agent.objects.filter(tenant_id=scope.tenant_id),
            Thread.objects.filter(id=scope.thread_id) if scope.thread_id else Thread.objects.none(),
        )
    )
