"""Records of stops and pauses of a scope, and how far they have got."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Q
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.errors import NotFound
from accounts.statements import count_together, planned_anew
from accounts.states import Actor, Permission
from approvals.models import Wait
from approvals.states import WaitStatus
from console.lists.fields import COUNT_LIMIT
from receipts.models import ToolCall
from receipts.selectors import count_calls, on_the_wire
from receipts.states import UNSENT_CALL, CallStatus
from runs.models import ControlRequest, Run, ScopeControl
from runs.selectors import runs_left, runs_of_scope, scope_name, scope_of
from runs.states import LIVE_RUN, ControlKind, Scope, ScopeKind, ScopeStatus

# The states of a call that has its result.
_WITH_RESULT = (CallStatus.SUCCEEDED, CallStatus.FAILED)
_COUNTED = f"Counted up to {COUNT_LIMIT + 1}, which means more than {COUNT_LIMIT}."


def scope_progress(control: ScopeControl) -> dict[str, int]:
    """How many runs an act has still to reach, and of those that it has reached how many are where; in three queries.

    A stop is over for a run that has ended; a pause for one that goes on, or has ended. `unknown`: calls of these runs that want a
    verdict.
    """
    rows = ControlRequest.objects.filter(scope_control_id=control.id, kind=control.kind)
    counted = {
        status.lower(): Count("id", filter=Q(status=status)) for status in ("ACCEPTED", "ADOPTED", "SETTLED", "MOOT")
    }
    counts: dict[str, int] = rows.aggregate(**counted)
    unknown = ToolCall.objects.filter(run__in=rows.values("run"), status=CallStatus.UNCERTAIN, blocking=True)
    return {
        "left": runs_left(control),
        **counts,
        "unknown": unknown.count() if control.kind == ControlKind.STOP else 0,
    }


@planned_anew()
def scope_forecast(actor: Actor, scope: Scope) -> dict[str, Any]:
    """What an act on a scope would meet now: live runs by state, what is on the wire, what waits, what is not sent yet. In
    three queries, whatever the number of runs. Calls that are not sent, and results, are counted up to one more than `COUNT_LIMIT`.
    Raises NotFound without the permission to read.
    """
    if not actor.may(Permission.READ):
        raise NotFound
    live = runs_of_scope(scope).filter(status__in=sorted(LIVE_RUN))
    spawned = Count("id", filter=Q(parent_run__isnull=False))
    by_status = live.order_by().values_list("status").annotate(runs=Count("id"), spawned=spawned)
    counted = {status: (runs, of_them) for status, runs, of_them in by_status}
    wire, waits, unknown = count_together(
        on_the_wire(runs_of_scope(scope)),
        Wait.objects.filter(tenant=scope.tenant_id, status=WaitStatus.OPEN, run__in=live.order_by().values("id")),
        ToolCall.objects.filter(
            tenant=scope.tenant_id, run__in=live.order_by().values("id"), unknown=True, blocking=True
        ),
    )
    unsent, done = count_calls(live, UNSENT_CALL, _WITH_RESULT, most=COUNT_LIMIT + 1)
    return {
        "scope": str(scope.kind),
        "name": scope_name(scope),
        "live_runs": sum(runs for runs, _ in counted.values()),
        "by_status": {status: runs for status, (runs, _) in counted.items()},
        "children": sum(of_them for _, of_them in counted.values()),
        "on_the_wire": wire,
        "open_waits": waits,
        "unsent_calls": unsent,
        "unknown_calls": unknown,
        "results": done,
    }


def awaited(control: ScopeControl, limit: int = 50) -> list[Run]:
    """The runs that a standing act has reached and that have not settled it yet, the oldest first, with what they wait for."""
    requests = ControlRequest.objects.filter(scope_control_id=control.id, status__in=["ACCEPTED", "ADOPTED"])
    runs = Run.objects.filter(controls__in=requests).select_related("agent_version__agent", "lease")
    return list(runs.order_by("created_at", "id").distinct()[:limit])


class ScopeProgress(serializers.Serializer[Mapping[str, int]]):
    """How many runs an act has still to reach, and how many of the others have accepted, adopted and settled it. MOOT: they ended first. `unknown` are calls of them that want a verdict."""

    left = serializers.IntegerField()
    accepted = serializers.IntegerField()
    adopted = serializers.IntegerField()
    settled = serializers.IntegerField()
    moot = serializers.IntegerField()
    unknown = serializers.IntegerField()


class ScopeForecast(serializers.Serializer[Mapping[str, Any]]):
    """What a stop or a pause of a scope would meet now."""

    scope = serializers.ChoiceField(choices=list(ScopeKind))
    name = serializers.CharField()
    live_runs = serializers.IntegerField()
    by_status = serializers.DictField(child=serializers.IntegerField())
    children = serializers.IntegerField()
    on_the_wire = serializers.IntegerField()
    open_waits = serializers.IntegerField()
    unsent_calls = serializers.IntegerField(help_text=_COUNTED)
    unknown_calls = serializers.IntegerField()
    results = serializers.IntegerField(help_text=_COUNTED)


class ScopeControlRecord(serializers.Serializer[ScopeControl]):
    """A stop or a pause of a tenant, an agent or a thread. It stands until it is lifted. `aborted_at` says since when nobody waits for what was on the wire."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=list(ControlKind))
    scope = serializers.ChoiceField(choices=list(ScopeKind))
    agent = serializers.CharField(source="agent.key", default=None, allow_null=True)
    thread = serializers.UUIDField(source="thread_id", allow_null=True)
    status = serializers.ChoiceField(choices=list(ScopeStatus))
    reason = serializers.CharField()
    by = serializers.CharField(source="requested_by")
    accepted_at = serializers.DateTimeField()
    aborted_at = serializers.DateTimeField(allow_null=True)
    aborted_by = serializers.CharField()
    abort_reason = serializers.CharField()
    lifted_at = serializers.DateTimeField(allow_null=True)
    lifted_by = serializers.CharField()
    lift_reason = serializers.CharField()


class ScopeControlDetail(ScopeControlRecord):
    """An act on a scope, and how far it has got."""

    name = serializers.SerializerMethodField()
    progress = serializers.SerializerMethodField()

    def get_name(self, control: ScopeControl) -> str:
        return scope_name(scope_of(control))

    @extend_schema_field(ScopeProgress)
    def get_progress(self, control: ScopeControl) -> dict[str, int]:
        return scope_progress(control)
