"""Reads of calls: what was to happen, and what came of it."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from accounts.errors import NotFound
from accounts.selectors import plain_body, proved_body
from accounts.statements import fetch, joined, stored
from accounts.states import Actor, Permission
from receipts.models import ModelCall, Reconciliation, Result, ToolCall
from receipts.statements import UNSENT
from receipts.states import (
    OPEN_TURN,
    UNROUTED_CALL,
    UNSETTLED_CALL,
    CallStatus,
    EffectClass,
    ModelCallStatus,
    can_reconcile,
)
from runs.models import Run


def calls_visible(actor: Actor) -> QuerySet[ToolCall]:
    """The calls of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return ToolCall.objects.none()
    return ToolCall.objects.filter(tenant_id=actor.tenant_id)


# Run by run: the server would rather read all calls there are until it has met enough of the right ones, wherever these are.
_COUNTED = """
(SELECT count(*) FROM (SELECT FROM ({runs}) AS r (id) CROSS JOIN LATERAL (
    SELECT FROM receipts_toolcall c WHERE c.run_id = r.id AND c.status = ANY(%s::text[]) OFFSET 0) AS found LIMIT %s) AS few)"""


def count_calls(runs: QuerySet[Run], *states: Iterable[str], most: int) -> list[int]:
    """How many calls of some runs are in these states, each group of states for itself and counted up to `most`. One query."""
    sql, values = runs.order_by().values("id").query.sql_with_params()
    part = _COUNTED.format(runs=sql)
    asked = [value for group in states for value in (*values, sorted(group), most)]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(part for _ in states)}", asked)
        return list(cursor.fetchone())


def access_call(*, actor: Actor, id: UUID) -> ToolCall:
    """The call with this id in the actor's tenant. Raises NotFound."""
    call = calls_visible(actor).select_related("run__agent_version__agent").filter(id=id).first()
    if call is None:
        raise NotFound
    return call


def call_arguments(call: ToolCall) -> bytes:
    """The stored canonical bytes of a call's arguments. Raises BodyChanged when they were changed in the store."""
    return plain_body(key_id=call.data_key_id, body=call.args)


def result_bytes(result: Result) -> bytes:
    """The stored canonical bytes of a result, for whoever compares their digest. Raises BodyChanged where they can't be opened."""
    return plain_body(key_id=result.data_key_id, body=result.value)


def proved_result(result: Result) -> bytes:
    """The stored canonical bytes of a result, which have its digest. Raises BodyChanged where they have not."""
    return proved_body(key_id=result.data_key_id, body=result.value, sha256=result.digest)


def calls_of(*, ids: Sequence[UUID]) -> dict[UUID, ToolCall]:
    """Calls by id, with their results."""
    rows = ToolCall.objects.filter(id__in=ids).select_related("result", "run")
    return {call.id: call for call in rows}


def calls_unsent(*, ids: Sequence[UUID]) -> dict[UUID, ToolCall]:
    """Those of these calls that have not been sent and are not closed, by id."""
    return unsent_in(fetch(_UNSENT, {"calls": list(ids)}))


_UNSENT = joined(UNSENT, select="SELECT * FROM unsent")


def unsent_in(rows: Iterable[Sequence[Any]]) -> dict[UUID, ToolCall]:
    """The same, by the rows of UNSENT."""
    return {call.id: call for call in stored(ToolCall, rows)}


def call_now(*, id: UUID) -> ToolCall:
    """A call as it is stored now, with its result."""
    return ToolCall.objects.select_related("result").get(id=id)


def call_result(call: ToolCall) -> Result | None:
    """The accepted result of a call, or None."""
    return Result.objects.filter(tool_call_id=call.id).first()


def outcome_counts(*, run_id: UUID) -> dict[str, int]:
    """How many tool calls of a run have a result, and how many tool and model calls have an unknown outcome."""
    calls, turns = ToolCall.objects.filter(run_id=run_id), ModelCall.objects.filter(run_id=run_id)
    return {
        "known_calls": calls.filter(result__isnull=False).count(),
        "unknown_calls": calls.filter(status=CallStatus.UNCERTAIN).count(),
        "unknown_turns": turns.filter(status=ModelCallStatus.UNCERTAIN).count(),
    }


def unsettled_revisions(run_id: UUID) -> frozenset[int]:
    """The revisions at which calls and turns of a run stood that are not settled: unsent, under way, or unknown."""
    calls = ToolCall.objects.filter(run_id=run_id, status__in=UNSETTLED_CALL)
    turns = ModelCall.objects.filter(run_id=run_id, status__in=OPEN_TURN)
    return frozenset(calls.values_list("proposed_revision", flat=True)) | frozenset(
        turns.values_list("at_revision", flat=True)
    )


def blocking_unknown(*, run_id: UUID) -> ToolCall | None:
    """A call that keeps its run held: its outcome is unknown, or evidence speaks against sending it again."""
    unknown = Q(status=CallStatus.UNCERTAIN, blocking=True)
    doubted = Q(status=CallStatus.RETRY_WAIT, contradicted=True)
    return ToolCall.objects.filter(unknown | doubted, run_id=run_id).first()


def unknown_effects(*, run_id: UUID) -> list[UUID]:
    """The calls of a run that may have had an effect, and nobody knows."""
    calls = ToolCall.objects.filter(run_id=run_id, status=CallStatus.UNCERTAIN, blocking=True)
    return list(calls.exclude(effect_class=EffectClass.READ_ONLY).order_by("ordinal").values_list("id", flat=True))


def unsent_calls(*, ids: Sequence[UUID], but: UUID | None = None) -> bool:
    """True while another one of these calls has still to be routed."""
    others = [id for id in ids if id != but]
    if not others:
        return False
    return ToolCall.objects.filter(id__in=others, status__in=UNROUTED_CALL).exists()


def tools_called(*, run_id: UUID) -> list[str]:
    """The tools that a run has called."""
    return sorted(set(ToolCall.objects.filter(run_id=run_id).values_list("tool", flat=True)))


def calls_of_tools(*, run_id: UUID, tools: Sequence[str]) -> list[ToolCall]:
    """The calls of a run to these tools, in order."""
    return list(ToolCall.objects.filter(run_id=run_id, tool__in=tools).order_by("ordinal"))


def word_was_asked(call: ToolCall) -> bool:
    """Whether a person's word on the outcome of a call is awaited, or was given."""
    return can_reconcile(call.status) or Reconciliation.objects.filter(tool_call_id=call.id).exists()


def calls_recent(*, tenant_id: UUID, limit: int) -> list[ToolCall]:
    """The newest calls of a tenant with their runs and agents, the newest first."""
    rows = ToolCall.objects.filter(tenant_id=tenant_id).select_related("run__agent_version__agent")
    return list(rows.order_by("-created_at", "-id")[:limit])
