"""The states of a wait and which moves are legal. Pure Python."""

from enum import StrEnum

Moves = list[tuple[str, str]]


class WaitStatus(StrEnum):
    OPEN = "OPEN"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    CONSUMED = "CONSUMED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    SUPERSEDED = "SUPERSEDED"
    INVALIDATED = "INVALIDATED"


LIVE_WAIT = frozenset({"OPEN", "APPROVED", "REJECTED"})

WAIT_MOVES: Moves = [
    ("OPEN", "APPROVED"),
    ("OPEN", "REJECTED"),
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
    APPROVE = "APPROVE"
    REJECT = "REJECT"


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
