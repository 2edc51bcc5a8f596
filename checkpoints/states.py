"""Checkpoint phases, the legal moves of the head, and the states of an obligation. Pure Python."""

from enum import StrEnum

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
    "AWAITING_APPROVAL": ("AWAITING_TOOL_RESULT", "READY_TO_DECIDE"),
    "AWAITING_INPUT": ("READY_TO_DECIDE",),
    "AWAITING_TOOL_RESULT": ("TOOL_RESULT_RECORDED", "READY_TO_DECIDE", "AWAITING_APPROVAL"),
    "TOOL_RESULT_RECORDED": (
        "TOOL_RESULT_RECORDED",
        "DECISION_RECORDED",
        "AWAITING_APPROVAL",
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
    CLOSING = "CLOSING"
    INTENT = "INTENT"
    MIGRATION = "MIGRATION"
    REPIN = "REPIN"


PHASE_KEEPING_TRIGGERS = frozenset({"INTENT", "MIGRATION", "REPIN"})


class ObligationStatus(StrEnum):
    OPEN = "OPEN"
    FULFILLED = "FULFILLED"
    RELEASED = "RELEASED"
    CARRIED = "CARRIED"


OBLIGATION_MOVES: Moves = [("OPEN", "FULFILLED"), ("OPEN", "RELEASED"), ("OPEN", "CARRIED")]


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
