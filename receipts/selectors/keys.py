"""What has been done or claimed in a run and its lineage, by key."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from accounts.statements import gather, gathered, together
from receipts.models import Claim, ToolCall
from receipts.statements import GRANTED, KEYS
from receipts.states import LIVE_CALL, UNSENT_CALL, CallStatus, EffectClass
from runs.models import Run


def lineage_calls(*, run_id: UUID, ids: Sequence[UUID]) -> dict[UUID, str | None]:
    """Of these calls, those of the run's lineage, each with the digest of its stored result or None."""
    lineage = Run.objects.filter(id=run_id).values("lineage_id")
    rows = ToolCall.objects.filter(id__in=ids, run__lineage_id__in=lineage)
    return dict(rows.values_list("id", "result__digest"))


def calls_in_lineage(*, ids: Sequence[UUID], lineage_id: UUID) -> dict[UUID, ToolCall]:
    """Those of these calls that a run of the lineage made, by id, with their results."""
    calls = ToolCall.objects.filter(id__in=ids, run__lineage_id=lineage_id).select_related("result")
    return {call.id: call for call in calls}


def lineage_claims(*, tenant_id: UUID, lineage_id: UUID, intents: Sequence[str]) -> dict[str, ToolCall]:
    """By intent key, the call of a lineage that has the live claim on it (ruling 25)."""
    claims = Claim.objects.filter(
        tenant_id=tenant_id, lineage_id=lineage_id, intent_key__in=intents, released_at=None
    ).select_related("tool_call")
    return {claim.intent_key: claim.tool_call for claim in claims}


def calls_behind(run: Run, *, ids: Sequence[UUID]) -> tuple[dict[UUID, ToolCall], list[ToolCall], list[ToolCall]]:
    """What another run would meet that begins at a revision of this one which refers to the results of these calls, in one query:
    those of them that a run of the lineage made, by id and with their results; every call of the lineage that has a live claim on
    its intent, oldest first; and the reads of this run that succeeded, in order.
    """
    claims = Claim.objects.filter(tenant_id=run.tenant_id, lineage_id=run.lineage_id, released_at=None)
    reads = ToolCall.objects.filter(run=run, effect_class=EffectClass.READ_ONLY, status=CallStatus.SUCCEEDED)
    kept, claimed, read = together(
        ToolCall.objects.filter(id__in=ids, run__lineage_id=run.lineage_id).select_related("result"),
        ToolCall.objects.filter(claim__in=claims).defer("args").order_by("created_at", "id"),
        reads.defer("args").order_by("ordinal"),
    )
    return {call.id: call for call in kept}, claimed, read


def runs_held_by_lineage(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(run, call) of runs that are held by a call of another run of their lineage which holds them no longer (ruling 34)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.id, o.id FROM runs_run r CROSS JOIN LATERAL ("
            "  SELECT f.subject_id FROM runs_refusal f WHERE f.run_id = r.id AND f.kind = 'ANCESTOR_INTENT' "
            "  ORDER BY f.id DESC LIMIT 1) refused JOIN receipts_toolcall o ON o.id = refused.subject_id "
            "WHERE r.status = 'HELD' AND r.hold_reason = 'UNCERTAIN_CALL' "
            "AND NOT (o.status = ANY(%s) OR (o.status = 'UNCERTAIN' AND o.blocking)) "
            "AND NOT EXISTS (SELECT FROM receipts_toolcall u WHERE u.run_id = r.id AND u.status = 'UNCERTAIN' "
            "                AND u.blocking) LIMIT %s",
            [[*sorted(UNSENT_CALL), "DISPATCHED"], limit],
        )
        return [(run_id, call_id) for run_id, call_id in cursor.fetchall()]


@dataclass
class RunKeys:
    """The keys of a run's calls, and the number of the last call.

    `live`: the calls that were sent, or may still be sent (ruling 6). `given_up`: those of unknown outcome that the run
    went on without; they are refused to the model (ruling 33). `carried`: by intent key, what the run's source has read.
    `granted`: the intents of which a person wants a second effect.
    """

    live: dict[str, UUID]
    given_up: frozenset[str]
    ordinal: int
    carried: dict[str, UUID] = field(default_factory=dict)
    granted: frozenset[str] = frozenset()


def run_keys(*, run_id: UUID, results: Sequence[UUID] = ()) -> RunKeys:
    """The keys of a run as they are stored now. `results`: the calls whose results its snapshot refers to."""
    found = gather(_RUN_KEYS, {"run": run_id})
    return keys_of([Keyed(*row) for row in found["keys"]], found["granted"], results=results)


_RUN_KEYS = gathered(KEYS, GRANTED, of=("keys", "granted"))


class Keyed(NamedTuple):
    """What counts of a call for the keys of its run."""

    id: UUID
    key: str
    status: str
    blocking: bool
    ordinal: int


def keys_of(calls: Sequence[Keyed], granted: Iterable[Sequence[str]], *, results: Sequence[UUID]) -> RunKeys:
    """The same, by the calls of a run and the rows of GRANTED."""
    unknown = [call for call in calls if call.status == CallStatus.UNCERTAIN and not call.blocking]
    return RunKeys(
        live={call.key: call.id for call in calls if call.status in LIVE_CALL and call not in unknown},
        given_up=frozenset(call.key for call in unknown),
        ordinal=max((call.ordinal for call in calls), default=0),
        granted=frozenset(intent for (intent,) in granted),
        carried=_carried_reads(set(results) - {call.id for call in calls}),
    )


def keys_of_calls(calls: Iterable[ToolCall], granted: Iterable[Sequence[str]], *, results: Sequence[UUID]) -> RunKeys:
    """The same, where the calls have been read whole."""
    keyed = [Keyed(call.id, call.idempotency_key, call.status, call.blocking, call.ordinal) for call in calls]
    return keys_of(sorted(keyed, key=lambda call: call.ordinal), granted, results=results)


def _carried_reads(ids: set[UUID]) -> dict[str, UUID]:
    if not ids:
        return {}
    reads = ToolCall.objects.filter(id__in=ids, effect_class="READ_ONLY", status=CallStatus.SUCCEEDED)
    return dict(reads.order_by("created_at").values_list("intent_key", "id"))
