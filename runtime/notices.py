"""Telling people outside the pages: what the outbox holds is delivered, one endpoint after the other, each attempt bounded.

Nothing that decides anything waits for it. A claim is committed before anything is sent, so a process that dies in between
tells it once more: whoever hears can see by the id that it is the same notice.
"""

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from accounts.codec import BodyChanged
from accounts.selectors import membership_actor, notices_claimed, plain_body
from accounts.services import Claim, notices_again, notices_claim, notices_settle
from accounts.states import EndpointKind, NoticeKind, NoticeStatus, Permission
from approvals.selectors import delegations_to_come, people_looking, waits_open
from approvals.services import asks
from runs.selectors import database_now, runs_held
from runtime.drain import draining
from runtime.gateways.addresses import AddressRefused, checked
from runtime.gateways.chat import tell_service
from runtime.gateways.mail import send_mail
from runtime.gateways.post import NotTaken, post
from runtime.gateways.signature import signed
from runtime.sentences import link, sentence
from runtime.stuck import WATCHED, stuck_now

DIGEST_MOST = 200
_CLAIM_SPARE_SECONDS = 60.0
_AGAIN_SECONDS = 5.0
_AGAIN_MOST_SECONDS = 3600.0

# Kinds that have nothing to say once the wait is not open, or the run not held, any more.
_WHILE_OPEN = {
    *(NoticeKind.OPENED, NoticeKind.REMINDER, NoticeKind.ESCALATED),
    *(NoticeKind.ASSIGNED, NoticeKind.RELEASED),
}
_OF_LOOKING = {NoticeKind.ASSIGNED, NoticeKind.RELEASED}
_OF_A_HOLD = "run"  # the fact that names the run which is held

logger = logging.getLogger(__name__)


def notices_deliver(most: int = 50) -> int:
    """Deliver what is due, at most so many deliveries, and none more once this worker was asked to stop. Returns how many
    were tried. Called by the Celery task.
    """
    for tried in range(most):
        if draining():
            return tried
        claim = notices_claim(seconds=settings.NOTICE_SECONDS + _CLAIM_SPARE_SECONDS, most=DIGEST_MOST)
        if claim is None:
            return tried
        _deliver(claim)
    return most


def _deliver(claim: Claim) -> None:
    notices = notices_claimed(list(claim.attempts))
    endpoint = notices[0].endpoint
    mute = _mute(endpoint, tested=notices[0].kind == NoticeKind.TEST)
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


def _mute(endpoint: Any, *, tested: bool) -> str:
    """Why an endpoint is told nothing, or nothing. A test goes to a paused one as well."""
    if endpoint.removed_at is not None:
        return "The endpoint was removed."
    if endpoint.paused_at is not None and not tested:
        return "The endpoint is paused."
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

    def about(*kinds: str) -> list[UUID]:
        return [notice.subject_id for notice in notices if notice.kind in kinds]

    waits, lent = waits_open(about(*_WHILE_OPEN)), delegations_to_come(about(NoticeKind.DELEGATED))
    runs = runs_held([UUID(notice.facts[_OF_A_HOLD]) for notice in notices if _OF_A_HOLD in notice.facts])
    looking = people_looking(about(NoticeKind.ASSIGNED, NoticeKind.RELEASED))
    watched = any(notice.dedupe_key.startswith(WATCHED) for notice in notices)
    stuck = {one.key for one in stuck_now()} if watched else set()

    def still(notice: Any) -> bool:
        id, kind, facts = notice.subject_id, notice.kind, notice.facts
        if kind == NoticeKind.DELEGATED:
            return id in lent
        if kind in _WHILE_OPEN:
            who = f"person:{facts['person']}" if kind == NoticeKind.ASSIGNED else None
            return id in waits and (kind not in _OF_LOOKING or looking.get(id) == who)
        if notice.dedupe_key.startswith(WATCHED):
            return notice.dedupe_key in stuck
        return _OF_A_HOLD not in facts or UUID(facts[_OF_A_HOLD]) in runs

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
    except Exception as error:  # what one can't be told keeps nobody else from being told, and comes to an end
        logger.exception("endpoint %s could not be told", endpoint.id)
        _not_taken(claim, notices, f"It could not be told ({type(error).__name__}).", again=True)
    else:
        notices_settle(claim, ids, status=NoticeStatus.SENT)


def _not_taken(claim: Claim, notices: Sequence[Any], why: str, *, again: bool) -> None:
    again = again and notices[0].kind != NoticeKind.TEST  # whoever tests looks at what came of it
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
    content = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "Signalbox", "Idempotency-Key": str(notice.id)}
    if endpoint.secret is not None:
        secret = plain_body(key_id=endpoint.data_key_id, body=endpoint.secret).decode()
        headers |= signed(secret, id=notice.id, at=int(database_now().timestamp()), body=content)
    post(checked(address), content, headers=headers, seconds=settings.NOTICE_SECONDS)


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
