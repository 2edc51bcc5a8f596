"""The states of a wait and which moves are legal. Pure Python."""

from enum import StrEnum

Moves = list[tuple[str, str]]


class WaitKind(StrEnum):
    """What people are asked: to decide about a call, or to answer what the model asks them."""

    APPROVAL = "APPROVAL"
    QUESTION = "QUESTION"


class WaitStatus(StrEnum):
    OPEN = "OPEN"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    ANSWERED = "ANSWERED"
    CONSUMED = "CONSUMED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    SUPERSEDED = "SUPERSEDED"
    INVALIDATED = "INVALIDATED"


LIVE_WAIT = frozenset({"OPEN", "APPROVED", "REJECTED", "ANSWERED"})

WAIT_MOVES: Moves = [
    ("OPEN", "APPROVED"),
    ("OPEN", "REJECTED"),
    ("OPEN", "ANSWERED"),
    ("OPEN", "EXPIRED"),
    ("OPEN", "CANCELLED"),
    ("OPEN", "SUPERSEDED"),
    ("OPEN", "INVALIDATED"),
    ("APPROVED", "CONSUMED"),
    ("APPROVED", "INVALIDATED"),
    ("APPROVED", "CANCELLED"),
    ("REJECTED", "CONSUMED"),
    ("REJECTED", "INVALIDATED"),
    ("REJECTED", "CANCELLED"),
    ("ANSWERED", "CONSUMED"),
    ("ANSWERED", "INVALIDATED"),
    ("ANSWERED", "CANCELLED"),
]


class Whose(StrEnum):
    """Which waits are shown: all, one's own, or those at which nobody looks."""

    ALL = "all"
    MINE = "mine"
    UNCLAIMED = "unclaimed"


# What may reconnect a wait to its run: a person, its deadline, or an act that takes it back to ask anew.
WAKES_A_WAIT = ("DECISION", "TIMER", "INTENT", "SUPERSEDED")


DEADLINE = "system:deadline"  # who rejects where nobody has decided in time


class DecisionVerdict(StrEnum):
    """About a call: APPROVE or REJECT. To a question: ANSWER, or DECLINE to answer."""

    APPROVE = "APPROVE"
    REJECT = "REJECT"
    ANSWER = "ANSWER"
    DECLINE = "DECLINE"


# What may be said of a call, and what to a question.
OF_A_CALL = (DecisionVerdict.APPROVE, DecisionVerdict.REJECT)
OF_A_QUESTION = (DecisionVerdict.ANSWER, DecisionVerdict.DECLINE)


class AnswerKind(StrEnum):
    """How a question is answered: in free words, by a form, or with a file."""

    TEXT = "TEXT"
    FORM = "FORM"
    FILE = "FILE"


class PolicyOutcome(StrEnum):
    ALLOW = "ALLOW"
    DENY = "DENY"
    REQUIRE_APPROVAL = "REQUIRE_APPROVAL"


class Risk(StrEnum):
    LOW = "LOW"
    NORMAL = "NORMAL"
    HIGH = "HIGH"


class OnDeadline(StrEnum):
    """What it means that nobody decided in time. It never means yes."""

    EXPIRE = "EXPIRE"
    REJECT = "REJECT"


def can_decide(status: str) -> bool:
    """Only an open wait can be decided."""
    return status == WaitStatus.OPEN
