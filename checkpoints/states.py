"""Checkpoint phases, the legal moves of the head, and the states of an obligation. Pure Python."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

Moves = list[tuple[str, str]]


class Phase(StrEnum):
    READY_TO_DECIDE = "READY_TO_DECIDE"
    DECISION_RECORDED = "DECISION_RECORDED"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    AWAITING_INPUT = "AWAITING_INPUT"
    AWAITING_TOOL_RESULT = "AWAITING_TOOL_RESULT"
    TOOL_RESULT_RECORDED = "TOOL_RESULT_RECORDED"
    READY_TO_VERIFY = "READY_TO_VERIFY"
    FINISHED = "FINISHED"
    STOPPED = "STOPPED"


class Stage(StrEnum):
    """The three logical phases of the loop, and the end (A-053)."""

    THINK = "THINK"
    ACT = "ACT"
    JUDGE = "JUDGE"
    END = "END"


def stage_of(phase: str) -> Stage:
    """Which of them a phase belongs to."""
    return _STAGES.get(phase, Stage.ACT)


_STAGES: dict[str, Stage] = {
    Phase.READY_TO_DECIDE: Stage.THINK,
    Phase.READY_TO_VERIFY: Stage.JUDGE,
    Phase.FINISHED: Stage.END,
    Phase.STOPPED: Stage.END,
}
ENDED_PHASE = frozenset({"FINISHED", "STOPPED"})

_NEXT: dict[str, tuple[str, ...]] = {
    "READY_TO_DECIDE": (
        "READY_TO_DECIDE",
        "DECISION_RECORDED",
        "AWAITING_INPUT",
        "AWAITING_TOOL_RESULT",
        "AWAITING_APPROVAL",
        "READY_TO_VERIFY",
    ),
    "DECISION_RECORDED": (
        "DECISION_RECORDED",
        "AWAITING_APPROVAL",
        "AWAITING_TOOL_RESULT",
        "AWAITING_INPUT",
        "READY_TO_DECIDE",
        "READY_TO_VERIFY",
    ),
    "AWAITING_APPROVAL": ("AWAITING_TOOL_RESULT", "READY_TO_DECIDE", "DECISION_RECORDED"),
    "AWAITING_INPUT": ("READY_TO_DECIDE", "DECISION_RECORDED"),
    "AWAITING_TOOL_RESULT": ("TOOL_RESULT_RECORDED", "READY_TO_DECIDE", "AWAITING_APPROVAL"),
    "TOOL_RESULT_RECORDED": (
        "TOOL_RESULT_RECORDED",
        "DECISION_RECORDED",
        "AWAITING_APPROVAL",
        "AWAITING_INPUT",
        "AWAITING_TOOL_RESULT",
        "READY_TO_DECIDE",
        "READY_TO_VERIFY",
    ),
    "READY_TO_VERIFY": ("READY_TO_VERIFY", "READY_TO_DECIDE", "FINISHED"),
}

PHASE_MOVES: Moves = [(start, end) for start, ends in _NEXT.items() for end in (*ends, "STOPPED")]


class Trigger(StrEnum):
    """Why a revision was saved. INTENT, MIGRATION and REPIN may keep any phase that has not ended."""

    INIT = "INIT"
    CURSOR = "CURSOR"
    AFTER_EFFECT = "AFTER_EFFECT"
    COMPACTION = "COMPACTION"
    CLOSING = "CLOSING"
    INTENT = "INTENT"
    MIGRATION = "MIGRATION"
    REPIN = "REPIN"


PHASE_KEEPING_TRIGGERS = frozenset({"INTENT", "MIGRATION", "REPIN"})


def can_move_phase(start: str, end: str, trigger: str) -> bool:
    """Whether the head may go from one phase to another, as its trigger in the database holds it too."""
    return (start, end) in _LEGAL or (start == end and trigger in PHASE_KEEPING_TRIGGERS and start not in ENDED_PHASE)


_LEGAL = frozenset(PHASE_MOVES)


class Encoding(StrEnum):
    """How a revision's body is stored: in full, or as what changed since the revision before."""

    FULL = "FULL"
    DELTA = "DELTA"


# A chain of deltas is at most this long, so that reading a revision stays quick.
FULL_EVERY = 100


