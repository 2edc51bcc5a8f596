"""Reads of what happened. `access_*` is the only way to an object that a user named."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, Max, Prefetch, Q, QuerySet

from accounts.errors import NotFound
from accounts.selectors import plain_body
from accounts.states import Actor, Permission
from receipts.models import (
    Attempt,
    Claim,
    Contradiction,
    Effect,
    ModelCall,
    Proposal,
    Publication,
    Reconciliation,
    Report,
    ReportVersion,
    Result,
    SecondEffect,
    ToolCall,
)
from receipts.states import (
    LIVE_CALL,
    UNSENT_CALL,
    AttemptOutcome,
    CallStatus,
    Disposition,
    EffectClass,
    EvidenceSource,
    ModelCallStatus,
    PublicationStatus,
    Verdict,
)
from runs.models import Refusal, Run, RunTransition
from runs.selectors import artifact_bytes
from runs.states import RefusalKind


def calls_visible(actor: Actor) -> QuerySet[ToolCall]:
    """The calls of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return ToolCall.objects.none()
    return ToolCall.objects.filter(tenant_id=actor.tenant_id)


def access_call(*, actor: Actor, id: UUID) -> ToolCall:
    """The call with this id in the actor's tenant. Raises NotFound."""
    call = calls_visible(actor).select_related("run").filter(id=id).first()
    if call is None:
        raise NotFound
    return call


def access_report(*, actor: Actor, id: UUID) -> Report:
    """The report with this id in the actor's tenant. Raises NotFound."""
    reports = Report.objects.filter(tenant_id=actor.tenant_id) if actor.may(Permission.READ) else Report.objects.none()
    report = reports.select_related("thread").filter(id=id).first()
    if report is None:
        raise NotFound
    return report


def call_arguments(call: ToolCall) -> bytes:
    """The stored canonical bytes of a call's arguments. Raises BodyChanged when they were changed in the store."""
    return plain_body(key_id=call.data_key_id, body=call.args)


def result_bytes(result: Result) -> bytes:
    """The stored canonical bytes of a result."""
    return plain_body(key_id=result.data_key_id, body=result.value)


def report_body(version: ReportVersion) -> str:
    """The Markdown of a report version."""
    return artifact_bytes(tenant_id=version.tenant_id, sha256=version.sha256).decode()


@dataclass(frozen=True)
class TurnRecord:
    """A sealed turn with its proposals and, where a call exists, its state and result."""

    turn_no: int
    text: str
    proposed: Sequence[dict[str, Any]]
    proposals: Sequence[Proposal]


def sealed_turns(*, tenant_id: UUID, run_id: UUID, upto: int | None = None) -> list[TurnRecord]:
    """Every sealed turn of a run in order, for the conversation that the next request is built from; those up to a
    number, where one is given.
    """
    calls = ToolCall.objects.select_related("result")
    proposals = Proposal.objects.order_by("ordinal").prefetch_related(Prefetch("tool_call", queryset=calls))
    turns = ModelCall.objects.filter(run_id=run_id, status="SEALED").order_by("turn_no")
    if upto is not None:
        turns = turns.filter(turn_no__lte=upto)
    records = []
    for turn in turns.prefetch_related(Prefetch("proposals", queryset=proposals)):
        stored = json.loads(artifact_bytes(tenant_id=tenant_id, sha256=str(turn.response_digest)))
        records.append(TurnRecord(turn.turn_no, stored["text"], stored["proposals"], list(turn.proposals.all())))
    return records


def turns_of(*, tenant_id: UUID, run_id: UUID) -> list[tuple[ModelCall, bytes]]:
    """Every sealed turn of a run in order, with its proposals, their calls and results, and its stored bytes."""
    calls = ToolCall.objects.select_related("result")
    proposals = Proposal.objects.order_by("ordinal").prefetch_related(Prefetch("tool_call", queryset=calls))
    turns = ModelCall.objects.filter(run_id=run_id, status=ModelCallStatus.SEALED).order_by("turn_no")
    return [
        (turn, artifact_bytes(tenant_id=tenant_id, sha256=str(turn.response_digest)))
        for turn in turns.prefetch_related(Prefetch("proposals", queryset=proposals))
    ]


