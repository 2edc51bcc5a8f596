"""Where people hear of things outside the pages: an address is checked, and tried by name, before it is stored."""

import binascii
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings

from accounts.audit import audit_refused
from accounts.errors import (
    AlreadyTested,
    EndpointGone,
    EndpointNotPaused,
    EndpointPaused,
    Invalid,
    NotAllowed,
    Refused,
)
from accounts.selectors import access_endpoint, endpoints_visible, membership_of
from accounts.services import (
    Address,
    Change,
    endpoint_change,
    endpoint_create,
    endpoint_pause,
    endpoint_remove,
    endpoint_resume,
    notice_test,
    notices_purge,
)
from accounts.states import HEARD, Actor, EndpointKind, NoticeKind, Permission
from runtime.gateways.addresses import AddressRefused, checked
from runtime.gateways.chat import checked_service
from runtime.gateways.mail import checked_mailbox
from runtime.gateways.signature import ENCODED, signing_key
from runtime.services.guards import act_refusal, audited

MOST_ENDPOINTS = 50
NAME_LIMIT = 100
SECRET_LENGTHS = (16, 200)


@dataclass(frozen=True)
class EndpointRequest:
    """What a person asks for. An empty `hears` means everything; `signed_with` is for a webhook, and may be empty."""

    kind: str
    name: str
    address: str
    hears: frozenset[str] = frozenset()
    whole_tenant: bool = False
    digest: bool = False
    signed_with: str = ""


@dataclass(frozen=True)
class EndpointChange:
    """What is to be another. None leaves it; `signed_with` "" has nothing signed any more. `seen`: the version that the person was
    reading; a later one is not written over.
    """

    name: str | None = None
    address: str | None = None
    signed_with: str | None = None
    hears: frozenset[str] | None = None
    digest: bool | None = None
    seen: int | None = None


@dataclass(frozen=True)
class EndpointAdded:
    """An endpoint was stored."""

    endpoint_id: UUID


@dataclass(frozen=True)
class EndpointRemoved:
    """An endpoint is told nothing any more."""

    endpoint_id: UUID


@dataclass(frozen=True)
class EndpointKept:
    """An endpoint was changed, paused or resumed."""

    endpoint_id: UUID


@dataclass(frozen=True)
class EndpointTested:
    """A test is on its way; the notice says what came of it."""

    notice_id: UUID


@dataclass(frozen=True)
class NoticesPurged:
    """So many notices, and endpoints that had none left, are gone for good."""

    notices: int
    endpoints: int


def endpoint_add(*, actor: Actor, wanted: EndpointRequest) -> EndpointAdded | Refused:
    """Store where a person, or the whole tenant, hears of things. Needs the permission to read for oneself, and to notify
    for the tenant. The address is resolved and checked here, outside any transaction, and again at each delivery.
    """
    refused = _may(actor, whole_tenant=wanted.whole_tenant) or _unfit(actor, wanted)
    if refused is not None:
        return _audited(actor, "endpoint.add", actor.tenant_id, refused)
    address = _address(EndpointKind(wanted.kind), wanted.address.strip())
    if isinstance(address, Refused):
        return _audited(actor, "endpoint.add", actor.tenant_id, address)
    endpoint = endpoint_create(
        actor=actor,
        membership=None if wanted.whole_tenant else membership_of(actor),
        name=wanted.name.strip(),
        address=address,
        hears=frozenset(NoticeKind(kind) for kind in wanted.hears or HEARD),
        digest=wanted.digest,
        signed_with=wanted.signed_with,
    )
    return EndpointAdded(endpoint.id)


def endpoint_edit(*, actor: Actor, endpoint_id: UUID, wanted: EndpointChange) -> EndpointKept | Refused:
    """Change what an endpoint is called, where it is, what it is signed with or what is sent to it; never its kind, and never
    whose it is. The same permissions and checks as for adding it. Raises NotFound.
    """
    endpoint = access_endpoint(actor=actor, id=endpoint_id)
    kind = EndpointKind(endpoint.kind)
    refused = _may(actor, whole_tenant=endpoint.membership_id is None) or _unfit_change(kind, wanted)
    if refused is None and endpoint.removed_at is not None:
        refused = EndpointGone()
    address = None if wanted.address is None or refused else _address(kind, wanted.address.strip())
    refused = refused or (address if isinstance(address, Refused) else None)
    if refused is not None:
        return _audited(actor, "endpoint.change", endpoint.id, refused)
    change = Change(
        name=None if wanted.name is None else wanted.name.strip(),
        address=address if isinstance(address, Address) else None,
        signed_with=wanted.signed_with,
        hears=None if wanted.hears is None else frozenset(NoticeKind(one) for one in wanted.hears or HEARD),
        digest=wanted.digest,
    )
    refused = endpoint_change(actor=actor, endpoint=endpoint, change=change, seen=wanted.seen)
    if refused is not None:
        return _audited(actor, "endpoint.change", endpoint.id, refused)
    return EndpointKept(endpoint.id)


def endpoint_hold(*, actor: Actor, endpoint_id: UUID) -> EndpointKept | Refused:
    """Pause an endpoint: what happens meanwhile is not told to it, and not later either. Raises NotFound."""
    return _act(actor, endpoint_id, "endpoint.pause", endpoint_pause, EndpointPaused())


def endpoint_go_on(*, actor: Actor, endpoint_id: UUID) -> EndpointKept | Refused:
    """Tell a paused endpoint again. Raises NotFound."""
    return _act(actor, endpoint_id, "endpoint.resume", endpoint_resume, EndpointNotPaused())


