"""The conversation that the next model request is built from: rebuilt from stored turns, results and notices."""

import json
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from accounts.statements import Gathered, gather, gathered
from receipts.selectors import (
    RunKeys,
    Story,
    TurnRecord,
    keys_of_calls,
    proposals_waiting,
    proved_result,
    story_of,
)
from receipts.statements import GRANTED, STORY, TOLD
from receipts.states import CallStatus, Disposition
from runs.canonical import canonical, digest
from runs.selectors import said_messages, source_of
from runs.statements import SAID
from runtime.contracts import ProposedCall

_CLOSED = {
    CallStatus.DENIED: "denied by policy",
    CallStatus.REJECTED: "rejected",
    CallStatus.CANCELLED: "not sent",
    CallStatus.UNCERTAIN: "sent, and nobody knows whether it happened; it will not be sent again",
}


# An answer of at most this many bytes is not made shorter: the note in its place would be as long.
SHORT_ANSWER_BYTES = 200

_FIRST, _LAST = -1, 10**9


@dataclass
class Conversation:
    """Messages in order: of each turn what the model said, the answers in the order of its proposals, then the notices.

    An answer that comes late is put in its place, so that the worker that goes on and one that takes over ask the same.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    compacted_through: int = 0
    _places: list[tuple[int, int]] = field(default_factory=list)
    _digests: list[str] = field(default_factory=list)

    @property
    def chain(self) -> str:
        """The digest of all messages in their order. What a message adds to it is computed once."""
        return digest("".join(self._digests).encode())

    def add(self, message: dict[str, Any]) -> None:
        """Append one message."""
        turn_no = self._places[-1][0] if self._places else 0
        self._insert((turn_no, _LAST), message)

    def add_turn(self, turn_no: int, text: str, proposals: tuple[ProposedCall, ...]) -> None:
        """Append what the model said and proposed."""
        calls = [
            {"id": message_id(turn_no, ordinal), "tool": call.tool, "arguments": call.arguments}
            for ordinal, call in enumerate(proposals)
        ]
        self._insert((turn_no, _FIRST), {"role": "assistant", "text": text, "calls": calls})

    def add_answer(self, turn_no: int, ordinal: int, tool: str, *, ok: bool, value: dict[str, Any]) -> None:
        """Add what became of one proposal; shortened where its turn is compacted already."""
        value = _shortened(value) if turn_no <= self.compacted_through else value
        message = {"role": "tool", "id": message_id(turn_no, ordinal), "tool": tool, "ok": ok, "value": value}
        self._insert((turn_no, ordinal), message)

    def compact(self, through: int) -> None:
        """Replace every long answer of the turns up to this one by its digest and size."""
        self.compacted_through = max(self.compacted_through, through)
        for index, message in enumerate(self.messages):
            if self._places[index][0] <= through and message["role"] == "tool":
                self.messages[index] = message | {"value": _shortened(message["value"])}
                self._digests[index] = digest(canonical(self.messages[index]))

    def would_shorten(self, through: int) -> bool:
        """Whether compacting up to this turn would change anything."""
        return any(
            place[0] <= through and message["role"] == "tool" and _shortened(message["value"]) != message["value"]
            for place, message in zip(self._places, self.messages, strict=True)
        )

    def _insert(self, place: tuple[int, int], message: dict[str, Any]) -> None:
        index = bisect_right(self._places, place)
        self._places.insert(index, place)
        self._digests.insert(index, digest(canonical(message)))
        self.messages.insert(index, message)


def _shortened(value: dict[str, Any]) -> dict[str, Any]:
    """An answer of an old turn as the model is still told it. A short one, as errors are, stays as it is."""
    plain = canonical(value)
    if len(plain) <= SHORT_ANSWER_BYTES:
        return value
    return {"left_out": {"why": "old answers were left out to save room", "sha256": digest(plain), "bytes": len(plain)}}


def message_id(turn_no: int, ordinal: int) -> str:
    """The id by which the model's conversation knows a proposal: stable, and made by us."""
    return f"t{turn_no}-{ordinal}"


