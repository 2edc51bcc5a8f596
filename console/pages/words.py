"""The words for what is stored as a code: phases, reasons for a save, refusals, moves, outcomes. Pure: no Django, no rows.

A test holds each table and its enum together, so that no page falls back on a code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from accounts.states import Permission, roles_with
from approvals.states import DecisionVerdict
from checkpoints.states import Phase, Trigger
from console.pages import signs, units
from receipts.states import AttemptOutcome, Closing, EvidenceSource, Verdict
from runs.states import BudgetUnit, HoldReason, RefusalKind


def plain(code: str) -> str:
    """A code whose own words say it: AWAITING_APPROVAL is “awaiting approval”."""
    return code.replace("_", " ").lower()


PHASE: Mapping[str, str] = {phase: plain(phase) for phase in Phase}

TRIGGER: Mapping[str, str] = {
    Trigger.INIT: "the run was admitted",
    Trigger.CURSOR: "the run moved on",
    Trigger.AFTER_EFFECT: "a result was stored",
    Trigger.COMPACTION: "the conversation was compacted",
    Trigger.CLOSING: "the run ended",
    Trigger.INTENT: "the goal or its terms were revised",
    Trigger.MIGRATION: "it was written anew in the format of today",
    Trigger.REPIN: "the run was pinned anew",
}

OUTCOME: Mapping[str | None, str] = {
    None: "sent, no answer yet",
    AttemptOutcome.OK: "answered",
    AttemptOutcome.ERROR_RETRYABLE: "answered: not now",
    AttemptOutcome.ERROR_FINAL: "answered: no",
    AttemptOutcome.ERROR_REFUSED: "answered: not for us",
    AttemptOutcome.CONTEXT_OVERFLOW: "answered: the request is too long",
    AttemptOutcome.NO_RESPONSE: "no answer",
}

SAID: Mapping[str, str] = {
    DecisionVerdict.APPROVE: "approved",
    DecisionVerdict.REJECT: "rejected",
    DecisionVerdict.ANSWER: "answered",
    DecisionVerdict.DECLINE: "declined to answer",
}

VERDICT: Mapping[str, str] = {
    Verdict.EXECUTED: "it happened",
    Verdict.NOT_EXECUTED: "it did not happen",
    Verdict.PROCEED_UNKNOWN: "go on without knowing",
}

SOURCE: Mapping[str, str] = {
    EvidenceSource.LATE_RESULT: "a late answer",
    EvidenceSource.PROBE: "a probe",
    EvidenceSource.HUMAN: "a person",
}

CLOSING: Mapping[str, str] = {
    Closing.SEND_AGAIN: "it is sent again",
    Closing.DO_NOT_SEND: "it is not sent",
    Closing.NOTED: "noted",
}

# What was refused to the run, as it follows on “Refused:”.
REFUSAL: Mapping[str, str] = {
    RefusalKind.STALE_FENCE: "a write under an older fence",
    RefusalKind.LEASE_EXPIRED: "a write under a lease that had run out",
    RefusalKind.VERSION_CONFLICT: "a save on a head that had moved",
    RefusalKind.ILLEGAL_PHASE: "a save in a phase that can't follow",
    RefusalKind.SCHEMA: "a checkpoint in a format that is not known here",
    RefusalKind.DIGEST_MISMATCH: "stored bytes that are not what was written",
    RefusalKind.PURGED: "a checkpoint whose body was purged",
    RefusalKind.MISSING_REF: "a checkpoint that rests on something which is not there",
    RefusalKind.AUTHORITY: "going on for somebody who may not do this any more",
    RefusalKind.PIN_UNAVAILABLE: "going on with another agent than it started with",
    RefusalKind.WITHDRAWN: "going on with what was withdrawn",
    RefusalKind.FORBIDDEN_CONTENT: "a save with a secret in it",
    RefusalKind.FIELD_LIMIT: "a save beyond its limits",
    RefusalKind.BUDGET: "a call without room in the budget",
    RefusalKind.LATE_RESULT: "an answer that came too late",
    RefusalKind.WAIT_UNBINDABLE: "a wait without a revision to bind it to",
    RefusalKind.ANCESTOR_INTENT: "a call that another run of the lineage holds",
    RefusalKind.SUPERSEDED: "what was decided before the run moved",
    RefusalKind.STALE_FACTS: "a call that rests on facts which lapsed",
    RefusalKind.CONFIG_DRIFT: "terms that its agent declares by now",
    RefusalKind.TAKEOVER_LIMIT: "one more takeover",
    RefusalKind.UNCERTAIN_CALL: "going on over a call that may have happened",
    RefusalKind.STORE_ERROR: "a statement, by the database",
    RefusalKind.SAVE_UNKNOWN: "going on over a save that nobody knows of",
}

# Why a run moved from one status to another. `{who}` is the actor.
CAUSE: Mapping[str, str] = {
    "ADMITTED": "Run admitted",
    "ACQUIRED": "{who} took the lease",
    "REFENCED": "{who} raised its fence and read the run anew",
    "TAKEOVER": "{who} took over from a worker that fell silent",
    "DRAIN": "{who} was asked to stop, and gave the run back",
    "RETRY": "Told “not now”: queued until the next try is due",
    "CAP_RAISED": "{who} raised a cap",
    "STORE_ERROR": "The database refused a statement of {who}",
    "PAUSED": "Held: a person has paused it",
    "RESUMED": "Resumed by {who}",
    "REFUSED_OFTEN": "Failed: the model went on proposing what is refused",
    "WAIT_OPENED": "Waiting for a person",
    "STILL_WAITING": "Waiting again: a decision is still missing",
    "WAIT_EXPIRED": "Queued: nobody decided in time",
    "DECISION": "Queued by a decision",
    "CHILD_LIVES": "Waiting for a child run to end",
    "CHILD": "Queued: a child run has ended",
    "TIMER": "Queued: its time has come",
    "INTENT": "Queued: the goal or its terms were revised",
    "SUPERSEDED": "Queued: the run moved, and what was asked is asked anew",
    "RECONCILED": "Queued by a verdict",
    "ANCESTOR_INTENT": "Held: another run of the lineage may have done it",
    "ANCESTOR_SETTLED": "Queued: the call that held it is settled",
    "OBLIGATION_RELEASED": "Queued: a promise was released",
    "WOKEN": "Queued: something woke it at once",
    "STOP_ADOPTED": "Stopping: nothing new starts",
    "STOPPED": "Stopped",
    "ABORTED": "Closed without waiting for what was on its way",
    "FINISHED": "Finished",
    "SETTLED": "Settled by what is known",
    "FAILED": "Failed: it can’t go on",
    "AMENDED": "Queued: {who} wrote a call anew",
    "WITHDRAWN": "What it rests on was withdrawn",
    "POLICY_CHANGED": "Queued: another policy came into force, so it is asked anew",
    "TOOL_CHANGED": "Queued: a tool was changed after people were asked about it",
    "RESUME": "Queued: a person asked it to try again",
    "INVALIDATED": "Queued: what was asked became void",
}

# What the loop writes of a unit that has no room.
_LACKING = re.compile(
    rf"\b(?P<unit>{'|'.join(BudgetUnit)}): (?P<needed>\d+) needed, (?P<room>\d+) of (?P<cap>\d+) left"
)
_CODED = re.compile(r"^(?P<code>[A-Z][A-Z_]+)(?: at (?P<place>[^:]+))?: (?P<said>.*)$", re.DOTALL)


@dataclass(frozen=True)
class Held:
    """Why a run is held: a title, what was found as it stands after it, both as a sentence, what helps, the code, and the
    guard that refused the resume, or nothing.
    """

    title: str
    found: str
    sentence: str
    helps: str
    code: str
    guard: str = ""


def held(reason: str, detail: str) -> Held:
    """A hold in words, from what is stored of it. What a person wrote is quoted; a code in front of the detail goes last."""
    coded = _CODED.match(detail)
    guard = coded["code"] if coded and reason == HoldReason.RESUME_REFUSED else ""
    title, helps = signs.GUARD.get(guard, signs.HOLD[reason])
    code = f"{reason}, {coded['code']}" if coded else reason
    if coded:
        found = ended(coded["said"] + (f" (at {coded['place']})" if coded["place"] else ""))
        return Held(title, found, f"{title}: {found}", helps, code, guard)
    if reason == HoldReason.BUDGET:
        detail = capitalised(_LACKING.sub(_lacking, detail))
    found = ended(f"“{detail}”" if detail and reason == HoldReason.PAUSED else detail)
    return Held(title, found, f"{title}. {found}".strip(), helps, code)


def _lacking(found: re.Match[str]) -> str:
    needed, room, cap = (units.amount(found["unit"], int(found[part])) for part in ("needed", "room", "cap"))
    return f"{units.NAMES[BudgetUnit(found['unit'])]}: {needed} needed, {room} of {cap} left"


def capitalised(words: str) -> str:
    """The first letter large, the others as they are."""
    return words[:1].upper() + words[1:]


def ended(words: str) -> str:
    """A sentence with its full stop, unless it has an end."""
    return words if not words or words.rstrip("”").endswith((".", "!", "?", "…")) else f"{words}."


def refused(kind: str) -> str:
    """A refusal in words."""
    return f"Refused: {REFUSAL[kind]}"


def moved(cause: str, to_status: str, who: str) -> str:
    """A move of a run in words. A hold is said by its reason."""
    if cause in CAUSE:
        return CAUSE[cause].format(who=who)
    if cause in signs.HOLD:
        return f"Held: {signs.HOLD[cause][0][:1].lower()}{signs.HOLD[cause][0][1:]}"
    return f"{to_status.replace('_', ' ').capitalize()}: {cause.replace('_', ' ').lower()}"


def needs_role(permission: Permission, what: str = "This") -> str:
    """Why an act is off for somebody whose roles do not hold its permission: the role that they would need, by its name."""
    named = " or ".join(role.value for role in roles_with(permission))
    return f"{what} needs the role {named}, which you do not have in this tenant."
