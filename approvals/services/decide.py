"""Writes of decisions. `approval_decide` is the one decision function behind every door."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.audit import audit_append, audit_refused
from accounts.errors import NotFound, Refused
from accounts.keys import new_id
from accounts.statements import fetch
from accounts.states import Actor, NoticeKind, Permission
from approvals.models import Wait
from approvals.services.checks import (
    Locked,
    Seen,
    Tools,
    tool_refusal,
    unseen_refusal,
    voice_to_decide,
    wait_locked,
)
from approvals.services.wait import queue_if_all_are_closed, wait_tell
from approvals.statements import VOTE, VOTE_AND_DECIDE
from approvals.states import DecisionVerdict, WaitStatus
from runs.canonical import digest
from runs.faults import reach
from runs.live import hint_changed
from runs.services import run_lock
from runs.states import WakeupStatus
from runs.wakeups import wait_wakeups_close


@dataclass(frozen=True)
class Decided:
    """A decision was stored."""

    wait_id: UUID
    verdict: str
    by: str


@dataclass(frozen=True)
class Voted:
    """An approval was stored, and the wait asks for more: `given` of `quorum` have approved."""

    wait_id: UUID
    verdict: str
    by: str
    given: int
    quorum: int


def approval_decide(
    *, actor: Actor, wait_id: UUID, verdict: DecisionVerdict, seen: Seen, reason: str, tools: Tools
) -> Decided | Voted | Refused:
    """Decide one wait, or give one of the votes that it asks for (ruling 15). Page, API, command line and batch come here.

    Guarded under the run's and the wait's locks: the wait is open, what was seen is what is bound, the stored arguments
    still have that digest, the deadline has not passed, policy and tool are what they were when it was asked, this person is
    asked and has not voted yet; an approval also needs that all of it was shown to them. The first reject, or the
    approval that meets the quorum, decides: decision, wait, wakeup, queued run and audit row commit together with the vote.
    A refusal changes nothing and is audited. Raises NotFound for a wait that is not in the actor's tenant.
    """
    run_id = run_asked(actor, wait_id)
    with transaction.atomic():
        locked = wait_locked(run_lock(run_id), wait_id)
        outcome = _decide(actor, locked, tools, verdict, seen, reason.strip())
    if isinstance(outcome, Refused):
        audit_refused(actor=actor, action="wait.decide", object_type="wait", object_id=wait_id, refused=outcome)
    elif isinstance(outcome, Decided):
        reach("after_decision_committed", str(verdict))
    return outcome


def run_asked(actor: Actor, wait_id: UUID) -> UUID:
    """The run of a wait that the actor may see. Raises NotFound."""
    find = "SELECT run_id FROM approvals_wait WHERE id = %(wait)s AND tenant_id = %(tenant)s"
    found = fetch(find, {"wait": wait_id, "tenant": actor.tenant_id}) if actor.may(Permission.READ) else []
    for (run_id,) in found:
        return UUID(str(run_id))
    raise NotFound


def _decide(
    actor: Actor, locked: Locked, tools: Tools, verdict: DecisionVerdict, seen: Seen, reason: str
) -> Decided | Voted | Refused:
    voice = voice_to_decide(actor, locked, verdict, seen, reason)
    if isinstance(voice, Refused):
        return voice
    refused: Refused | None = tool_refusal(locked.wait, tools.definition(locked.run, locked.wait.tool_call.tool))
    if refused is None and verdict == DecisionVerdict.APPROVE:
        refused = unseen_refusal(tools.unseen(actor, locked))
    if refused is not None:
        return refused
    wait, given = locked.wait, locked.approvals + (verdict == DecisionVerdict.APPROVE)
    shown = said_of(wait, actor, voice, verdict, seen, reason)
    decides = verdict == DecisionVerdict.REJECT or given >= wait.quorum
    if decides:
        close_by(locked, actor, shown)
    else:
        fetch(VOTE, shown)
    hint_changed(tenant_id=wait.tenant_id, run_id=wait.run_id)
    _audit(actor, locked, shown, given, decides=decides)
    if not decides:
        return Voted(wait.id, str(verdict), actor.label, given, wait.quorum)
    reach("inside_decide_tx", str(verdict))
    return Decided(wait.id, str(verdict), actor.label)


def close_by(locked: Locked, actor: Actor, shown: dict[str, Any]) -> None:
    """Close a locked wait by what a person said: decision, wakeup, the run queued, and the others told."""
    _store_decision(locked, shown)
    queue_if_all_are_closed(locked.run, cause="DECISION", actor=actor.label)
    wait = locked.wait
    facts = {"tool": wait.tool_call.tool, "verdict": shown["verdict"], "by": actor.name}
    wait_tell(wait, NoticeKind.DECIDED, facts, but=actor.name)


def wait_reject_for_another(locked: Locked, *, actor: Actor, voice: str, seen: Seen, reason: str, fence: int) -> None:
    """Reject a locked wait that this person may decide, because they put another call in its place (T42).

    Decision and wakeup are consumed with it, under the fence that the person has passed, so that the head may move in the
    same transaction. The caller closes the call and writes the audit row.
    """
    wait = locked.wait
    shown = said_of(wait, actor, voice, DecisionVerdict.REJECT, seen, reason)
    _store_decision(locked, shown)
    hint_changed(tenant_id=wait.tenant_id, run_id=wait.run_id)
    wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.CONSUMED, fence=fence)
    Wait.objects.filter(id=wait.id, status=WaitStatus.REJECTED).update(
        status=WaitStatus.CONSUMED, status_reason="another call was put in its place"
    )


def said_of(wait: Wait, actor: Actor, voice: str, verdict: DecisionVerdict, seen: Seen, reason: str) -> dict[str, Any]:
    """What vote and decision keep."""
    return {
        "id": new_id(),
        "wait": wait.id,
        "actor": actor.label,
        "voice": voice,
        "verdict": str(verdict),
        "revision": seen.revision,
        "digest": seen.digest,
        "args_digest": seen.args_digest,
        "reason": reason,
    }


def _store_decision(locked: Locked, shown: dict[str, Any]) -> None:
    """The vote that decides, the decision, the wait closed by it, and the wakeup that tells the run."""
    wait, approved = locked.wait, shown["verdict"] == DecisionVerdict.APPROVE
    closed = {
        "status": str(_CLOSED_AS[DecisionVerdict(shown["verdict"])]),
        "validity": float(wait.validity_seconds) if approved else None,
    }
    fetch(VOTE_AND_DECIDE, {**shown, **closed, "wakeup": new_id()})


_CLOSED_AS = {
    DecisionVerdict.APPROVE: WaitStatus.APPROVED,
    DecisionVerdict.REJECT: WaitStatus.REJECTED,
    DecisionVerdict.ANSWER: WaitStatus.ANSWERED,
    DecisionVerdict.DECLINE: WaitStatus.REJECTED,
}


def _audit(actor: Actor, locked: Locked, shown: dict[str, Any], given: int, *, decides: bool) -> None:
    wait, run = locked.wait, locked.run
    asked = {} if wait.quorum == 1 else {"approvals": given, "quorum": wait.quorum}
    stood_in = {} if shown["voice"] == actor.label else {"in_place_of": shown["voice"]}
    audit_append(
        actor=actor,
        action="wait.decide" if decides else "wait.vote",
        object_type="wait",
        object_id=wait.id,
        detail={
            "verdict": shown["verdict"],
            "run": str(run.id),
            "call": str(wait.tool_call_id),
            "revision": wait.checkpoint_revision,
            "digest": wait.checkpoint_digest,
            "args_digest": wait.args_digest,
            "reason_digest": digest(shown["reason"].encode()),
            "started_by_same_person": run.created_by == actor.label,
            **asked,
            **stood_in,
        },
    )