def endpoint_test(*, actor: Actor, endpoint_id: UUID) -> EndpointTested | Refused:
    """Send a test by the way that every notice takes, also to a paused endpoint; the notice says what came of it. One at a
    time. The permissions of a change. Raises NotFound.
    """
    endpoint = access_endpoint(actor=actor, id=endpoint_id)
    refused = _may(actor, whole_tenant=endpoint.membership_id is None)
    if refused is None and endpoint.removed_at is not None:
        refused = EndpointGone()
    notice_id = None if refused else notice_test(endpoint_id=endpoint.id, by=actor.name)
    if notice_id is None:
        return _audited(actor, "endpoint.test", endpoint.id, refused or AlreadyTested())
    return EndpointTested(notice_id)


def endpoint_drop(*, actor: Actor, endpoint_id: UUID) -> EndpointRemoved | Refused:
    """Tell an endpoint nothing any more: one's own, or the tenant's with the permission to notify. Raises NotFound."""
    endpoint = access_endpoint(actor=actor, id=endpoint_id)
    refused = _may(actor, whole_tenant=endpoint.membership_id is None)
    if refused is not None:
        return _audited(actor, "endpoint.remove", endpoint.id, refused)
    if not endpoint_remove(actor=actor, endpoint=endpoint):
        return _audited(actor, "endpoint.remove", endpoint.id, EndpointGone())
    return EndpointRemoved(endpoint.id)


def notices_retain(*, actor: Actor, reason: str) -> NoticesPurged | Refused:
    """Delete for good what was told longer ago than this installation keeps it (RETAIN_NOTICES_DAYS), of the whole tenant.
    Needs the permission to retain, and a reason.
    """
    refused = act_refusal(actor, Permission.RETAIN, reason)
    if refused is not None:
        return audited(refused, actor, "notices.purge", "tenant", actor.tenant_id)
    return NoticesPurged(*notices_purge(actor=actor, days=settings.RETAIN_NOTICES_DAYS, reason=reason.strip()))


class _Pausing(Protocol):
    def __call__(self, *, actor: Actor, endpoint: Any) -> bool: ...


def _act(actor: Actor, endpoint_id: UUID, action: str, act: _Pausing, otherwise: Refused) -> EndpointKept | Refused:
    endpoint = access_endpoint(actor=actor, id=endpoint_id)
    refused = _may(actor, whole_tenant=endpoint.membership_id is None)
    if refused is None and not act(actor=actor, endpoint=endpoint):
        refused = EndpointGone() if access_endpoint(actor=actor, id=endpoint_id).removed_at else otherwise
    return EndpointKept(endpoint.id) if refused is None else _audited(actor, action, endpoint.id, refused)


def _may(actor: Actor, *, whole_tenant: bool) -> Refused | None:
    needed = Permission.NOTIFY if whole_tenant else Permission.READ
    return None if actor.may(needed) else NotAllowed({"permission": str(needed), "actor": actor.name})


def _unfit(actor: Actor, wanted: EndpointRequest) -> Refused | None:
    """What of the request can't be stored, but for the address."""
    if wanted.kind not in list(EndpointKind):
        return Invalid({"field": "kind", "reason": f"one of {', '.join(EndpointKind)}."})
    as_change = EndpointChange(wanted.name, None, wanted.signed_with, wanted.hears, wanted.digest)
    refused = _unfit_change(EndpointKind(wanted.kind), as_change)
    if refused is None and endpoints_visible(actor).count() >= MOST_ENDPOINTS:
        return Invalid({"field": "name", "reason": f"there are {MOST_ENDPOINTS} already; remove one first."})
    return refused


def _unfit_change(kind: EndpointKind, wanted: EndpointChange) -> Refused | None:
    name = None if wanted.name is None else wanted.name.strip()
    if name is not None and (not name or len(name) > NAME_LIMIT or not name.isprintable()):
        return Invalid({"field": "name", "reason": f"a name of at most {NAME_LIMIT} characters that can be seen."})
    if wanted.hears is not None and wanted.hears - set(HEARD):
        return Invalid({"field": "hears", "reason": f"only {', '.join(HEARD)}."})
    if wanted.digest and kind != EndpointKind.MAIL:
        return Invalid({"field": "digest", "reason": "only mail is gathered."})
    return _unfit_secret(kind, wanted.signed_with) if wanted.signed_with else None


def _unfit_secret(kind: EndpointKind, secret: str) -> Refused | None:
    if kind != EndpointKind.WEBHOOK:
        return Invalid({"field": "signed_with", "reason": "only a webhook is signed."})
    least, most = SECRET_LENGTHS
    if not least <= len(secret) <= most or not secret.isascii() or not secret.isprintable():
        return Invalid({"field": "signed_with", "reason": f"{least} to {most} characters of ASCII that can be seen."})
    try:
        signing_key(secret)
    except binascii.Error:
        return Invalid({"field": "signed_with", "reason": f"what follows {ENCODED} has to be base64."})
    return None


def _address(kind: EndpointKind, written: str) -> Address | Invalid:
    """The checked address, and how it is shown: of a webhook the host, of a mailbox its first letter and its domain, of a chat
    service its name.
    """
    try:
        if kind == EndpointKind.MAIL:
            mailbox = checked_mailbox(written)
            return Address(kind, mailbox, f"{mailbox[0]}…@{mailbox.rpartition('@')[2]}")
        if kind == EndpointKind.CHAT:
            return Address(kind, written, checked_service(written).shown)
        return Address(kind, written, checked(written).authority)
    except AddressRefused as error:
        return Invalid({"field": "address", "reason": str(error)})


def _audited(actor: Actor, action: str, object_id: UUID, refused: Refused) -> Refused:
    audit_refused(actor=actor, action=action, object_type="endpoint", object_id=object_id, refused=refused)
    return refused
