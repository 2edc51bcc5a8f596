"""Telling people outside the pages: what the outbox holds is delivered, one endpoint after the other, each attempt bounded.

Nothing that decides anything waits for it. A claim is committed before anything is sent, so a process that dies in between
tells it once more: whoever hears can see by the id that it is the same notice.
"""

import json
import logging
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from accounts.codec import BodyChanged
from accounts.selectors import membership_actor, notices_claimed, plain_body
from accounts.services import Claim, notices_again, notices_claim, notices_settle
from accounts.states import EndpointKind, NoticeKind, NoticeStatus, Permission, Subject
from approvals.selectors import delegations_to_come, people_looking, waits_open
from approvals.services import asks
from runs.selectors import runs_held
from runtime.gateways.addresses import AddressRefused, checked
from runtime.gateways.chat import tell_service
from runtime.gateways.mail import send_mail
from runtime.gateways.post import NotTaken, post

DIGEST_MOST = 200
_CLAIM_SPARE_SECONDS = 60.0
_AGAIN_SECONDS = 5.0
_AGAIN_MOST_SECONDS = 3600.0

_SENTENCES: dict[NoticeKind, str] = {
    NoticeKind.OPENED: "A call of {tool} waits for a decision.",
    NoticeKind.REMINDER: "A call of {tool} still waits for a decision.",
    NoticeKind.ESCALATED: "A call of {tool} waits for a decision, and nobody has decided in time.",
    NoticeKind.DECIDED: "{by} decided about a call of {tool}: {verdict}.",
    NoticeKind.ASSIGNED: "{by} gave a call of {tool} to {person} to look at.",
    NoticeKind.RELEASED: "{by} does not look at a call of {tool} any more. It still waits for a decision.",
    NoticeKind.DELEGATED: "{by} has {person} decide with their authority until {until}.",
    NoticeKind.UNKNOWN_CALL: "A run is held by a call of which nobody knows whether it happened.",
    NoticeKind.HELD: "A run is held: {reason}.",
    NoticeKind.STUCK: "A run can't go on by itself: {reason}.",
}
_CODES = {"reason", "verdict"}
_ASKED_ANEW = "A call of {tool} that {person} looks at is asked about anew."
_PATHS = {
    Subject.WAIT: "/waits/{id}/",
    Subject.RUN: "/runs/{id}/",
    Subject.DELEGATION: "/delegations/",
}
# Kinds that have nothing to say once the wait is not open, or the run not held, any more.
_WHILE_OPEN = {
    *(NoticeKind.OPENED, NoticeKind.REMINDER, NoticeKind.ESCALATED),
    *(NoticeKind.ASSIGNED, NoticeKind.RELEASED),
}
_WHILE_HELD = {NoticeKind.UNKNOWN_CALL, NoticeKind.HELD, NoticeKind.STUCK}

logger = logging.getLogger(__name__)


def notices_deliver(most: int = 50) -> int:
    """Deliver what is due, at most so many deliveries. Returns how many were tried. Called by the Celery task."""
    for tried in range(most):
        claim = notices_claim(seconds=settings.NOTICE_SECONDS + _CLAIM_SPARE_SECONDS, most=DIGEST_MOST)
        if claim is None:
            return tried
        _deliver(claim)
    return most


def _deliver(claim: Claim) -> None:
    notices = notices_claimed(list(claim.attempts))
    endpoint = notices[0].endpoint
    mute = _mute(endpoint)
    live = [] if mute else _still_so(notices)
    gone = [notice.id for notice in notices if notice not in live]
    if gone:
        notices_settle(
            claim, gone, status=NoticeStatus.SKIPPED, error=mute or "There was nothing to do about it any more."
        )
    told = [notice for notice in live if _concerns(endpoint, notice)]
    other = [notice.id for notice in live if notice not in told]
    if other:
        notices_settle(claim, other, status=NoticeStatus.SKIPPED, error="It does not ask for this person.")
    if told:
        _tell(claim, endpoint, told)


def _mute(endpoint: Any) -> str:
    """Why an endpoint is told nothing, or nothing."""
    if endpoint.removed_at is not None:
        return "The endpoint was removed."
    person = endpoint.membership and endpoint.membership.user
    return "The person was switched off." if person and not person.is_active else ""


def _concerns(endpoint: Any, notice: Any) -> bool:
    """Whether a person has something to do with it: of a wait that is open, whether it asks for them."""
    member = endpoint.membership
    if member is None:
        return True
    actor = membership_actor(membership=member, username=member.user.username, door="notice")
    if notice.kind in _WHILE_OPEN and notice.kind != NoticeKind.ASSIGNED:
        return asks(wait_id=notice.subject_id, actor=actor)
    return actor.may(Permission.READ)


