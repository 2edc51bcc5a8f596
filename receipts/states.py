"""The states of model calls, tool calls, attempts and publications, and which moves are legal. Pure Python."""

from enum import StrEnum

Moves = list[tuple[str, str]]


class EffectClass(StrEnum):
    """What a tool may do outside, and therefore what may be done when nobody knows whether it did it (T04)."""

    READ_ONLY = "READ_ONLY"
    IDEMPOTENT = "IDEMPOTENT"
    QUERYABLE = "QUERYABLE"
    NON_IDEMPOTENT = "NON_IDEMPOTENT"


class ModelCallStatus(StrEnum):
    DISPATCHED = "DISPATCHED"
    RETRY_WAIT = "RETRY_WAIT"
    SEALED = "SEALED"
    FAILED = "FAILED"
    UNCERTAIN = "UNCERTAIN"
    CANCELLED = "CANCELLED"


MODEL_CALL_MOVES: Moves = [
    ("DISPATCHED", "SEALED"),
    ("DISPATCHED", "FAILED"),
    ("DISPATCHED", "UNCERTAIN"),
    ("DISPATCHED", "RETRY_WAIT"),
    ("UNCERTAIN", "DISPATCHED"),
    ("UNCERTAIN", "FAILED"),
    ("UNCERTAIN", "CANCELLED"),
    ("RETRY_WAIT", "DISPATCHED"),
    ("RETRY_WAIT", "FAILED"),
    ("RETRY_WAIT", "CANCELLED"),
]


OPEN_TURN = frozenset({"DISPATCHED", "RETRY_WAIT", "UNCERTAIN"})


class CallStatus(StrEnum):
    PROPOSED = "PROPOSED"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    AWAITING_INPUT = "AWAITING_INPUT"
    DISPATCHED = "DISPATCHED"
    RETRY_WAIT = "RETRY_WAIT"
    UNCERTAIN = "UNCERTAIN"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DENIED = "DENIED"
    REJECTED = "REJECTED"
    CANCELLED = "CANCELLED"


CALL_MOVES: Moves = [
    ("PROPOSED", "DENIED"),
    ("PROPOSED", "AWAITING_APPROVAL"),
    ("PROPOSED", "AWAITING_INPUT"),
    ("PROPOSED", "DISPATCHED"),
    ("PROPOSED", "CANCELLED"),
    ("PROPOSED", "SUCCEEDED"),
    ("AWAITING_APPROVAL", "DISPATCHED"),
    ("AWAITING_APPROVAL", "REJECTED"),
    ("AWAITING_APPROVAL", "DENIED"),
    ("AWAITING_APPROVAL", "CANCELLED"),
    ("AWAITING_INPUT", "SUCCEEDED"),
    ("AWAITING_INPUT", "REJECTED"),
    ("AWAITING_INPUT", "DENIED"),
    ("AWAITING_INPUT", "CANCELLED"),
    ("DISPATCHED", "SUCCEEDED"),
    ("DISPATCHED", "FAILED"),
    ("DISPATCHED", "RETRY_WAIT"),
    ("DISPATCHED", "UNCERTAIN"),
    ("RETRY_WAIT", "DISPATCHED"),
    ("RETRY_WAIT", "FAILED"),
    ("RETRY_WAIT", "CANCELLED"),
    ("RETRY_WAIT", "UNCERTAIN"),
    ("UNCERTAIN", "DISPATCHED"),
    ("UNCERTAIN", "SUCCEEDED"),
    ("UNCERTAIN", "FAILED"),
    ("UNCERTAIN", "RETRY_WAIT"),
]

# Calls that were or may still be sent: at most one of them per idempotency key (DESIGN.md ruling 6).
LIVE_CALL = frozenset(
    {"PROPOSED", "AWAITING_APPROVAL", "AWAITING_INPUT", "DISPATCHED", "RETRY_WAIT", "UNCERTAIN", "SUCCEEDED"}
)
# Recorded, and neither sent nor closed: policy, people or the loop are still to say.
UNROUTED_CALL = ("PROPOSED", "AWAITING_APPROVAL", "AWAITING_INPUT")
UNSENT_CALL = frozenset({*UNROUTED_CALL, "RETRY_WAIT"})
UNSETTLED_CALL = UNSENT_CALL | {"DISPATCHED", "UNCERTAIN"}


