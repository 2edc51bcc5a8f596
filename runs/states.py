"""The states of a run, a stop request and a wakeup, and which moves are legal.

Pure Python. Buttons, services and tests ask the predicates; the database triggers are generated from the same tables.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

Moves = list[tuple[str, str]]


class RunStatus(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    HELD = "HELD"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    SETTLED = "SETTLED"


LIVE_RUN = frozenset({"QUEUED", "RUNNING", "WAITING", "HELD", "STOPPING"})
ENDED_RUN = frozenset({"COMPLETED", "CANCELLED", "FAILED", "SETTLED"})
HOLDERLESS_RUN = frozenset({"QUEUED", "WAITING", "HELD"})

RUN_MOVES: Moves = [
    ("QUEUED", "RUNNING"),
    ("QUEUED", "HELD"),
    ("QUEUED", "CANCELLED"),
    ("QUEUED", "SETTLED"),
    ("RUNNING", "QUEUED"),
    ("RUNNING", "WAITING"),
    ("RUNNING", "HELD"),
    ("RUNNING", "STOPPING"),
    ("RUNNING", "COMPLETED"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "SETTLED"),
    ("WAITING", "QUEUED"),
    ("WAITING", "HELD"),
    ("WAITING", "CANCELLED"),
    ("WAITING", "SETTLED"),
    ("HELD", "WAITING"),
    ("HELD", "QUEUED"),
    ("HELD", "CANCELLED"),
    ("HELD", "SETTLED"),
    ("STOPPING", "CANCELLED"),
]


class HoldReason(StrEnum):
    UNCERTAIN_CALL = "UNCERTAIN_CALL"
    RESUME_REFUSED = "RESUME_REFUSED"
    TAKEOVER_LIMIT = "TAKEOVER_LIMIT"
    BUDGET = "BUDGET"
    OBLIGATION_OPEN = "OBLIGATION_OPEN"
    PAUSED = "PAUSED"
    SAVE_REFUSED = "SAVE_REFUSED"
    SAVE_UNKNOWN = "SAVE_UNKNOWN"
    STORE_ERROR = "STORE_ERROR"


class Origin(StrEnum):
    """Where a run comes from: nothing, an ended run that it continues, a revision that it forks, or its parent."""

    NEW = "NEW"
    CONTINUED = "CONTINUED"
    FORKED = "FORKED"
    CHILD = "CHILD"


# One of these lives per thread; forks and children are exempt (T32).
THREAD_ROOT = frozenset({"NEW", "CONTINUED"})


class RecoveryPolicy(StrEnum):
    RESUME_IN_PLACE = "RESUME_IN_PLACE"
    SETTLE = "SETTLE"


class ControlKind(StrEnum):
    STOP = "STOP"
    PAUSE = "PAUSE"


class ControlStatus(StrEnum):
    ACCEPTED = "ACCEPTED"
    ADOPTED = "ADOPTED"
    SETTLED = "SETTLED"
    MOOT = "MOOT"


OPEN_CONTROL = frozenset({"ACCEPTED", "ADOPTED"})

CONTROL_MOVES: Moves = [
    ("ACCEPTED", "ADOPTED"),
    ("ACCEPTED", "SETTLED"),
    ("ACCEPTED", "MOOT"),
    ("ADOPTED", "SETTLED"),
]


class ScopeKind(StrEnum):
    """What a stop or a pause of more than one run is about: everything of a tenant, of an agent, or of a thread."""

    TENANT = "TENANT"
    AGENT = "AGENT"
    THREAD = "THREAD"


class ScopeStatus(StrEnum):
    STANDING = "STANDING"
    LIFTED = "LIFTED"


SCOPE_MOVES: Moves = [("STANDING", "LIFTED")]


def can_lift(status: str) -> bool:
    """A stop or a pause of a scope stands until it is lifted, once."""
    return status == ScopeStatus.STANDING


@dataclass(frozen=True)
class Scope:
    """What an act on more than one run is about. `agent_id` or `thread_id` is given as its kind says."""

    tenant_id: UUID
    kind: ScopeKind
    agent_id: UUID | None = None
    thread_id: UUID | None = None


class BulkAct(StrEnum):
    """What can be done to many runs at once: stop them, pause them, or ask held ones to try again."""

    STOP = "STOP"
    PAUSE = "PAUSE"
    RESUME = "RESUME"


class BulkStatus(StrEnum):
    """What came of one run of such an act."""

    PENDING = "PENDING"
    DONE = "DONE"
    REFUSED = "REFUSED"


BULK_MOVES: Moves = [("PENDING", "DONE"), ("PENDING", "REFUSED")]
BULK_RUNS = 10_000  # of one act
# The runs that an act means something to; the others of a filter are left out, and counted.
BULK_MEANS: dict[str, frozenset[str]] = {
    BulkAct.STOP: LIVE_RUN,
    BulkAct.PAUSE: LIVE_RUN - {"STOPPING"},
    BulkAct.RESUME: frozenset({"HELD"}),
}


RUN_TAGS = 20  # of one run
TAG = re.compile(r"[a-z0-9][a-z0-9._:/-]{0,39}")


def tag_fault(tag: str) -> str:
    """Why a text is no tag, as a sentence; "" where it is one."""
    if TAG.fullmatch(tag):
        return ""
    return "a tag has 1 to 40 characters: small letters, digits and . _ : / -, and begins with a letter or a digit."


def typed_tags(text: str) -> list[str]:
    """The tags in a typed line: spaces or commas stand between them."""
    return [tag for tag in re.split(r"[\s,]+", text) if tag]


class WakeupCause(StrEnum):
    DECISION = "DECISION"
    TIMER = "TIMER"
    RECONCILED = "RECONCILED"
    RESUME = "RESUME"
    INTENT = "INTENT"
    SUPERSEDED = "SUPERSEDED"
    INVALIDATED = "INVALIDATED"
    WITHDRAWN = "WITHDRAWN"
    CHILD = "CHILD"


# What can end a hold. A decision can't: a run that is held with an approved wait needs its blocker gone first.
UNHOLDING_CAUSES = frozenset({WakeupCause.RECONCILED, WakeupCause.RESUME})
WAKING_CAUSES = frozenset(WakeupCause)


class WakeupStatus(StrEnum):
    PENDING = "PENDING"
    CONSUMED = "CONSUMED"
    REFUSED = "REFUSED"
    CANCELLED = "CANCELLED"


WAKEUP_MOVES: Moves = [("PENDING", "CONSUMED"), ("PENDING", "REFUSED"), ("PENDING", "CANCELLED")]


class BudgetUnit(StrEnum):
    MODEL_CALLS = "model_calls"
    TOOL_CALLS = "tool_calls"
    TOKENS = "tokens"
    USD_MICROS = "usd_micros"
    WALL_MS = "wall_ms"


# Counted for every run, capped or not. Wall time without a cap is not: the attempts' own times say it.
ALWAYS_COUNTED = frozenset({BudgetUnit.MODEL_CALLS, BudgetUnit.TOOL_CALLS, BudgetUnit.TOKENS, BudgetUnit.USD_MICROS})


class BudgetEntryKind(StrEnum):
    RESERVE = "RESERVE"
    SETTLE = "SETTLE"
    RELEASE = "RELEASE"
    HOLD_UNKNOWN = "HOLD_UNKNOWN"
    OVERRUN = "OVERRUN"


class RefusalKind(StrEnum):
    STALE_FENCE = "STALE_FENCE"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    VERSION_CONFLICT = "VERSION_CONFLICT"
    ILLEGAL_PHASE = "ILLEGAL_PHASE"
    SCHEMA = "SCHEMA"
    DIGEST_MISMATCH = "DIGEST_MISMATCH"
    MISSING_REF = "MISSING_REF"
    PURGED = "PURGED"
    FORBIDDEN_CONTENT = "FORBIDDEN_CONTENT"
    FIELD_LIMIT = "FIELD_LIMIT"
    AUTHORITY = "AUTHORITY"
    PIN_UNAVAILABLE = "PIN_UNAVAILABLE"
    BUDGET = "BUDGET"
    LATE_RESULT = "LATE_RESULT"
    WAIT_UNBINDABLE = "WAIT_UNBINDABLE"
    ANCESTOR_INTENT = "ANCESTOR_INTENT"
    SUPERSEDED = "SUPERSEDED"
    WITHDRAWN = "WITHDRAWN"
    STALE_FACTS = "STALE_FACTS"
    CONFIG_DRIFT = "CONFIG_DRIFT"
    TAKEOVER_LIMIT = "TAKEOVER_LIMIT"
    UNCERTAIN_CALL = "UNCERTAIN_CALL"
    SAVE_UNKNOWN = "SAVE_UNKNOWN"
    STORE_ERROR = "STORE_ERROR"


@dataclass(frozen=True)
class Holding:
    """A lease that this worker holds: what every write must prove."""

    tenant_id: UUID
    run_id: UUID
    owner: str
    fence: int
    takeover: bool


def can_stop(status: str, stop_open: bool) -> bool:
    """A run that has not ended and has no open stop can be stopped."""
    return status in LIVE_RUN and not stop_open


def can_abort(status: str) -> bool:
    """A run that a worker may hold can be closed without waiting for what is on the wire; else a stop closes it at once."""
    return status in LIVE_RUN - HOLDERLESS_RUN


_RETRIED_HOLDS = frozenset(
    {"RESUME_REFUSED", "TAKEOVER_LIMIT", "BUDGET", "SAVE_REFUSED", "SAVE_UNKNOWN", "STORE_ERROR", "PAUSED"}
)


def can_pause(status: str, control_open: bool) -> bool:
    """A run that has not ended can be paused, unless a pause or a stop of it is open."""
    return status in LIVE_RUN - {"STOPPING"} and not control_open


def can_continue(status: str) -> bool:
    """A run that ended without completing can be continued as a new run (A-075, A-076)."""
    return status in ENDED_RUN and status != "COMPLETED"


def can_retry_resume(status: str, hold_reason: str | None) -> bool:
    """A refused resume, a spent takeover limit, a breached budget, a save or a statement that failed, or a pause waits for a
    person.
    """
    return status == "HELD" and hold_reason in _RETRIED_HOLDS


def can_raise_cap(status: str) -> bool:
    """A cap can be raised until the run has ended, whoever holds it."""
    return status in LIVE_RUN


def can_settle(status: str) -> bool:
    """A run can be settled on request while no worker holds it."""
    return status in HOLDERLESS_RUN


class NextAct(StrEnum):
    """What a person can do about a run now; the names of the acts on every door."""

    DECIDE = "decide"
    RECONCILE = "reconcile"
    RELEASE = "release"
    RAISE_CAP = "raise-cap"
    RESUME = "resume"
    CONTINUE = "continue"
    PAUSE = "pause"
    STOP = "stop"
    ABORT = "abort"
    SETTLE = "settle"


_UNHELD_BY: dict[str, NextAct] = {
    "UNCERTAIN_CALL": NextAct.RECONCILE,
    "OBLIGATION_OPEN": NextAct.RELEASE,
    "BUDGET": NextAct.RAISE_CAP,
}


_PAUSABLE = frozenset({"QUEUED", "RUNNING", "WAITING"})


def next_acts(status: str, hold_reason: str | None) -> tuple[NextAct, ...]:
    """What can be done about a run in this state, what helps it on first. The services decide again."""
    if status in ENDED_RUN:
        return (NextAct.CONTINUE,) if can_continue(status) else ()
    helping = [NextAct.DECIDE] if status == "WAITING" else []
    if status == "HELD" and hold_reason in _UNHELD_BY:
        helping.append(_UNHELD_BY[hold_reason])
    if can_retry_resume(status, hold_reason):
        helping.append(NextAct.RESUME)
    if status in _PAUSABLE:
        helping.append(NextAct.PAUSE)
    last = NextAct.SETTLE if can_settle(status) else NextAct.ABORT
    return (*helping, NextAct.STOP, last)


# The refusals that hold a run, by the resume guard that gives them (model.md section 3.4).
GUARD_OF: dict[str, int] = {
    "TAKEOVER_LIMIT": 1,
    "UNCERTAIN_CALL": 3,
    "SAVE_UNKNOWN": 4,
    "DIGEST_MISMATCH": 5,
    "PURGED": 5,
    "SCHEMA": 6,
    "PIN_UNAVAILABLE": 7,
    "MISSING_REF": 8,
    "SUPERSEDED": 9,
    "AUTHORITY": 10,
    "WITHDRAWN": 11,
    "STALE_FACTS": 12,
    "CONFIG_DRIFT": 13,
}


def can_revise_goal(status: str) -> bool:
    """The goal can be revised only while no worker holds the run."""
    return status in HOLDERLESS_RUN
