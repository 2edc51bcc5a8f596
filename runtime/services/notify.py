"""Where people hear of things outside the pages: an address is checked, and tried by name, before it is stored."""

from dataclasses import dataclass
from uuid import UUID

from accounts.audit import audit_refused
from accounts.errors import EndpointGone, Invalid, NotAllowed, Refused
from accounts.selectors import access_endpoint, endpoints_visible, membership_of
from accounts.services import Address, endpoint_create, endpoint_remove
from accounts.states import Actor, EndpointKind, NoticeKind, Permission
from runtime.gateways.addresses import AddressRefused, checked
from runtime.gateways.chat import checked_service
from runtime.gateways.mail import checked_mailbox

MOST_ENDPOINTS = 50
NAME_LIMIT = 100


@dataclass(frozen=True)
class EndpointRequest:
    """What a person asks for. An empty `hears` means everything."""

    kind: str
    name: str
    address: str
    hears: frozenset[str] = frozenset()
    whole_tenant: bool = False
    digest: bool = False


@dataclass(frozen=True)
class EndpointAdded:
    """An endpoint was stored."""

    endpoint_id: UUID


@dataclass(frozen=True)
class EndpointRemoved:
    """An endpoint is told nothing any more."""

    endpoint_id: UUID


def endpoint_add(*, actor: Actor, wanted: EndpointRequest) -> EndpointAdded | Refused:
    """Store where a person, or the whole tenant, hears of things. Needs the permission to read for oneself, and to notify
    for the tenant. The address is resolved and checked here, outside any transaction, and again at each delivery.
    """
    refused = _may(actor, whole_tenant=wanted.whole_tenant) or _unfit(actor, wanted)
    if refused is not None:
        return _audited(actor, "endpoint.add", actor.tenant_id, refused)
    try:
        address = _address(EndpointKind(wanted.kind), wanted.address.strip())
    except AddressRefused as error:
        return _audited(actor, "endpoint.add", actor.tenant_id, Invalid({"field": "address", "reason": str(error)}))
    endpoint = endpoint_create(
        actor=actor,
        membership=None if wanted.whole_tenant else membership_of(actor),
        name=wanted.name.strip(),
        address=address,
        hears=frozenset(NoticeKind(kind) for kind in wanted.hears or NoticeKind),
        digest=wanted.digest,
    )
    return EndpointAdded(endpoint.id)


def endpoint_drop(*, actor: Actor, endpoint_id: UUID) -> EndpointRemoved | Refused:
    """Tell an endpoint nothing any more: one's own, or the tenant's with the permission to notify. Raises NotFound."""
    endpoint = access_endpoint(actor=actor, id=endpoint_id)
    refused = _may(actor, whole_tenant=endpoint.membership_id is None)
    if refused is not None:
        return _audited(actor, "endpoint.remove", endpoint.id, refused)
    if not endpoint_remove(actor=actor, endpoint=endpoint):
        return _audited(actor, "endpoint.remove", endpoint.id, EndpointGone())
    return EndpointRemoved(endpoint.id)


def _may(actor: Actor, *, whole_tenant: bool) -> Refused | None:
    needed = Permission.NOTIFY if whole_tenant else Permission.READ
    return None if actor.may(needed) else NotAllowed({"permission": str(needed), "actor": actor.name})


def _unfit(actor: Actor, wanted: EndpointRequest) -> Refused | None:
    """What of the request can't be stored, but for the address."""
    name = wanted.name.strip()
    if wanted.kind not in list(EndpointKind):
        return Invalid({"field": "kind", "reason": f"one of {', '.join(EndpointKind)}."})
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        return Invalid({"field": "name", "reason": f"a name of at most {NAME_LIMIT} characters that can be seen."})
    if wanted.hears - set(NoticeKind):
        return Invalid({"field": "hears", "reason": f"only {', '.join(NoticeKind)}."})
    if wanted.digest and wanted.kind != EndpointKind.MAIL:
        return Invalid({"field": "digest", "reason": "only mail is gathered."})
    if endpoints_visible(actor).count() >= MOST_ENDPOINTS:
        return Invalid({"field": "name", "reason": f"there are {MOST_ENDPOINTS} already; remove one first."})
    return None


def _address(kind: EndpointKind, written: str) -> Address:
    """The checked address, and how it is shown: of a webhook the host, of a mailbox its first letter and its domain, of a chat
    service its name.
    """
    if kind == EndpointKind.MAIL:
        mailbox = checked_mailbox(written)
        return Address(kind, mailbox, f"{mailbox[0]}…@{mailbox.rpartition('@')[2]}")
    if kind == EndpointKind.CHAT:
        return Address(kind, written, checked_service(written).shown)
    return Address(kind, written, checked(written).authority)


def _audited(actor: Actor, action: str, object_id: UUID, refused: Refused) -> Refused:
    audit_refused(actor=actor, action=action, object_type="endpoint", object_id=object_id, refused=refused)
    return refused
