"""Evidence against what was accepted about a call: raise a flag, and close one (T38). Neither flips a verdict."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from checkpoints.services import head_lock
from receipts.errors import ContradictionClosed, NothingContradicted, RetryNeedsApprover
from receipts.selectors import access_call, access_contradiction, contradiction_now
from receipts.services import Against, call_give_up, call_lock, contradiction_close, contradiction_raise
from receipts.states import CallStatus, Closing, EvidenceSource, Verdict
from runs.canonical import digest
from runs.leases import lease_lock_any
from runs.services import run_lock
from runtime.services.guards import REASON_LIMIT, act_refusal, audit, audited, text_refusal
from runtime.services.reconcile import wake_reconciled


@dataclass(frozen=True)
class EvidenceGiven:
    """What a person has seen that speaks against what was accepted. `says` is EXECUTED or NOT_EXECUTED."""

    says: Verdict
    evidence: str
    external_ref: str = ""


@dataclass(frozen=True)
class Flagged:
    """A flag was raised, or closed."""

    contradiction_id: UUID
    call_id: UUID


def call_contradict(*, actor: Actor, call_id: UUID, said: EvidenceGiven) -> Flagged | Refused:
    """Raise a flag: a person has evidence against what was accepted about a call. A retry that is pending is not sent.

    Needs the permission to reconcile. Refused where nothing was accepted that says otherwise. Raises NotFound.
    """
    run_id = access_call(actor=actor, id=call_id).run_id
    with transaction.atomic():
        outcome = _contradict(actor, run_id, call_id, said)
    return audited(outcome, actor, "call.contradict", "call", call_id)


def _contradict(actor: Actor, run_id: UUID, call_id: UUID, said: EvidenceGiven) -> Flagged | Refused:
    if not actor.may(Permission.RECONCILE):
        return NotAllowed({"permission": "reconcile", "actor": actor.name})
    refused = text_refusal("evidence", said.evidence, REASON_LIMIT, needed=True)
    refused = refused or text_refusal("external_ref", said.external_ref, 500, one_line=True)
    if refused is None and said.says == Verdict.PROCEED_UNKNOWN:
        refused = Invalid({"field": "says", "reason": "say EXECUTED or NOT_EXECUTED."})
    if refused is not None:
        return refused
    _lock(run_id)
    call = call_lock(call_id)
    evidence, ref = said.evidence.strip(), said.external_ref.strip() or None
    against = Against(call.attempts, EvidenceSource.HUMAN, said.says, evidence, ref, actor.label)
    flag = contradiction_raise(call, against)
    if flag is None:
        return NothingContradicted({"says": said.says})
    detail = {"contradiction": str(flag.id), "says": str(said.says), "evidence_digest": digest(evidence.encode())}
    audit(actor, "call.contradict", "call", call_id, detail)
    return Flagged(flag.id, call_id)


def contradiction_settle(*, actor: Actor, contradiction_id: UUID, closing: Closing, reason: str) -> Flagged | Refused:
    """Close a flag. Where a retry waits: SEND_AGAIN (by an approver) or DO_NOT_SEND, which leaves the outcome unknown;
    else NOTED. Needs the permission to reconcile; a run that was held by it is queued. Raises NotFound.
    """
    call = access_contradiction(actor=actor, id=contradiction_id).tool_call
    with transaction.atomic():
        outcome = _settle(actor, call, contradiction_id, closing, reason.strip())
    return audited(outcome, actor, "contradiction.close", "call", call.id)


def _settle(actor: Actor, found: Any, contradiction_id: UUID, closing: Closing, reason: str) -> Flagged | Refused:
    refused = act_refusal(actor, Permission.RECONCILE, reason)
    if refused is None and closing == Closing.SEND_AGAIN and not actor.may(Permission.DECIDE):
        refused = RetryNeedsApprover()
    if refused is not None:
        return refused
    run = _lock(found.run_id)
    call = call_lock(found.id)
    flag = contradiction_now(contradiction_id)
    if flag.closed_at is not None:
        return ContradictionClosed({"by": flag.closed_by, "at": f"{flag.closed_at:%Y-%m-%d %H:%M:%S} UTC"})
    waits = call.status == CallStatus.RETRY_WAIT
    if waits == (closing == Closing.NOTED):
        why = "a retry waits: send it again, or do not." if waits else "nothing waits to be sent; note it."
        return Invalid({"field": "closing", "reason": why})
    contradiction_close(flag, closing=closing, reason=reason, actor=actor.label)
    if closing == Closing.DO_NOT_SEND:
        call_give_up(call, why="evidence speaks against that it did not happen", actor=actor.label, reason=reason)
    detail = {"contradiction": str(flag.id), "closing": str(closing), "reason_digest": digest(reason.encode())}
    wake_reconciled(run, f"contra:{flag.id}", actor=actor.label)
    audit(actor, "contradiction.close", "call", call.id, detail)
    return Flagged(flag.id, call.id)


def _lock(run_id: UUID) -> Any:
    """The run, locked in the order of ruling 37."""
    lease_lock_any(run_id)
    run = run_lock(run_id)
    head_lock(run_id)
    return run