def full_due(revision: int) -> bool:
    """Whether this revision starts a chain of its own."""
    return (revision - 1) % FULL_EVERY == 0


@dataclass(frozen=True)
class StoredBody:
    """A revision whose body is there, as retention looks at it. `size` is what it takes in the store, in bytes."""

    revision: int
    encoding: str
    saved_at: datetime
    size: int


def expendable(bodies: Sequence[StoredBody], *, latest: int, daily: bool, bound: Collection[int]) -> list[StoredBody]:
    """The bodies of a run that retention lets go, the newest first, so that nothing goes before what rests on it.

    Kept are the newest `latest`, those that something is bound to, with `daily` one of each day (UTC), and what any of
    these is rebuilt from. The one of a day is its newest that is stored in full, or its newest.
    """
    ordered = sorted(bodies, key=lambda body: body.revision)
    kept = {body.revision for body in ordered[-latest:]} | set(bound)
    if daily:
        kept |= _of_each_day(ordered)
    going, rested_on = [], False
    for body in reversed(ordered):
        rested_on = rested_on or body.revision in kept
        if not rested_on:
            going.append(body)
        rested_on = rested_on and body.encoding == Encoding.DELTA
    return going


def _of_each_day(ordered: Sequence[StoredBody]) -> set[int]:
    newest = {body.saved_at.astimezone(UTC).date(): body.revision for body in ordered}
    newest |= {
        body.saved_at.astimezone(UTC).date(): body.revision for body in ordered if body.encoding == Encoding.FULL
    }
    return set(newest.values())


class SaveStatus(StrEnum):
    """What became of a save. SAVED needs no row where it was acknowledged: the checkpoint carries its save id."""

    SAVED = "SAVED"
    NOT_SAVED = "NOT_SAVED"
    UNKNOWN = "UNKNOWN"


SAVE_MOVES: Moves = [("UNKNOWN", "SAVED"), ("UNKNOWN", "NOT_SAVED")]

SaveRefusal = Literal[
    "ILLEGAL_PHASE", "FIELD_LIMIT", "FORBIDDEN_CONTENT", "SCHEMA", "MISSING_REF", "VERSION_CONFLICT", "STORE_ERROR"
]


@dataclass(frozen=True)
class Saved:
    """The receipt of a save: the head is at this revision."""

    save_id: UUID
    revision: int
    digest: str


@dataclass(frozen=True)
class NotSaved:
    """A save that surely did not happen, and why. The head is where it was, or at `actual` after a conflict.

    `path` is the place in the snapshot; `evidence` is the digest of what stood there. The content itself is nowhere.
    """

    save_id: UUID
    trigger: Trigger
    expected: int
    kind: SaveRefusal
    path: str
    why: str
    evidence: str | None = None
    actual: int | None = None


class ObligationStatus(StrEnum):
    OPEN = "OPEN"
    FULFILLED = "FULFILLED"
    RELEASED = "RELEASED"
    CARRIED = "CARRIED"


OBLIGATION_MOVES: Moves = [("OPEN", "FULFILLED"), ("OPEN", "RELEASED"), ("OPEN", "CARRIED")]


@dataclass(frozen=True)
class Lapsed:
    """An observation that has passed its half-life. `step_name` is without the epoch."""

    tool_call_id: UUID
    step_name: str
    observed_at: datetime
    half_life_seconds: float


class CommitmentKind(StrEnum):
    CONSTRAINT = "CONSTRAINT"
    ASSUMPTION = "ASSUMPTION"


class CommitmentStatus(StrEnum):
    LIVE = "LIVE"
    WITHDRAWN = "WITHDRAWN"


COMMITMENT_MOVES: Moves = [("LIVE", "WITHDRAWN")]


class SourceKind(StrEnum):
    """Who asserted a commitment: the agent's registration, or the person who started the run."""

    AGENT = "AGENT"
    PERSON = "PERSON"


def can_withdraw(status: str) -> bool:
    """Only a commitment that holds can be withdrawn."""
    return status == CommitmentStatus.LIVE


def can_release(status: str) -> bool:
    """Only an open obligation can be released."""
    return status == ObligationStatus.OPEN
