"""A person has another one decide with their authority for a time, and takes that back."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Greatest

from accounts.audit import audit_append, audit_refused
from accounts.errors import Invalid, NotAllowed, Refused
from accounts.models import ClockTimestamp
from accounts.selectors import authority_of
from accounts.services import notice_write
from accounts.statements import fetch
from accounts.states import Actor, NoticeKind, Permission, Subject, permissions_of
from approvals.errors import DelegationOver, NobodyThere
from approvals.models import Delegation
from approvals.selectors import access_delegation
from approvals.services.checks import clock, reason_refusal
from runs.canonical import digest

LONGEST = timedelta(days=92)


@dataclass(frozen=True)
class DelegationWanted:
    """To whom, by their username, and for what time; `starts_at` None is now, and so is what has passed."""

    taker: str
    ends_at: datetime
    reason: str
    starts_at: datetime | None = None


@dataclass(frozen=True)
class Delegated:
    """The delegation as it is stored; `ended` says that it was taken back."""

    delegation_id: UUID
    taker: str
    ended: bool = False


def delegation_give(*, actor: Actor, wanted: DelegationWanted) -> Delegated | Refused:
    """Have another member decide with the actor's own authority, whatever that is at each moment, for a time.

    Needs the permission to decide; what was delegated to somebody is not theirs to give on. Refusals are audited.
    """
    reason = wanted.reason.strip()
    with transaction.atomic():
        outcome = _unfit(actor, wanted, reason) or _give(actor, wanted, reason)
    if isinstance(outcome, Refused):
        audit_refused(
            actor=actor, action="delegation.give", object_type="tenant", object_id=actor.tenant_id, refused=outcome
        )
    return outcome


def delegation_end(*, actor: Actor, delegation_id: UUID) -> Delegated | Refused:
    """Take a delegation back, or lay it down. Both sides may, and governance; votes that were given stay. Raises NotFound."""
    access_delegation(actor=actor, id=delegation_id)
    with transaction.atomic():
        outcome = _end(actor, delegation_id)
    if isinstance(outcome, Refused):
        audit_refused(
            actor=actor, action="delegation.end", object_type="delegation", object_id=delegation_id, refused=outcome
        )
    return outcome


def _unfit(actor: Actor, wanted: DelegationWanted, reason: str) -> Refused | None:
    if not actor.may(Permission.DECIDE):
        return NotAllowed({"permission": "decide", "actor": actor.name})
    refused = reason_refusal(reason)
    if refused is not None:
        return refused
    label = f"person:{wanted.taker}"
    if label == actor.label:
        return Invalid({"field": "taker", "reason": "you decide with your own authority already."})
    held = authority_of(tenant_id=actor.tenant_id, labels=[label]).get(label)
    if held is None or Permission.READ not in permissions_of(held[0]):
        return NobodyThere({"field": "taker", "person": wanted.taker})
    return _unfit_time(wanted)


def _unfit_time(wanted: DelegationWanted) -> Invalid | None:
    now = fetch("SELECT clock_timestamp()", {})[0][0]
    starts = wanted.starts_at or now
    why = "" if wanted.ends_at > starts else "it has to end after it starts."
    if wanted.ends_at <= now:
        why = "it has to end in the future."
    if wanted.ends_at - starts > LONGEST:
        why = f"at most {LONGEST.days} days."
    return Invalid({"field": "ends_at", "reason": why}) if why else None


def _give(actor: Actor, wanted: DelegationWanted, reason: str) -> Delegated:
    given = Delegation.objects.create(
        tenant_id=actor.tenant_id,
        giver=actor.label,
        taker=f"person:{wanted.taker}",
        starts_at=Greatest(ClockTimestamp(), wanted.starts_at) if wanted.starts_at else ClockTimestamp(),
        ends_at=wanted.ends_at,
        reason=reason,
    )
    notice_write(
        tenant_id=actor.tenant_id,
        kind=NoticeKind.DELEGATED,
        subject=Subject.DELEGATION,
        subject_id=given.id,
        dedupe_key=f"delegation:{given.id}",
        facts={"by": actor.name, "person": wanted.taker, "until": clock(wanted.ends_at)},
        to=wanted.taker,
    )
    detail = {"taker": given.taker, "ends_at": wanted.ends_at.isoformat(), "reason_digest": digest(reason.encode())}
    audit_append(actor=actor, action="delegation.give", object_type="delegation", object_id=given.id, detail=detail)
    return Delegated(given.id, wanted.taker)


def _end(actor: Actor, delegation_id: UUID) -> Delegated | Refused:
    given = Delegation.objects.select_for_update(no_key=True).get(id=delegation_id)
    if actor.label not in (given.giver, given.taker) and not actor.may(Permission.RETAIN):
        return NotAllowed({"permission": "retain", "actor": actor.name})
    now = fetch("SELECT clock_timestamp()", {})[0][0]
    over = given.ended_at or (given.ends_at if given.ends_at <= now else None)
    if over is not None:
        return DelegationOver({"at": clock(over)})
    Delegation.objects.filter(id=given.id, ended_at=None).update(ended_at=ClockTimestamp(), ended_by=actor.label)
    taker = given.taker.partition(":")[2]
    audit_append(
        actor=actor,
        action="delegation.end",
        object_type="delegation",
        object_id=given.id,
        detail={"giver": given.giver, "taker": given.taker},
    )
    return Delegated(given.id, taker, ended=True)