def answers_of(call_ids: Collection[UUID]) -> list[str]:
    """The ids of the messages that told the model what these calls gave."""
    named = proposals_waiting(call_ids=list(call_ids)) if call_ids else []
    return [message_id(turn_no, ordinal) for _, turn_no, ordinal in named]


# What a run was told, asked and answered, for its conversation and its keys.
HISTORY = (SAID, *STORY, GRANTED)
OF_HISTORY = ("said", *TOLD, "granted")
_HISTORY = gathered(*HISTORY, of=OF_HISTORY)


@dataclass(frozen=True)
class History:
    """What a run was told, and what it asked and did, as it is stored now; and the intents that have leave for another effect."""

    run: Any
    messages: Sequence[tuple[Any, str]]
    story: Story
    granted: Sequence[Sequence[str]]

    def keys(self, results: Sequence[UUID]) -> RunKeys:
        """The keys of the run. `results`: the calls whose results its snapshot refers to."""
        return keys_of_calls(self.story.calls.values(), self.granted, results=results)


def history_of(run: Any, *, turns: int | None = None, messages: int | None = None) -> History:
    """The history of a run up to a turn and a message, in one read. Raises BodyChanged."""
    return history_in(run, gather(_HISTORY, {"run": run.id, "last_turn": turns, "last_message": messages}))


def history_in(run: Any, found: Gathered) -> History:
    """The same, by the rows of HISTORY."""
    return History(run, said_messages(found["said"]), story_of(found, run_id=run.id), found["granted"])


def rebuild(history: History, *, compacted_through: int = 0) -> Conversation:
    """The conversation of a run from what is stored, for a worker that takes over, compacted as far as its head says.

    A continued or forked run goes on with what its source had heard and said up to the revision where it begins.
    """
    conversation = Conversation(compacted_through=compacted_through)
    parts = [history]
    while (source := source_of(parts[-1].run)) is not None:
        now = parts[-1].run
        parts.append(history_of(source, turns=now.inherited_turns, messages=now.inherited_messages))
    for part in reversed(parts):
        _add_part(conversation, part)
    return conversation


def _add_part(conversation: Conversation, part: History) -> None:
    """Add what one run of the line heard and said."""
    _add_messages(conversation, part.messages, after_turn=part.run.inherited_turns)
    for turn in part.story.sealed:
        proposals = tuple(ProposedCall(call["tool"], call["arguments"]) for call in turn.proposed)
        conversation.add_turn(turn.turn_no, turn.text, proposals)
        _add_answers(conversation, turn)
        _add_messages(conversation, part.messages, after_turn=turn.turn_no)


def _add_messages(conversation: Conversation, told: Sequence[tuple[Any, str]], *, after_turn: int) -> None:
    for row, text in told:
        if row.after_turn == after_turn:
            conversation.add({"role": row.role, "text": text})


def _add_answers(conversation: Conversation, turn: TurnRecord) -> None:
    for proposal in turn.proposals:
        told = _answer_of(proposal, turn.turn_no)
        if told is not None:
            ok, value = told
            conversation.add_answer(turn.turn_no, proposal.ordinal, proposal.tool, ok=ok, value=value)


def _answer_of(proposal: Any, turn_no: int) -> tuple[bool, dict[str, Any]] | None:
    """What the model was told about a proposal. Where the run went on without knowing, that stays as it was said: what is
    known later is told in a notice (ruling 33).
    """
    if proposal.disposition == Disposition.REFUSED:
        return False, {"error": proposal.refusal}
    if proposal.disposition == Disposition.FINISH:
        return None
    call = proposal.tool_call
    if call.turn_no == turn_no and not call.blocking:
        return False, {"error": _CLOSED[CallStatus.UNCERTAIN]}
    return call_answer(call)


def call_answer(call: Any) -> tuple[bool, dict[str, Any]] | None:
    """What the model is told about a call: its result, or why there is none; None while that is open.

    A call of unknown outcome is open until a person lets the run go on without knowing.
    """
    result = getattr(call, "result", None)
    if result is not None:
        return result.ok, json.loads(proved_result(result))
    if call.status in _CLOSED and not (call.status == CallStatus.UNCERTAIN and call.blocking):
        why = _CLOSED[CallStatus(call.status)]
        return False, {"error": f"{why}: {call.error}" if call.error else why}
    return None