def _still_so(notices: Sequence[Any]) -> list[Any]:
    """Those of which there is still something to say."""

    def about(kinds: Collection[str]) -> list[UUID]:
        return [notice.subject_id for notice in notices if notice.kind in kinds]

    waits, runs, lent = waits_open(about(_WHILE_OPEN)), runs_held(about(_WHILE_HELD)), about({NoticeKind.DELEGATED})
    looking, lent_on = people_looking(about({NoticeKind.ASSIGNED, NoticeKind.RELEASED})), delegations_to_come(lent)

    def still(notice: Any) -> bool:
        id, kind = notice.subject_id, notice.kind
        who = looking.get(id)
        if kind == NoticeKind.DELEGATED:
            return id in lent_on
        if kind == NoticeKind.ASSIGNED and who != f"person:{notice.facts['person']}":
            return False
        if kind == NoticeKind.RELEASED and who is not None:
            return False
        return (kind not in _WHILE_OPEN or id in waits) and (kind not in _WHILE_HELD or id in runs)

    return [notice for notice in notices if still(notice)]


def _tell(claim: Claim, endpoint: Any, notices: Sequence[Any]) -> None:
    ids = [notice.id for notice in notices]
    try:
        address = plain_body(key_id=endpoint.data_key_id, body=endpoint.address).decode()
        if endpoint.kind == EndpointKind.MAIL:
            _mail(address, endpoint, notices)
        elif endpoint.kind == EndpointKind.CHAT:
            _chat(address, endpoint, notices[0])
        else:
            _post(address, endpoint, notices[0])
    except NotTaken as error:
        _not_taken(claim, notices, str(error), again=error.again)
    except AddressRefused as error:  # its name may lead elsewhere again
        _not_taken(claim, notices, str(error), again=True)
    except BodyChanged:
        _not_taken(claim, notices, "The stored address was changed.", again=False)
    else:
        notices_settle(claim, ids, status=NoticeStatus.SENT)


def _not_taken(claim: Claim, notices: Sequence[Any], why: str, *, again: bool) -> None:
    tired = [one.id for one in notices if not again or claim.attempts[one.id] >= settings.NOTICE_ATTEMPTS]
    rest = [one.id for one in notices if one.id not in tired]
    logger.warning("endpoint %s was not told: %s", notices[0].endpoint_id, why)
    if tired:
        notices_settle(claim, tired, status=NoticeStatus.FAILED, error=why)
    if rest:
        tried = min(claim.attempts[id] for id in rest)
        seconds = min(_AGAIN_MOST_SECONDS, _AGAIN_SECONDS * 4 ** (tried - 1))
        notices_again(claim, rest, seconds=seconds, error=why)


# ── what is said ──


def sentence(kind: str, facts: dict[str, str]) -> str:
    """A notice in words. The facts are ours: names of tools and people, never what an agent or a remote wrote."""
    words = {name: value.replace("_", " ").lower() if name in _CODES else value for name, value in facts.items()}
    carried = kind == NoticeKind.ASSIGNED and facts["by"] == facts["person"]
    return (_ASKED_ANEW if carried else _SENTENCES[NoticeKind(kind)]).format(**words)


def link(subject: str, id: UUID) -> str:
    """The page where a person can look and act. Opening it changes nothing."""
    path = _PATHS[Subject(subject)].format(id=id)
    return f"{settings.PUBLIC_URL}{path}" if settings.PUBLIC_URL else path


def _post(address: str, endpoint: Any, notice: Any) -> None:
    body = {
        "id": str(notice.id),
        "kind": notice.kind,
        "tenant": endpoint.tenant.slug,
        "text": f"{sentence(notice.kind, notice.facts)} {link(notice.subject, notice.subject_id)}",
        "subject": notice.subject,
        "subject_id": str(notice.subject_id),
        "link": link(notice.subject, notice.subject_id),
        "at": notice.created_at.astimezone(UTC).isoformat(),
    }
    headers = {"Content-Type": "application/json", "User-Agent": "Signalbox", "Idempotency-Key": str(notice.id)}
    post(checked(address), json.dumps(body).encode(), headers=headers, seconds=settings.NOTICE_SECONDS)


def _chat(address: str, endpoint: Any, notice: Any) -> None:
    said = sentence(notice.kind, notice.facts)
    title = f"[{endpoint.tenant.slug}] {said}"
    tell_service(address, title, link(notice.subject, notice.subject_id), seconds=settings.NOTICE_SECONDS)


def _mail(address: str, endpoint: Any, notices: Sequence[Any]) -> None:
    lines = [f"{sentence(one.kind, one.facts)}\n{link(one.subject, one.subject_id)}\n" for one in notices]
    name = endpoint.tenant.slug
    one = len(notices) == 1 and not notices[0].gathered
    subject = f"[{name}] {sentence(notices[0].kind, notices[0].facts)}" if one else _digest_subject(name, len(notices))
    headers = {"X-Signalbox-Notice": str(notices[0].id), "Auto-Submitted": "auto-generated"}
    send_mail(address, subject, "\n".join(lines), headers=headers)


def _digest_subject(name: str, count: int) -> str:
    today = datetime.now(tz=UTC).date().isoformat()
    return f"[{name}] {count} {'thing' if count == 1 else 'things'} of low risk until {today}"
