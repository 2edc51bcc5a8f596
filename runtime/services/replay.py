"""Replay: step through what a run stored. No gateway, no tool, no write but the audit of the view (T13, D-066, D-067)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.states import Actor
from approvals.policies import value_without
from checkpoints.selectors import revisions_of
from receipts.selectors import result_bytes, turns_of
from runs.canonical import digest, parse
from runs.selectors import access_run, messages_of
from runtime.masking import Masks
from runtime.services.guards import audit


@dataclass(frozen=True)
class ReplayStep:
    """One stored output, in the order in which the model heard or gave it.

    `kind` is MESSAGE, TURN or CALL. `intact` says whether the stored bytes still have the stored digest.
    """

    kind: str
    turn_no: int
    name: str
    status: str
    attempts: int
    digest: str
    output: Any
    intact: bool
    call_id: UUID | None = None


@dataclass(frozen=True)
class Replay:
    """The stored outputs of a run, and the phases that its head went through."""

    run: Any
    steps: tuple[ReplayStep, ...]
    phases: tuple[tuple[int, str], ...] = field(default=())


def run_replay(*, actor: Actor, run_id: UUID) -> Replay:
    """Step through the stored outputs of a run, live or ended. Asks no model and no tool, and writes one audit row. What is
    marked as sensitive is masked, whoever asks.

    Needs the permission to read. Raises NotFound, and BodyChanged where stored bytes can't be read at all.
    """
    run = access_run(actor=actor, id=run_id)
    with transaction.atomic():
        replay = Replay(run, tuple(_steps(run)), tuple(revisions_of(run_id)))
        audit(actor, "run.replay", "run", run_id, {"steps": len(replay.steps)})
    return replay


def _steps(run: Any) -> Iterator[ReplayStep]:
    masks = Masks()
    hidden = masks.texts_in_run(run)
    messages = [(row, text, value_without(text, hidden)) for row, text in messages_of(run)]
    yield from _messages(messages, run.inherited_turns)
    for stored in turns_of(tenant_id=run.tenant_id, run_id=run.id):
        turn, said = stored.turn, masks.proposed(run, parse(stored.body))
        yield ReplayStep(
            "TURN",
            turn.turn_no,
            turn.model,
            turn.status,
            turn.attempts,
            str(turn.response_digest),
            said.value,
            digest(stored.body) == turn.response_digest,
        )
        for proposal in stored.proposals:
            yield _proposal(turn.turn_no, proposal, said.texts)
        for call in stored.authored:
            yield _call(turn.turn_no, call, said.texts)
        yield from _messages(messages, turn.turn_no)


def _messages(messages: list[tuple[Any, str, str]], after_turn: int) -> Iterator[ReplayStep]:
    for row, text, shown in messages:
        if row.after_turn == after_turn:
            intact = digest(text.encode()) == row.sha256
            yield ReplayStep("MESSAGE", after_turn, row.role, "STORED", 0, row.sha256, shown, intact)


def _proposal(turn_no: int, proposal: Any, hidden: tuple[str, ...]) -> ReplayStep:
    """A proposal of a turn with what came of it, as it is stored now."""
    call = proposal.tool_call
    if call is None:
        output = {"refusal": proposal.refusal} if proposal.refusal else None
        return ReplayStep("CALL", turn_no, proposal.tool, proposal.disposition, 0, proposal.args_digest, output, True)
    return _call(turn_no, call, hidden)


def _call(turn_no: int, call: Any, hidden: tuple[str, ...]) -> ReplayStep:
    """What came of a call, as it is stored now."""
    result = getattr(call, "result", None)
    if result is None:
        why = {"error": call.error} if call.error else None
        return ReplayStep("CALL", turn_no, call.step_name, call.status, call.attempts, "", why, True, call.id)
    plain = result_bytes(result)
    return ReplayStep(
        "CALL",
        turn_no,
        call.step_name,
        call.status,
        call.attempts,
        result.digest,
        value_without(parse(plain), hidden),
        digest(plain) == result.digest,
        call.id,
    )