def closing_words(*, tenant_id: UUID, run_id: UUID) -> str:
    """The summary with which a run's model ended its work; "" where it did not come to that."""
    turn = ModelCall.objects.filter(run_id=run_id, status=ModelCallStatus.SEALED).order_by("-turn_no").first()
    finish = turn.proposals.filter(disposition=Disposition.FINISH).first() if turn else None
    if turn is None or finish is None:
        return ""
    stored = json.loads(artifact_bytes(tenant_id=tenant_id, sha256=str(turn.response_digest)))
    return str(stored["proposals"][finish.ordinal]["arguments"].get("summary", ""))


def sealed_turn(*, run_id: UUID, turn_no: int) -> ModelCall | None:
    """The sealed turn of a run with this number, with its proposals and their calls; None where it is not sealed."""
    proposals = Proposal.objects.order_by("ordinal").select_related("tool_call")
    turns = ModelCall.objects.filter(run_id=run_id, turn_no=turn_no, status=ModelCallStatus.SEALED)
    return turns.prefetch_related(Prefetch("proposals", queryset=proposals)).first()


def open_turn(*, run_id: UUID) -> ModelCall | None:
    """The newest model call of a run that has not been sealed and has not failed."""
    return (
        ModelCall.objects.filter(run_id=run_id, status__in=["DISPATCHED", "UNCERTAIN", "RETRY_WAIT"])
        .order_by("-turn_no")
        .first()
    )


def calls_of(*, ids: Sequence[UUID]) -> dict[UUID, ToolCall]:
    """Calls by id, with their results."""
    return {call.id: call for call in ToolCall.objects.filter(id__in=ids).select_related("result")}


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


def claimed_calls(*, tenant_id: UUID, lineage_id: UUID) -> list[ToolCall]:
    """Every call of a lineage that has a live claim on its intent, oldest first."""
    claims = Claim.objects.filter(tenant_id=tenant_id, lineage_id=lineage_id, released_at=None)
    return list(ToolCall.objects.filter(claim__in=claims).defer("args").order_by("created_at", "id"))


def reads_done(run_id: UUID) -> list[ToolCall]:
    """The reads of a run that succeeded, in order."""
    reads = ToolCall.objects.filter(run_id=run_id, effect_class="READ_ONLY", status=CallStatus.SUCCEEDED)
    return list(reads.defer("args").order_by("ordinal"))


def turns_after(*, run_id: UUID, turn_no: int) -> int:
    """How many turns of a run were sealed after this one."""
    return ModelCall.objects.filter(run_id=run_id, status=ModelCallStatus.SEALED, turn_no__gt=turn_no).count()


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


def final_verdict(call: ToolCall) -> Reconciliation | None:
    """The verdict on a call's newest attempt that says whether it happened, or None. There is one at most."""
    said = Reconciliation.objects.filter(tool_call=call, seen_attempts=call.attempts)
    return said.exclude(verdict=Verdict.PROCEED_UNKNOWN).first()


def verdicts_on(call_id: UUID) -> int:
    """How many verdicts a call has."""
    return Reconciliation.objects.filter(tool_call_id=call_id).count()


def turn_proposals(*, run_id: UUID, turn_no: int) -> list[Proposal] | None:
    """The proposals of a sealed turn in their order, or None where the run has no such turn."""
    turn = ModelCall.objects.filter(run_id=run_id, turn_no=turn_no, status=ModelCallStatus.SEALED).first()
    return None if turn is None else list(turn.proposals.order_by("ordinal"))


def call_now(*, id: UUID) -> ToolCall:
    """A call as it is stored now, with its result."""
    return ToolCall.objects.select_related("result").get(id=id)


