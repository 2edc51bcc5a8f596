"""Reads of what was sent, when, and by whom."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Max, Q, QuerySet

from accounts.statements import fetch, joined, together
from receipts.models import Attempt, ModelCall, Reconciliation, ToolCall
from receipts.statements import UNANSWERED
from receipts.states import AttemptOutcome, CallStatus, ModelCallStatus, Verdict
from runs.models import Run, RunTransition
from runs.states import LIVE_RUN, RunStatus

_ANY_OPEN = joined(UNANSWERED, select="SELECT 1 FROM unanswered LIMIT 1")

_UNTIL = "SELECT extract(epoch FROM %(last)s::timestamptz - clock_timestamp())::float8"


def open_attempts(*, run_id: UUID, before_fence: int) -> list[Attempt]:
    """Attempts without an outcome that were sent under an older fence."""
    if not fetch(_ANY_OPEN, {"run": run_id, "fence": before_fence}):
        return []
    tool = Attempt.objects.filter(tool_call__run_id=run_id, outcome=None, fence__lt=before_fence)
    model = Attempt.objects.filter(model_call__run_id=run_id, outcome=None, fence__lt=before_fence)
    return [*tool.select_related("tool_call"), *model.select_related("model_call")]


def attempts_of(run_id: UUID, which: Q) -> QuerySet[Attempt]:
    """Those attempts of a run of which this is so. An attempt does not name its run, and a condition on its call or its turn would
    read the attempts of all runs; so calls and turns are asked for one after the other.
    """
    called = Attempt.objects.filter(which, tool_call__run=run_id).values("pk")
    asked = Attempt.objects.filter(which, model_call__run=run_id).values("pk")
    return Attempt.objects.filter(pk__in=called.union(asked, all=True))


def on_the_wire(runs: QuerySet[Run]) -> QuerySet[Attempt]:
    """What was sent for some runs and is not answered yet: an attempt is open exactly while its receipt is dispatched, and a run
    that waits or is over has none.
    """
    moving = runs.filter(status__in=sorted(LIVE_RUN - {RunStatus.WAITING})).order_by().values("id")
    called = ToolCall.objects.filter(run__in=moving, live=True, status=CallStatus.DISPATCHED).values("id")
    asked = ModelCall.objects.filter(run__in=moving, status=ModelCallStatus.DISPATCHED).values("id")
    sent = Attempt.objects.filter(tool_call__in=called, outcome=None).values("pk")
    turns = Attempt.objects.filter(model_call__in=asked, outcome=None).values("pk")
    return Attempt.objects.filter(pk__in=sent.union(turns, all=True))


def lost_workers(*, run_id: UUID) -> list[dict[str, Any]]:
    """Who was lost while it held a run, as its takeovers say: {worker, fence, taken_over_at, sending}, in order.

    `sending` is what it had sent last and heard nothing of: a step name, a turn, or null.
    """
    lost = attempts_of(run_id, Q(outcome=AttemptOutcome.NO_RESPONSE)).select_related("tool_call", "model_call")
    leases, sent = together(takeovers(run_id), lost.defer("tool_call__args").order_by("id"))
    return lost_between(leases, sent)


def takeovers(run_id: UUID) -> QuerySet[RunTransition]:
    """When the lease of a run was taken, and by whom, in order."""
    return RunTransition.objects.filter(run_id=run_id, cause__in=["ACQUIRED", "TAKEOVER"]).order_by("id")


def lost_between(leases: Sequence[RunTransition], sent: Sequence[Attempt]) -> list[dict[str, Any]]:
    """The same, by the takeovers of a run and its attempts that got no answer, each in order."""
    return [
        {
            "worker": before.actor.partition(":")[2],
            "fence": before.fence,
            "taken_over_at": taken.at.isoformat(),
            "sending": _last_sent(sent, before.fence or 0, taken.fence or 0),
        }
        for before, taken in pairwise(leases)
        if taken.cause == "TAKEOVER"
    ]


def _last_sent(attempts: Sequence[Attempt], first: int, beyond: int) -> str | None:
    found = [attempt for attempt in attempts if first <= attempt.fence < beyond]
    if not found:
        return None
    call, turn = found[-1].tool_call, found[-1].model_call
    return call.step_name if call else f"turn {turn.turn_no}" if turn else None


def seconds_until(moments: Sequence[datetime]) -> float:
    """How long it is, by the database's clock, until the last of these moments has passed; 0 where all have."""
    if not moments:
        return 0.0
    ((seconds,),) = fetch(_UNTIL, {"last": max(moments)})
    return max(0.0, float(seconds))


def tried_in_doubt(call: ToolCall) -> bool:
    """Whether some attempt of a call gave no answer and no verdict speaks of it: it may have happened."""
    said = Reconciliation.objects.filter(tool_call=call).exclude(verdict=Verdict.PROCEED_UNKNOWN)
    seen = said.aggregate(last=Max("seen_attempts"))["last"] or 0
    lost = Attempt.objects.filter(tool_call=call, outcome=AttemptOutcome.NO_RESPONSE, attempt_no__gt=seen)
    return lost.exists()


def key_still_known(call: ToolCall, *, window_seconds: float, margin_seconds: float) -> bool:
    """Whether the other side still knows the key of every attempt in doubt, by the database's clock (T04).

    In doubt are attempts without an answer that no verdict speaks of. The window runs from the first of them; the margin
    is the time that another try may take.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(bool_and(a.dispatched_at + %s * interval '1 second' "
            "> clock_timestamp() + %s * interval '1 second'), true) "
            "FROM receipts_attempt a WHERE a.tool_call_id = %s AND a.outcome = 'NO_RESPONSE' AND a.attempt_no > "
            "(SELECT coalesce(max(r.seen_attempts), 0) FROM receipts_reconciliation r "
            "WHERE r.tool_call_id = a.tool_call_id AND r.verdict <> 'PROCEED_UNKNOWN')",
            [window_seconds, margin_seconds, call.id],
        )
        return bool(cursor.fetchone()[0])


def seconds_under_way(call: ToolCall, *, limit: float) -> float:
    """For how many seconds the newest attempt without an answer may still be carried out, by the database's clock: `limit`,
    the time that one attempt has, counted from its dispatch. 0.0 when that is over, or every attempt has an answer.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(max(greatest(0, extract(epoch FROM "
            "a.dispatched_at + %s * interval '1 second' - clock_timestamp()))), 0) "
            "FROM receipts_attempt a WHERE a.tool_call_id = %s AND a.outcome = 'NO_RESPONSE'",
            [limit, call.id],
        )
        return float(cursor.fetchone()[0])


def observed_before_half_life(half_lives: Mapping[UUID, float]) -> dict[UUID, datetime]:
    """Of these calls with their half-lives in seconds: those older than that by the database's clock, and when each was
    observed. An observation is as old as the attempt that made it, counted from its dispatch.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.tool_call_id, coalesce(a.dispatched_at, r.at) "
            "FROM unnest(%s::uuid[], %s::double precision[]) AS h(call, seconds) "
            "JOIN receipts_result r ON r.tool_call_id = h.call LEFT JOIN receipts_attempt a "
            "ON a.tool_call_id = h.call AND a.attempt_no = r.attempt_no "
            "WHERE coalesce(a.dispatched_at, r.at) + h.seconds * interval '1 second' <= clock_timestamp() "
            "ORDER BY 2, 1",
            [list(half_lives), list(half_lives.values())],
        )
        return dict(cursor.fetchall())
