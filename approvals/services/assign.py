"""Who looks at a wait: taken, given back, given to somebody. It tells the others and binds nobody; the decision is anyone's."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from accounts.audit import audit_append, audit_refused
from accounts.errors import NotAllowed, Refused
from accounts.models import ClockTimestamp
from accounts.selectors import still_may
from accounts.states import Actor, NoticeKind, Permission
from approvals.errors import AlreadyTaken, NobodyThere, NotTaken, WaitClosed
from approvals.models import Assignment, Wait
from approvals.selectors import access_wait, assignment_of, givers_to
from approvals.services.checks import clock, reason_refusal
from approvals.services.wait import assignment_tell, wait_lock
from approvals.states import can_decide
from runs.canonical import digest
from runs.live import hint_changed


@dataclass(frozen=True)
class Looked:
    """Who looks at the wait from now on; None where nobody does."""

    wait_id: UUID
    person: str | None


Assign = Callable[[Actor, Wait], Looked | Refused]


def wait_claim(*, actor: Actor, wait_id: UUID) -> Looked | Refused:
    """Take an open wait that nobody looks at. Needs the permission to decide. Refusals are audited. Raises NotFound."""
    return _act(actor, wait_id, "wait.claim", _claim)


def wait_release(*, actor: Actor, wait_id: UUID) -> Looked | Refused:
    """Give an open wait back that the actor looks at. Needs the permission to decide. Raises NotFound."""
    return _act(actor, wait_id, "wait.release", _release)


def wait_assign(*, actor: Actor, wait_id: UUID, person: str, reason: str) -> Looked | Refused:
    """Give an open wait to a person who may decide here, by their username; whoever looked at it does not any more.

    Needs the permission to decide and a reason. Refusals are audited. Raises NotFound.
    """

    def assign(actor: Actor, wait: Wait) -> Looked | Refused:
        return _assign(actor, wait, person, reason.strip())

    return _act(actor, wait_id, "wait.assign", assign)


def _act(actor: Actor, wait_id: UUID, action: str, act: Assign) -> Looked | Refused:
    access_wait(actor=actor, id=wait_id)
    with transaction.atomic():
        outcome = _guarded(actor, wait_id, act)
    if isinstance(outcome, Refused):
        audit_refused(actor=actor, action=action, object_type="wait", object_id=wait_id, refused=outcome)
    return outcome


def _guarded(actor: Actor, wait_id: UUID, act: Assign) -> Looked | Refused:
    if not (actor.may(Permission.DECIDE) or givers_to(tenant_id=actor.tenant_id, taker=actor.label)):
        return NotAllowed({"permission": "decide", "actor": actor.name})
    wait = wait_lock(wait_id)
    return act(actor, wait) if can_decide(wait.status) else WaitClosed({"status": wait.status})


def _claim(actor: Actor, wait: Wait) -> Looked | Refused:
    held = assignment_of(wait.id)
    if held is not None:
        return AlreadyTaken({"by": held.person.partition(":")[2], "at": clock(held.at)})
    return _give(actor, wait, actor.label, "", "wait.claim")


def _release(actor: Actor, wait: Wait) -> Looked | Refused:
    held = assignment_of(wait.id)
    if held is None or held.person != actor.label:
        return NotTaken({"actor": actor.name})
    _end(held, actor)
    assignment_tell(held, wait, NoticeKind.RELEASED, by=actor.name)
    return _told(actor, wait, None, "wait.release", "")


def _assign(actor: Actor, wait: Wait, person: str, reason: str) -> Looked | Refused:
    refused = reason_refusal(reason)
    if refused is not None:
        return refused
    label = f"person:{person}"
    if not still_may(tenant_id=wait.tenant_id, label=label, permission=Permission.DECIDE):
        return NobodyThere({"field": "person", "person": person})
    held = assignment_of(wait.id)
    if held is not None:
        _end(held, actor)
    return _give(actor, wait, label, reason, "wait.assign")


def _give(actor: Actor, wait: Wait, label: str, reason: str, action: str) -> Looked:
    given = Assignment.objects.create(wait=wait, person=label, assigned_by=actor.label, reason=reason)
    if label != actor.label:
        assignment_tell(given, wait, NoticeKind.ASSIGNED, by=actor.name)
    return _told(actor, wait, label, action, reason)


def _end(held: Assignment, actor: Actor) -> None:
    Assignment.objects.filter(id=held.id, ended_at=None).update(ended_at=ClockTimestamp(), ended_by=actor.label)


def _told(actor: Actor, wait: Wait, label: str | None, action: str, reason: str) -> Looked:
    hint_changed(tenant_id=wait.tenant_id, run_id=wait.run_id)
    detail = {"run": str(wait.run_id), "person": label}
    why = {"reason_digest": digest(reason.encode())} if reason else {}
    audit_append(actor=actor, action=action, object_type="wait", object_id=wait.id, detail={**detail, **why})
    return Looked(wait.id, label)