def call_result(call: ToolCall) -> Result | None:
    """The accepted result of a call, or None."""
    return Result.objects.filter(tool_call_id=call.id).first()


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
    rows = list(ToolCall.objects.filter(run_id=run_id).order_by("ordinal"))
    unknown = [row for row in rows if row.status == CallStatus.UNCERTAIN and not row.blocking]
    return RunKeys(
        live={row.idempotency_key: row.id for row in rows if row.status in LIVE_CALL and row not in unknown},
        given_up=frozenset(row.idempotency_key for row in unknown),
        ordinal=max((row.ordinal for row in rows), default=0),
        granted=_granted_intents(run_id),
        carried=_carried_reads(set(results) - {row.id for row in rows}),
    )


def _granted_intents(run_id: UUID) -> frozenset[str]:
    lineage = Run.objects.filter(id=run_id).values("lineage_id")
    return frozenset(SecondEffect.objects.filter(lineage_id__in=lineage).values_list("intent_key", flat=True))


def _carried_reads(ids: set[UUID]) -> dict[str, UUID]:
    if not ids:
        return {}
    reads = ToolCall.objects.filter(id__in=ids, effect_class="READ_ONLY", status=CallStatus.SUCCEEDED)
    return dict(reads.order_by("created_at").values_list("intent_key", "id"))


def outcome_counts(*, run_id: UUID) -> dict[str, int]:
    """How many tool calls of a run have a result, and how many tool and model calls have an unknown outcome."""
    calls, turns = ToolCall.objects.filter(run_id=run_id), ModelCall.objects.filter(run_id=run_id)
    return {
        "known_calls": calls.filter(result__isnull=False).count(),
        "unknown_calls": calls.filter(status=CallStatus.UNCERTAIN).count(),
        "unknown_turns": turns.filter(status=ModelCallStatus.UNCERTAIN).count(),
    }


def published_reports(*, run_id: UUID) -> list[dict[str, Any]]:
    """The report versions that a run has published, and where."""
    published = Publication.objects.filter(report_version__run_id=run_id, status=PublicationStatus.PUBLISHED)
    rows = published.order_by("report_version__version_no", "channel")
    named = rows.values("channel", slug=F("report_version__report__slug"), version=F("report_version__version_no"))
    return [dict(row) for row in named]


def run_report_versions(*, run_id: UUID) -> frozenset[UUID]:
    """The ids of the report versions that a run has written."""
    return frozenset(ReportVersion.objects.filter(run_id=run_id).values_list("id", flat=True))


def last_turn_sent(*, run_id: UUID) -> int:
    """The newest turn that the model was asked and that is sealed or still out, or 0. What a run is told now comes after."""
    asked = ModelCall.objects.filter(run_id=run_id, status__in=[ModelCallStatus.SEALED, ModelCallStatus.DISPATCHED])
    return asked.aggregate(last=Max("turn_no"))["last"] or 0


def blocking_unknown(*, run_id: UUID) -> ToolCall | None:
    """A call that keeps its run held: its outcome is unknown, or evidence speaks against sending it again."""
    unknown = Q(status=CallStatus.UNCERTAIN, blocking=True)
    doubted = Q(status=CallStatus.RETRY_WAIT, contradicted=True)
    return ToolCall.objects.filter(unknown | doubted, run_id=run_id).first()


def open_attempts(*, run_id: UUID, before_fence: int) -> list[Attempt]:
    """Attempts without an outcome that were sent under an older fence."""
    tool = Attempt.objects.filter(tool_call__run_id=run_id, outcome=None, fence__lt=before_fence)
    model = Attempt.objects.filter(model_call__run_id=run_id, outcome=None, fence__lt=before_fence)
    return [*tool.select_related("tool_call"), *model.select_related("model_call")]