class AttemptOutcome(StrEnum):
    """What became of one try, and so what follows (B-049).

    OK: recorded. ERROR_RETRYABLE: sent again later, with backoff. ERROR_FINAL and ERROR_REFUSED: the model is told and
    decides. CONTEXT_OVERFLOW: the request was too long. NO_RESPONSE: nobody knows; by effect class.
    """

    OK = "OK"
    ERROR_RETRYABLE = "ERROR_RETRYABLE"
    ERROR_FINAL = "ERROR_FINAL"
    ERROR_REFUSED = "ERROR_REFUSED"
    CONTEXT_OVERFLOW = "CONTEXT_OVERFLOW"
    NO_RESPONSE = "NO_RESPONSE"


class Disposition(StrEnum):
    """What became of one proposal of a sealed turn."""

    NEW = "NEW"
    REUSED = "REUSED"
    REFUSED = "REFUSED"
    FINISH = "FINISH"


class ResultSource(StrEnum):
    LIVE = "LIVE"
    PROBE = "PROBE"
    HUMAN = "HUMAN"
    REUSED = "REUSED"


class Verdict(StrEnum):
    """What a person or a probe says about a call whose outcome nobody knew."""

    EXECUTED = "EXECUTED"
    NOT_EXECUTED = "NOT_EXECUTED"
    PROCEED_UNKNOWN = "PROCEED_UNKNOWN"


class FollowUp(StrEnum):
    NONE = "NONE"
    RETRY = "RETRY"
    FAIL = "FAIL"


class EvidenceSource(StrEnum):
    """Where evidence against what was accepted comes from."""

    LATE_RESULT = "LATE_RESULT"
    PROBE = "PROBE"
    HUMAN = "HUMAN"


ATTACHMENT_BYTES = 1024 * 1024  # of one file beside a call
ATTACHMENTS = 10  # beside one call


class WordClosing(StrEnum):
    """What became of a first person's word about a call that two people have to agree on."""

    CONFIRMED = "CONFIRMED"
    DISAGREED = "DISAGREED"
    REPLACED = "REPLACED"
    MOOT = "MOOT"


class Found(StrEnum):
    """What a look that a person asked for has found under the key of a call."""

    THERE = "THERE"
    NOT_THERE = "NOT_THERE"
    UNTOLD = "UNTOLD"


class Closing(StrEnum):
    """How a person closes a contradiction: the retry is sent all the same, it is given up, or the flag is only noted."""

    SEND_AGAIN = "SEND_AGAIN"
    DO_NOT_SEND = "DO_NOT_SEND"
    NOTED = "NOTED"


class PublicationStatus(StrEnum):
    REQUESTED = "REQUESTED"
    DISPATCHED = "DISPATCHED"
    PUBLISHED = "PUBLISHED"
    FAILED = "FAILED"
    UNCERTAIN = "UNCERTAIN"


PUBLICATION_MOVES: Moves = [
    ("REQUESTED", "DISPATCHED"),
    ("REQUESTED", "FAILED"),
    ("DISPATCHED", "PUBLISHED"),
    ("DISPATCHED", "FAILED"),
    ("DISPATCHED", "UNCERTAIN"),
    ("UNCERTAIN", "PUBLISHED"),
    ("UNCERTAIN", "FAILED"),
    ("UNCERTAIN", "DISPATCHED"),
]


def holds_intent(status: str, blocking: bool) -> bool:
    """A call that may still be sent, or of which nobody knows, keeps the rest of its lineage from the same intent (ruling 34)."""
    unknown = status == CallStatus.UNCERTAIN
    return status in UNSENT_CALL or status == CallStatus.DISPATCHED or (unknown and blocking)


def can_reconcile(status: str) -> bool:
    """Only a call of unknown outcome takes a verdict."""
    return status == CallStatus.UNCERTAIN
