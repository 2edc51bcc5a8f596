"""What an act on a scope would meet, as lists: what is on the wire, and what waits for a person."""

from django.db.models import Q

from approvals.models import Wait
from receipts.models import Attempt
from runs.selectors import runs_of_scope
from runs.states import LIVE_RUN, Scope

SHOWN = 20  # items of one kind; the counts stay true


def on_the_wire(scope: Scope) -> list[Attempt]:
    """What was sent and is not answered in the live runs of a scope, what is out of time first."""
    live = runs_of_scope(scope).filter(status__in=sorted(LIVE_RUN)).values("id")
    rows = Attempt.objects.filter(Q(tool_call__run__in=live) | Q(model_call__run__in=live), outcome=None)
    rows = rows.select_related("tool_call__run", "model_call__run").defer("tool_call__args")
    return list(rows.order_by("deadline_at", "dispatched_at")[:SHOWN])


def waits_of(scope: Scope) -> list[Wait]:
    """The open waits of the live runs of a scope, what ends first on top."""
    live = runs_of_scope(scope).filter(status__in=sorted(LIVE_RUN)).values("id")
    rows = Wait.objects.filter(run__in=live, status="OPEN").select_related("tool_call", "run")
    return list(rows.defer("tool_call__args").order_by("deadline", "id")[:SHOWN])