def lost_workers(*, run_id: UUID) -> list[dict[str, Any]]:
    """Who was lost while it held a run, as its takeovers say: {worker, fence, taken_over_at, sending}, in order.

    `sending` is what it had sent last and heard nothing of: a step name, a turn, or null.
    """
    leases = list(RunTransition.objects.filter(run_id=run_id, cause__in=["ACQUIRED", "TAKEOVER"]).order_by("id"))
    lost = Attempt.objects.filter(Q(tool_call__run_id=run_id) | Q(model_call__run_id=run_id))
    sent = list(
        lost.filter(outcome=AttemptOutcome.NO_RESPONSE).select_related("tool_call", "model_call").order_by("id")
    )
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


def proposals_waiting(*, call_ids: Sequence[UUID]) -> list[tuple[UUID, int, int]]:
    """(call, turn, ordinal) of every proposal that names one of these calls."""
    rows = Proposal.objects.filter(tool_call_id__in=call_ids).select_related("model_call").order_by("id")
    return [(row.tool_call_id, row.model_call.turn_no, row.ordinal) for row in rows if row.tool_call_id]


def unsent_calls(*, ids: Sequence[UUID], but: UUID | None = None) -> bool:
    """True while another one of these calls has still to be routed."""
    others = [id for id in ids if id != but]
    if not others:
        return False
    return ToolCall.objects.filter(id__in=others, status__in=["PROPOSED", "AWAITING_APPROVAL"]).exists()


def accepted_outcome(call: ToolCall, attempt_no: int) -> Verdict | None:
    """What was accepted about whether one attempt of a call with an effect happened: EXECUTED, NOT_EXECUTED, or None.

    A verdict speaks of all attempts that it has seen. EXECUTED says of one attempt that it happened only where there was
    no other one; a stored failure says that no attempt happened.
    """
    if call.effect_class == EffectClass.READ_ONLY:
        return None
    final = Reconciliation.objects.filter(tool_call=call, seen_attempts__gte=attempt_no)
    verdict = final.exclude(verdict=Verdict.PROCEED_UNKNOWN).order_by("seen_attempts").first()
    if verdict is not None and (verdict.verdict == Verdict.NOT_EXECUTED or verdict.seen_attempts == 1):
        return Verdict(verdict.verdict)
    result = call_result(call)
    return Verdict.NOT_EXECUTED if verdict is None and result is not None and not result.ok else None


def late_answers(call: ToolCall) -> list[Refusal]:
    """Answers that came after their worker had lost its lease: evidence that was not accepted (T29), the oldest first."""
    late = Refusal.objects.filter(run_id=call.run_id, subject_id=call.id, kind=RefusalKind.LATE_RESULT)
    return list(late.order_by("id"))


def contradictions_visible(actor: Actor) -> QuerySet[Contradiction]:
    """The flags of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Contradiction.objects.none()
    return Contradiction.objects.filter(tenant_id=actor.tenant_id)


def access_contradiction(*, actor: Actor, id: UUID) -> Contradiction:
    """The flag with this id in the actor's tenant. Raises NotFound."""
    flag = contradictions_visible(actor).select_related("tool_call__run").filter(id=id).first()
    if flag is None:
        raise NotFound
    return flag


def contradiction_now(id: UUID) -> Contradiction:
    """A flag as it is stored now, for an act that has locked its call."""
    return Contradiction.objects.get(id=id)


def doubt_answered(call: ToolCall, source: EvidenceSource) -> bool:
    """Whether a person has already closed a flag of this source about the newest attempt: it is not raised again."""
    flags = Contradiction.objects.filter(tool_call=call, attempt_no=call.attempts, source=source)
    return flags.filter(closed_at__isnull=False).exists()


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


def journal_entry(call: ToolCall) -> Effect | None:
    """The row of the effect journal under a call's key. It is committed with what the call did, so without it nothing was
    done; only an effect on this database can be looked up so.
    """
    return Effect.objects.filter(idempotency_key=call.idempotency_key).first()


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


def last_verdict(call: ToolCall) -> Reconciliation | None:
    """The newest verdict on a call."""
    return Reconciliation.objects.filter(tool_call=call).order_by("-at").first()
