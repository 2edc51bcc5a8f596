"""Reads of what the model was asked, and what it proposed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Prefetch, prefetch_related_objects

from accounts.statements import fetch, stored_rows
from receipts.models import ModelCall, Proposal, ToolCall
from receipts.selectors.calls import call_arguments
from receipts.statements import AUTHORED, OPEN_TURN, SEALED_TURNS, WAITING
from receipts.states import CallStatus, Disposition, ModelCallStatus
from runs.selectors import artifact_bytes, artifacts_bytes


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
    sealed = {"run": run_id, "upto": upto}
    turns = stored_rows(ModelCall, SEALED_TURNS, sealed)
    if not turns:
        return []
    calls = ToolCall.objects.select_related("result")
    proposals = Proposal.objects.order_by("ordinal").prefetch_related(Prefetch("tool_call", queryset=calls))
    prefetch_related_objects(turns, Prefetch("proposals", queryset=proposals))
    bodies = artifacts_bytes(tenant_id=tenant_id, sha256s={str(turn.response_digest) for turn in turns})
    records = [_record(turn, json.loads(bodies[str(turn.response_digest)])) for turn in turns]
    _answer_by_stand_ins(records)
    return records


def _record(turn: ModelCall, said: dict[str, Any]) -> TurnRecord:
    return TurnRecord(turn.turn_no, said["text"], said["proposals"], list(turn.proposals.all()))


def _answer_by_stand_ins(records: Sequence[TurnRecord]) -> None:
    """A proposal whose call a person rejected for another one is answered by what came of that one (T42)."""
    rejected = [
        proposal
        for record in records
        for proposal in record.proposals
        if proposal.tool_call is not None and proposal.tool_call.status == CallStatus.REJECTED
    ]
    newest = stand_ins_of(ids=[proposal.tool_call_id for proposal in rejected if proposal.tool_call_id])
    for proposal in rejected:
        proposal.tool_call = newest.get(proposal.tool_call_id, proposal.tool_call)


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
    sealed = {"run": run_id, "turn": turn_no}
    turns = stored_rows(ModelCall, "run_id = %(run)s AND turn_no = %(turn)s AND status = 'SEALED'", sealed)
    if not turns:
        return None
    prefetch_related_objects(turns, Prefetch("proposals", queryset=proposals))
    return turns[0]


def open_turn(*, run_id: UUID) -> ModelCall | None:
    """The newest model call of a run that has not been sealed and has not failed."""
    turns = stored_rows(ModelCall, OPEN_TURN, {"run": run_id})
    return turns[0] if turns else None


def turns_after(*, run_id: UUID, turn_no: int) -> int:
    """How many turns of a run were sealed after this one."""
    return ModelCall.objects.filter(run_id=run_id, status=ModelCallStatus.SEALED, turn_no__gt=turn_no).count()


def turn_proposals(*, run_id: UUID, turn_no: int) -> list[Proposal] | None:
    """The proposals of a sealed turn in their order, or None where the run has no such turn."""
    turn = ModelCall.objects.filter(run_id=run_id, turn_no=turn_no, status=ModelCallStatus.SEALED).first()
    return None if turn is None else list(turn.proposals.order_by("ordinal"))


def last_turn_sent(*, run_id: UUID) -> int:
    """The newest turn that the model was asked and that is sealed or still out, or 0. What a run is told now comes after."""
    asked = ModelCall.objects.filter(run_id=run_id, status__in=[ModelCallStatus.SEALED, ModelCallStatus.DISPATCHED])
    return asked.aggregate(last=Max("turn_no"))["last"] or 0


def proposals_waiting(*, call_ids: Sequence[UUID]) -> list[tuple[UUID, int, int]]:
    """(call, turn, ordinal) of every proposal that names one of these calls, or the model's call that one stands for."""
    if not call_ids:
        return []
    return [(call_id, turn_no, ordinal) for call_id, turn_no, ordinal in fetch(WAITING, {"calls": list(call_ids)})]


def stand_ins_of(*, ids: Sequence[UUID]) -> dict[UUID | None, ToolCall]:
    """By a model's call that a person has rejected for another one, the newest one that stands for it."""
    if not ids:
        return {}
    rows = ToolCall.objects.filter(instead_of__in=set(ids)).select_related("result").order_by("ordinal")
    return {call.instead_of_id: call for call in rows}


def authored_calls(*, run_id: UUID) -> dict[int, list[ToolCall]]:
    """The calls that people wrote, by the turn of the model's call that each stands for, in order."""
    rows = stored_rows(ToolCall, AUTHORED, {"run": run_id})
    prefetch_related_objects(rows, "result")
    found: dict[int, list[ToolCall]] = {}
    for call in rows:
        found.setdefault(call.turn_no, []).append(call)
    return found


def written_arguments(call: ToolCall) -> dict[str, Any]:
    """What the model, or a person in its place, wrote of a call's arguments, without what its tool filled in."""
    root = call.instead_of_id or call.id
    proposal = (
        Proposal.objects.select_related("model_call")
        .filter(tool_call_id=root)
        .order_by("model_call__created_at", "ordinal")
        .first()
    )
    if proposal is None:
        raise LookupError(f"call {call.id} was proposed by nobody")
    turn = proposal.model_call
    stored = json.loads(artifact_bytes(tenant_id=turn.tenant_id, sha256=str(turn.response_digest)))
    written = stored["proposals"][proposal.ordinal]["arguments"]
    completed = json.loads(call_arguments(call))
    return {name: completed[name] for name in written if name in completed}


def refused_in_the_same_way(*, run_id: UUID, turns: int) -> tuple[str, str] | None:
    """(tool, why) of what the model has proposed in this many turns and was refused in the same words each time, without a
    new call in between; or None (F10).
    """
    proposals = Proposal.objects.filter(model_call__run_id=run_id)
    last_call = proposals.filter(disposition=Disposition.NEW).aggregate(last=Max("model_call__turn_no"))["last"] or 0
    since = proposals.filter(disposition=Disposition.REFUSED, model_call__turn_no__gt=last_call)
    repeated = since.values("tool", "refusal").annotate(turns=Count("model_call", distinct=True))
    found = repeated.filter(turns__gte=turns).order_by("tool", "refusal").first()
    return None if found is None else (found["tool"], found["refusal"])
