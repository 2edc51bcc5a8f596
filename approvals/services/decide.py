"""Writes of decisions. `approval_decide` is the one decision function behind every door."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.audit import audit_append, audit_refused
from accounts.codec import BodyChanged
from accounts.errors import Invalid, NotAllowed, Refused
from accounts.models import ClockTimestamp, Tenant
from accounts.services import notice_write
from accounts.states import Actor, NoticeKind, Permission
from approvals.errors import (
    AlreadyDecided,
    ArgsChanged,
    CheckpointChanged,
    CheckpointDiffers,
    Expired,
    GroundWithdrawn,
    RunStopped,
    SelfApproval,
    SelfWritten,
    StaleRevision,
    Superseded,
)
from approvals.models import Decision, Vote, Wait
from approvals.selectors import access_wait, decision_of, newest_wait
from approvals.services.wait import queue_if_all_are_closed
from approvals.states import DecisionVerdict, Risk, WaitStatus
from checkpoints.envelope import secret_in
from checkpoints.errors import Unreadable
from checkpoints.selectors import checkpoint_of, verified_body, withdrawn_commitment
from receipts.models import ToolCall
from receipts.selectors import call_arguments
from runs.canonical import NotCanonical, check, digest
from runs.faults import reach
from runs.live import hint_changed
from runs.models import Run
from runs.selectors import database_now
from runs.services import run_lock
from runs.states import WakeupCause, WakeupStatus
from runs.wakeups import wait_wakeups_close, wakeup_write

REASON_LIMIT = 4000


@dataclass(frozen=True)
class Decided:
    """A decision was stored."""

    wait_id: UUID
    verdict: str
    by: str


@dataclass(frozen=True)
class Seen:
    """What the person was shown when they decided."""

    revision: int
    digest: str
    args_digest: str


def approval_decide(
    *, actor: Actor, wait_id: UUID, verdict: DecisionVerdict, seen: Seen, reason: str
) -> Decided | Refused:
    """Decide one wait. Page, API and command line all come here.

    Guarded under the run's and the wait's locks: the wait is open, what was seen is what is bound, the stored arguments
    still have that digest, the deadline has not passed, and this person may decide. On success the decision, the wait,
    its wakeup, the queued run and the audit row commit together. A refusal changes nothing and is audited. Raises
    NotFound for a wait that is not in the actor's tenant.
    """
    access_wait(actor=actor, id=wait_id)
    with transaction.atomic():
        outcome = _decide(actor, wait_id, verdict, seen, reason.strip())
    if isinstance(outcome, Refused):
        audit_refused(actor=actor, action="wait.decide", object_type="wait", object_id=wait_id, refused=outcome)
    else:
        reach("after_decision_committed", str(verdict))
    return outcome


def _decide(actor: Actor, wait_id: UUID, verdict: DecisionVerdict, seen: Seen, reason: str) -> Decided | Refused:
    run = run_lock(Wait.objects.values_list("run_id", flat=True).get(id=wait_id))
    wait = Wait.objects.select_for_update(no_key=True, of=("self",)).select_related("tool_call").get(id=wait_id)
    refused = decision_refusal(actor, run, wait, seen, reason)
    if refused is not None:
        return refused
    _store_decision(wait, actor, verdict, seen, reason)
    wakeup_write(
        tenant_id=wait.tenant_id,
        run_id=wait.run_id,
        wait_id=wait.id,
        cause=WakeupCause.DECISION,
        dedupe_key=f"wait:{wait.id}:DECISION",
    )
    queue_if_all_are_closed(run, cause="DECISION", actor=actor.label)
    audit_append(
        actor=actor,
        action="wait.decide",
        object_type="wait",
        object_id=wait.id,
        detail={
            "verdict": str(verdict),
            "run": str(run.id),
            "call": str(wait.tool_call_id),
            "revision": wait.checkpoint_revision,
            "digest": wait.checkpoint_digest,
            "args_digest": wait.args_digest,
            "reason_digest": digest(reason.encode()),
            "started_by_same_person": run.created_by == actor.label,
        },
    )
    reach("inside_decide_tx", str(verdict))
    return Decided(wait.id, str(verdict), actor.label)


def decision_refusal(actor: Actor, run: Run, wait: Wait, seen: Seen, reason: str) -> Refused | None:
    """Why this person can't decide this locked wait so, on what they saw; None when they can. The run is locked."""
    return (
        _may_decide(actor, run, reason)
        or _own_call(actor, wait)
        or _still_decidable(wait)
        or _seen_is_bound(wait, seen)
        or _ground_holds(wait)
    )


def wait_reject_for_another(wait: Wait, *, actor: Actor, seen: Seen, reason: str, fence: int) -> None:
    """Reject a locked wait that this person may decide, because they put another call in its place (T42).

    Decision and wakeup are consumed with it, under the fence that the person has passed, so that the head may move in the
    same transaction. The caller closes the call and writes the audit row.
    """
    _store_decision(wait, actor, DecisionVerdict.REJECT, seen, reason)
    wakeup_write(
        tenant_id=wait.tenant_id,
        run_id=wait.run_id,
        wait_id=wait.id,
        cause=WakeupCause.DECISION,
        dedupe_key=f"wait:{wait.id}:DECISION",
    )
    wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.CONSUMED, fence=fence)
    Wait.objects.filter(id=wait.id, status=WaitStatus.REJECTED).update(
        status=WaitStatus.CONSUMED, status_reason="another call was put in its place"
    )


