"""The sign of every state: lamp, icon, word, what it means and who acts next. One table for chips, axis and glossary.

Keys are the values of the enums in the apps' states.py; a test holds the two together. Pure: no Django, no rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from approvals.states import WaitStatus
from checkpoints.states import CommitmentStatus, ObligationStatus
from receipts.states import AttemptOutcome, CallStatus, EffectClass, ModelCallStatus, PublicationStatus
from runs.states import ControlStatus, HoldReason, RunStatus


@dataclass(frozen=True)
class Sign:
    """How one state looks and reads. `over` draws the outline only: nothing is due any more."""

    lamp: str
    icon: str
    means: str
    acts_next: str
    over: bool = False


RUN: Mapping[str, Sign] = {
    RunStatus.QUEUED: Sign("neutral", "queued", "Ready; no worker holds it", "a worker"),
    RunStatus.RUNNING: Sign("clear", "running", "A worker holds the lease and goes on", "the worker"),
    RunStatus.WAITING: Sign(
        "caution", "caution", "At least one wait is open; no worker is tied up", "a person or a clock"
    ),
    RunStatus.HELD: Sign("stop", "held", "A fact blocks it; the page names the fact", "a person"),
    RunStatus.STOPPING: Sign("stop", "stopping", "A stop is adopted; what was sent may still land", "the clock"),
    RunStatus.COMPLETED: Sign("clear", "done", "Finished; every obligation is closed", "nobody", over=True),
    RunStatus.CANCELLED: Sign("neutral", "slash", "Stopped; open obligations stay visible", "nobody", over=True),
    RunStatus.FAILED: Sign("stop", "failed", "A final error; what happened stands", "nobody", over=True),
    RunStatus.SETTLED: Sign("neutral", "settled", "Closed by what is known, not resumed", "nobody", over=True),
}

CALL: Mapping[str, Sign] = {
    CallStatus.PROPOSED: Sign("neutral", "proposed", "The model asked for it; nothing is sent", "policy", over=True),
    CallStatus.AWAITING_APPROVAL: Sign("caution", "caution", "Policy asks a person", "an approver"),
    CallStatus.AWAITING_INPUT: Sign("caution", "caution", "A question; nobody has answered it yet", "a person"),
    CallStatus.DISPATCHED: Sign("clear", "sent", "Sent; no answer yet", "the other side"),
    CallStatus.RETRY_WAIT: Sign("caution", "retry", "A known, passing error; same call, next attempt", "the clock"),
    CallStatus.UNCERTAIN: Sign("unknown", "unknown", "Sent; no stored answer. It may have happened", "a reconciler"),
    CallStatus.SUCCEEDED: Sign("clear", "done", "An answer is stored; never sent again", "nobody", over=True),
    CallStatus.FAILED: Sign("stop", "failed", "Known not to have worked", "the model is told", over=True),
    CallStatus.DENIED: Sign("stop", "denied", "Policy or validation said no", "the model is told", over=True),
    CallStatus.REJECTED: Sign(
        "neutral", "rejected", "A person said no, or the time ran out; no attempt", "the model is told", over=True
    ),
    CallStatus.CANCELLED: Sign("neutral", "slash", "The run was stopped first; no attempt", "nobody", over=True),
}

MODEL_CALL: Mapping[str, Sign] = {
    ModelCallStatus.DISPATCHED: Sign("clear", "sent", "The model was asked; no answer yet", "the provider"),
    ModelCallStatus.RETRY_WAIT: Sign("caution", "retry", "A known, passing error; asked again later", "the clock"),
    ModelCallStatus.UNCERTAIN: Sign(
        "unknown", "unknown", "Asked; no stored answer. It may be billed", "a worker asks again"
    ),
    ModelCallStatus.SEALED: Sign("clear", "done", "The turn is stored with its ordered proposals", "nobody", over=True),
    ModelCallStatus.FAILED: Sign("stop", "failed", "The provider refused for good", "nobody", over=True),
    ModelCallStatus.CANCELLED: Sign("neutral", "slash", "The run ended first", "nobody", over=True),
}

WAIT: Mapping[str, Sign] = {
    WaitStatus.OPEN: Sign("caution", "caution", "Asked, bound to one revision and its digests", "an approver"),
    WaitStatus.APPROVED: Sign("clear", "done", "Approved, not yet used", "a worker", over=True),
    WaitStatus.REJECTED: Sign("neutral", "rejected", "Rejected, not yet told to the model", "a worker", over=True),
    WaitStatus.ANSWERED: Sign("clear", "done", "Answered, not yet told to the model", "a worker", over=True),
    WaitStatus.CONSUMED: Sign("neutral", "settled", "Decided and used; the run moved on", "nobody", over=True),
    WaitStatus.EXPIRED: Sign(
        "neutral", "clock", "Its time ran out; counts as rejected", "the model is told", over=True
    ),
    WaitStatus.CANCELLED: Sign("neutral", "slash", "The run was stopped first", "nobody", over=True),
    WaitStatus.SUPERSEDED: Sign(
        "neutral", "slash", "The run moved; a new wait replaces it", "an approver, anew", over=True
    ),
    WaitStatus.INVALIDATED: Sign(
        "caution", "retry", "Its ground fell away before it was used", "an approver, anew", over=True
    ),
}

CONTROL: Mapping[str, Sign] = {
    ControlStatus.ACCEPTED: Sign("stop", "stopring", "It is stored; the worker has not met it yet", "the worker"),
    ControlStatus.ADOPTED: Sign(
        "stop", "stopping", "The worker starts nothing new; what was sent may land", "the clock"
    ),
    ControlStatus.SETTLED: Sign(
        "neutral", "stop", "It is over: the run is closed, or was resumed", "nobody", over=True
    ),
    ControlStatus.MOOT: Sign("neutral", "slash", "The run ended by itself first", "nobody", over=True),
}

OBLIGATION: Mapping[str, Sign] = {
    ObligationStatus.OPEN: Sign("caution", "proposed", "Promised, not yet done", "the run"),
    ObligationStatus.FULFILLED: Sign("clear", "done", "Done, with a receipt", "nobody", over=True),
    ObligationStatus.RELEASED: Sign("neutral", "slash", "A person let it go, with a reason", "nobody", over=True),
    ObligationStatus.CARRIED: Sign("neutral", "settled", "Carried over to another run", "that run", over=True),
}

COMMITMENT: Mapping[str, Sign] = {
    CommitmentStatus.LIVE: Sign("clear", "done", "Holds at its source", "nobody", over=True),
    CommitmentStatus.WITHDRAWN: Sign("stop", "denied", "No longer holds; the run can't go on on it", "a person"),
}

PUBLICATION: Mapping[str, Sign] = {
    PublicationStatus.REQUESTED: Sign("neutral", "proposed", "Asked for; nothing is sent", "an approver", over=True),
    PublicationStatus.DISPATCHED: Sign("clear", "sent", "Sent; no answer yet", "the other side"),
    PublicationStatus.PUBLISHED: Sign("clear", "done", "Readable there", "nobody", over=True),
    PublicationStatus.FAILED: Sign("stop", "failed", "Known not to be there", "nobody", over=True),
    PublicationStatus.UNCERTAIN: Sign("unknown", "unknown", "It may be there", "a reconciler"),
}

ATTEMPT: Mapping[str, Sign] = {
    AttemptOutcome.OK: Sign("clear", "done", "Answered", "nobody", over=True),
    AttemptOutcome.ERROR_RETRYABLE: Sign("caution", "retry", "Answered: not now", "the clock", over=True),
    AttemptOutcome.ERROR_FINAL: Sign("stop", "failed", "Answered: no", "nobody", over=True),
    AttemptOutcome.ERROR_REFUSED: Sign("stop", "denied", "Answered: not for us", "nobody", over=True),
    AttemptOutcome.CONTEXT_OVERFLOW: Sign("stop", "failed", "Answered: the request is too long", "nobody", over=True),
    AttemptOutcome.NO_RESPONSE: Sign("unknown", "unknown", "No stored answer", "see the call"),
}

# What is not the state of a row, and still a sign: the marks beside a title.
BADGE: Mapping[str, Sign] = {
    "DIGEST_VERIFIED": Sign(
        "clear",
        "done",
        "The stored bytes were digested anew for this page, and are what was written",
        "nobody",
        over=True,
    ),
    "DOES_NOT_VERIFY": Sign(
        "stop",
        "stop",
        "The stored bytes are not what was written. No run goes on from them",
        "whoever runs the database",
    ),
    "A_CHECK_FAILED": Sign("stop", "stop", "One of the checks of this revision failed; the page names it", "a person"),
    "BODY_PURGED": Sign(
        "neutral", "neutral", "Retention let the body go. Its envelope and its digest stay", "nobody", over=True
    ),
    "HEAD": Sign("neutral", "station", "The one revision that its run can go on from", "nobody"),
    "IN_FORCE": Sign("clear", "done", "What holds now", "nobody"),
    "STANDS": Sign("clear", "done", "It holds until its end, its last use or its revocation", "nobody"),
}

# The line between this page and the server, as the top bar says it.
LIVE: Mapping[str, Sign] = {
    "live": Sign("clear", "lamp", "Changes arrive by themselves, within a second", "nobody"),
    "catching": Sign("caution", "catch", "The page asks for what changed meanwhile", "this page"),
    "asking": Sign("caution", "clock", "There is no live line; the page asks every 5 s", "this page"),
    "offline": Sign(
        "stop",
        "stop",
        "The server does not answer. The page shows what was known then, and its forms are off",
        "this page",
    ),
    "frozen": Sign("neutral", "freeze", "You asked that nothing moves; changes are counted and wait", "you"),
    "elsewhere": Sign(
        "stop",
        "stop",
        "You act in another tenant now. What you typed is kept",
        "you: act in the tenant of this page again",
    ),
    "ended": Sign("stop", "stop", "Your session has ended. What you typed is kept", "you: sign in again"),
}

MACHINES: Mapping[str, Mapping[str, Sign]] = {
    "run": RUN,
    "call": CALL,
    "model": MODEL_CALL,
    "wait": WAIT,
    "control": CONTROL,
    "obligation": OBLIGATION,
    "commitment": COMMITMENT,
    "publication": PUBLICATION,
    "attempt": ATTEMPT,
    "badge": BADGE,
    "live": LIVE,
}

# What each of them is the state of.
MACHINE_WORDS: Mapping[str, str] = {
    "run": "Run",
    "call": "Tool call",
    "model": "Model call",
    "wait": "Wait",
    "control": "Stop or pause",
    "obligation": "Obligation",
    "commitment": "Constraint, assumption",
    "publication": "Publication",
    "attempt": "Attempt",
    "badge": "Badge",
    "live": "Live state",
}


@dataclass(frozen=True)
class Weight:
    """How an effect class is drawn: the heavier the ink (1 to 4), the harder to take back."""

    step: int
    icon: str
    means: str
    no_answer: str


EFFECT: Mapping[str, Weight] = {
    EffectClass.READ_ONLY: Weight(1, "eye", "Changes nothing outside", "Sent again by itself"),
    EffectClass.IDEMPOTENT: Weight(
        2, "same", "The other side keeps our key and does it once", "Sent again with the same key, inside its window"
    ),
    EffectClass.QUERYABLE: Weight(
        3, "ask", "The other side can say whether it happened", "Asked first; sent again only on a clear no"
    ),
    EffectClass.NON_IDEMPOTENT: Weight(
        4, "once", "May happen twice if sent twice", "A person is asked; never sent again by itself"
    ),
}

# Why a run is held, as a row title, and what helps.
HOLD: Mapping[str, tuple[str, str]] = {
    HoldReason.UNCERTAIN_CALL: ("A call may have happened", "Say what is known about the call"),
    HoldReason.RESUME_REFUSED: ("A guard refused the resume", "Mend the cause, then ask it to try again"),
    HoldReason.SAVE_REFUSED: ("Its next revision can't be stored", "Read why, put it right, then ask it to try again"),
    HoldReason.SAVE_UNKNOWN: ("Nobody knows whether a save happened", "Look at the database, then ask it to try again"),
    HoldReason.STORE_ERROR: ("The database refuses its statements", "Look at the database, then ask it to try again"),
    HoldReason.TAKEOVER_LIMIT: ("Its workers died too often", "Look at the workers, then ask it to try again"),
    HoldReason.BUDGET: ("The budget is spent", "Raise the cap, or stop the run"),
    HoldReason.PAUSED: ("A person has paused it", "Resume it, or stop it"),
    HoldReason.OBLIGATION_OPEN: ("A promise is still open", "Release the promise with a reason, or stop the run"),
}

# Which resume guard refused, as a title, and what helps. Whatever it was, the run can be stopped or settled.
GUARD: Mapping[str, tuple[str, str]] = {
    "DIGEST_MISMATCH": (
        "What is stored is not what was written",
        "Find out who changed it, put it back, then ask the run to try again",
    ),
    "SCHEMA": ("Its checkpoint has another format", "Go back to the release that wrote it, then ask it to try again"),
    "PIN_UNAVAILABLE": (
        "The agent is not the one that it started with",
        "Bring that version back, then ask it to try again",
    ),
    "PURGED": ("The body of its head was purged", "Settle the run; or fork a revision that is kept"),
    "MISSING_REF": ("Something that it rests on is not there", "Restore it, then ask the run to try again"),
    "AUTHORITY": (
        "Whom it acts for may not do this any more",
        "Give the person the role again, then ask it to try again",
    ),
    "WITHDRAWN": (
        "What it rests on was withdrawn",
        "Stop it, and start a new run without that. Trying again is refused as long as it is withdrawn",
    ),
}


def sign_of(machine: str, status: str) -> Sign:
    """The sign of one state. Raises KeyError for a machine or state that the vocabulary does not have."""
    return MACHINES[machine][status]
