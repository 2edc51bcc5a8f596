"""Reads of what the model was asked, and what it proposed."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Prefetch, Q, prefetch_related_objects

from accounts.selectors import proved_body
from accounts.statements import Gathered, fetch, gather, gathered, stored, stored_rows, together
from receipts.models import ModelCall, Proposal, Result, ToolCall
from receipts.selectors.calls import call_arguments
from receipts.statements import OPEN_TURN, STORY, TOLD, WAITING
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
    story = story_of(gather(_STORY, {"run": run_id, "last_turn": upto}), run_id=run_id)
    if any(turn.tenant_id != tenant_id for turn in story.turns):
        raise LookupError(f"run {run_id} is of another tenant")
    return story.sealed


_STORY = gathered(*STORY, of=TOLD)


@dataclass(frozen=True)
class Story:
    """What was asked and said in a run: its turns, the sealed ones with what became of each proposal, and its own calls by
    id with their results.
    """

    turns: Sequence[ModelCall]
    sealed: list[TurnRecord]
    calls: Mapping[UUID, ToolCall]


def story_of(found: Gathered, *, run_id: UUID) -> Story:
    """The story of a run by the rows of STORY. Raises BodyChanged."""
    results = {result.tool_call_id: result for result in stored(Result, found["gave"])}
    calls = {call.id: call for call in stored(ToolCall, found["called"])}
    for call in calls.values():
        ToolCall.result.related.set_cached_value(call, results.get(call.id))
    turns = stored(ModelCall, [columns for _, _, *columns in found["turned"]])
    proposals: dict[UUID, list[Proposal]] = {turn.id: [] for turn in turns}
    for proposal in stored(Proposal, found["put"]):
        if proposal.tool_call_id is not None:
            proposal.tool_call = calls[proposal.tool_call_id]
        proposals.get(proposal.model_call_id, []).append(proposal)
    sealed = [
        _record(turn, key_id, body, proposals[turn.id])
        for turn, (key_id, body, *_) in zip(turns, found["turned"], strict=True)
        if turn.status == ModelCallStatus.SEALED
    ]
    _answer_by_stand_ins(sealed, calls.values())
    return Story(turns, sealed, {id: call for id, call in calls.items() if call.run_id == run_id})


def _record(turn: ModelCall, key_id: UUID, body: bytes, proposals: Sequence[Proposal]) -> TurnRecord:
    said = json.loads(proved_body(key_id=key_id, body=body, sha256=str(turn.response_digest)))
    return TurnRecord(turn.turn_no, said["text"], said["proposals"], proposals)


def _answer_by_stand_ins(records: Sequence[TurnRecord], calls: Iterable[ToolCall]) -> None:
    """A proposal whose call a person rejected for another one is answered by what came of that one (T42)."""
    by_people = sorted((call for call in calls if call.instead_of_id), key=lambda call: call.ordinal)
    newest = {call.instead_of_id: call for call in by_people}
    for record in records:
        for proposal in record.proposals:
            call = proposal.tool_call
            if call is not None and call.id in newest and call.status == CallStatus.REJECTED:
                proposal.tool_call = newest[call.id]


@dataclass(frozen=True)
class StoredTurn:
    """A sealed turn as it is stored: its bytes, its proposals with their calls and results, and the calls that people wrote in
    the place of one of them.
    """

    turn: ModelCall
    body: bytes
    proposals: Sequence[Proposal]
    authored: Sequence[ToolCall]


def turns_of(*, tenant_id: UUID, run_id: UUID) -> list[StoredTurn]:
    """Every sealed turn of a run in order, in two queries. Raises BodyChanged."""
    sealed = ModelCall.objects.filter(run_id=run_id, status=ModelCallStatus.SEALED)
    proposals = Proposal.objects.filter(model_call__in=sealed.values("id")).select_related("tool_call__result")
    authored = ToolCall.objects.filter(run_id=run_id, proposed_by="HUMAN").select_related("result")
    turns, proposed, written = together(
        sealed.order_by("turn_no"), proposals.order_by("ordinal"), authored.order_by("ordinal")
    )
    bodies = artifacts_bytes(tenant_id=tenant_id, sha256s=[str(turn.response_digest) for turn in turns])
    of_turn, of_people = defaultdict[UUID, list[Proposal]](list), defaultdict[int, list[ToolCall]](list)
    for proposal in proposed:
        of_turn[proposal.model_call_id].append(proposal)
    for call in written:
        of_people[call.turn_no].append(call)
    return [
        StoredTurn(turn, bodies[str(turn.response_digest)], of_turn[turn.id], of_people[turn.turn_no]) for turn in turns
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
    sealed = ModelCall.objects.filter(run_id=run_id, turn_no=turn_no, status=ModelCallStatus.SEALED)
    turns, proposals = together(sealed, Proposal.objects.filter(model_call__in=sealed.values("id")).order_by("ordinal"))
    return proposals if turns else None


def last_turn_sent(*, run_id: UUID) -> int:
    """The newest turn that the model was asked and that is sealed or still out, or 0. What a run is told now comes after."""
    asked = ModelCall.objects.filter(run_id=run_id, status__in=[ModelCallStatus.SEALED, ModelCallStatus.DISPATCHED])
    return asked.aggregate(last=Max("turn_no"))["last"] or 0


def proposals_waiting(*, call_ids: Sequence[UUID]) -> list[tuple[UUID, int, int]]:
    """(call, turn, ordinal) of every proposal that names one of these calls, or the model's call that one stands for."""
    if not call_ids:
        return []
    return [(call_id, turn_no, ordinal) for call_id, turn_no, ordinal in fetch(WAITING, {"calls": list(call_ids)})]


def proposals_for(story: Story, *, call_ids: Sequence[UUID]) -> list[tuple[UUID, int, int]]:
    """What `proposals_waiting` says of these calls of a run, by its story."""
    waiting = {story.calls[id].instead_of_id: id for id in call_ids} | {id: id for id in call_ids}
    return [
        (waiting[proposal.tool_call_id], record.turn_no, proposal.ordinal)
        for record in story.sealed
        for proposal in record.proposals
        if proposal.tool_call_id in waiting and proposal.tool_call_id is not None
    ]


def calls_in_turn(*, ids: Sequence[UUID]) -> tuple[dict[UUID, ToolCall], dict[UUID | None, ToolCall]]:
    """The calls of a turn by id, and by a model's call that a person has rejected for another one the newest one that stands for
    it; all with their results.
    """
    if not ids:
        return {}, {}
    rows = ToolCall.objects.filter(Q(id__in=ids) | Q(instead_of__in=ids)).select_related("result").order_by("ordinal")
    calls = list(rows)
    return {call.id: call for call in calls if call.id in ids}, {call.instead_of_id: call for call in calls}


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