def _own_call(actor: Actor, wait: Wait) -> Refused | None:
    """Who wrote a call decides about it only where the tenant lets people decide about what they asked for (T42)."""
    if wait.tool_call.author != actor.label or Tenant.objects.get(id=wait.tenant_id).self_approval:
        return None
    return SelfWritten({"actor": actor.name})


def _store_decision(wait: Wait, actor: Actor, verdict: DecisionVerdict, seen: Seen, reason: str) -> None:
    shown: dict[str, Any] = {
        "verdict": verdict,
        "seen_revision": seen.revision,
        "seen_digest": seen.digest,
        "seen_args_digest": seen.args_digest,
        "reason": reason,
        "actor": actor.label,
    }
    Vote.objects.create(wait=wait, **shown)
    Decision.objects.create(wait=wait, **shown)
    approved = verdict == DecisionVerdict.APPROVE
    validity = timedelta(seconds=wait.validity_seconds)
    Wait.objects.filter(id=wait.id, status=WaitStatus.OPEN).update(
        status=WaitStatus.APPROVED if approved else WaitStatus.REJECTED,
        valid_until=ClockTimestamp() + validity if approved else None,
        closed_at=ClockTimestamp(),
    )
    hint_changed(tenant_id=wait.tenant_id, run_id=wait.run_id)
    notice_write(
        tenant_id=wait.tenant_id,
        kind=NoticeKind.DECIDED,
        subject="wait",
        subject_id=wait.id,
        dedupe_key=f"wait:{wait.id}:DECIDED",
        facts={"tool": wait.tool_call.tool, "verdict": str(verdict), "by": actor.name},
        but=actor.name,
        low_risk=wait.risk == Risk.LOW,
    )


def _may_decide(actor: Actor, run: Run, reason: str) -> Refused | None:
    if not actor.may(Permission.DECIDE):
        return NotAllowed({"permission": "decide", "actor": actor.name})
    refused = _reason_refusal(reason)
    if refused is not None:
        return refused
    if run.created_by == actor.label and not Tenant.objects.get(id=run.tenant_id).self_approval:
        return SelfApproval({"actor": actor.name})
    return None


def _reason_refusal(reason: str) -> Invalid | None:
    """Why these words can't be stored as the reason of a decision. They are stored to be read, so they hold no secret."""
    why = "" if reason else "a decision needs a reason in words."
    if len(reason) > REASON_LIMIT:
        why = f"at most {REASON_LIMIT} characters."
    try:
        check(reason)
    except NotCanonical as error:
        why = str(error)
    found = secret_in(reason)
    if found:
        why = f"it looks like a {found}; write it without."
    return Invalid({"field": "reason", "reason": why}) if why else None


def _still_decidable(wait: Wait) -> Refused | None:
    decision = decision_of(wait)
    if decision is not None:
        said = "approved" if decision.verdict == DecisionVerdict.APPROVE else "rejected"
        by = decision.actor.partition(":")[2]
        return AlreadyDecided(
            {"by": by, "verdict": said, "at": _clock(decision.at), "decided_at": decision.at.isoformat()}
        )
    closed = _clock(wait.closed_at) if wait.closed_at else ""
    if wait.status == WaitStatus.EXPIRED or (wait.status == WaitStatus.OPEN and wait.deadline <= database_now()):
        return Expired({"deadline": _clock(wait.deadline)})
    if wait.status == WaitStatus.CANCELLED:
        return RunStopped({"at": closed})
    if wait.status != WaitStatus.OPEN:
        newest = newest_wait(call_id=wait.tool_call_id)
        fresh = newest is not None and newest.id != wait.id
        follow = f"Decide wait {newest.id} instead." if fresh and newest is not None else ""
        return Superseded({"at": closed, "reason": wait.status_reason or wait.status, "next": follow})
    return None


def _seen_is_bound(wait: Wait, seen: Seen) -> Refused | None:
    if seen.revision != wait.checkpoint_revision:
        return StaleRevision({"seen_revision": seen.revision, "revision": wait.checkpoint_revision})
    if seen.digest != wait.checkpoint_digest:
        return CheckpointDiffers({"seen_revision": seen.revision, "revision": wait.checkpoint_revision})
    try:
        verified_body(checkpoint_of(run_id=wait.run_id, revision=wait.checkpoint_revision))
    except Unreadable as error:
        return CheckpointChanged({"revision": wait.checkpoint_revision, "found": error.found})
    if seen.args_digest != wait.args_digest or not arguments_intact(wait.tool_call):
        return ArgsChanged()
    return None


def _ground_holds(wait: Wait) -> Refused | None:
    """Nothing is decided on a constraint or an assumption that was withdrawn; the rows stay so until the commit (ruling 35)."""
    gone = withdrawn_commitment(wait.run_id)
    if gone is None:
        return None
    by = str(gone.withdrawn_by).partition(":")[2]
    statement = gone.statement[:200]
    return GroundWithdrawn(
        {"kind": str(gone.kind).lower(), "statement": statement, "by": by, "at": _clock(gone.withdrawn_at)}
    )


def arguments_intact(call: ToolCall) -> bool:
    """True while the stored argument bytes have the digest that the call was recorded with."""
    try:
        return digest(call_arguments(call)) == call.args_digest
    except BodyChanged:
        return False


def _clock(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
