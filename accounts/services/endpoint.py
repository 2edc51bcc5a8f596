"""Where people hear of things outside the pages, by themselves."""

from dataclasses import dataclass

from django.db import transaction

from accounts.audit import audit_append
from accounts.models import ClockTimestamp, Endpoint, Membership
from accounts.selectors import current_data_key, sealed_body
from accounts.states import Actor, EndpointKind, NoticeKind


@dataclass(frozen=True)
class Address:
    """An address that was checked, and how it is shown: without what would let somebody write to it."""

    kind: EndpointKind
    secret: str
    shown: str


def endpoint_create(
    *,
    actor: Actor,
    membership: Membership | None,
    name: str,
    address: Address,
    hears: frozenset[NoticeKind],
    digest: bool,
) -> Endpoint:
    """Store an endpoint of a person, or of the whole tenant where `membership` is None. The caller has checked everything."""
    key = current_data_key(actor.tenant_id)
    with transaction.atomic():
        endpoint = Endpoint.objects.create(
            tenant_id=actor.tenant_id,
            membership=membership,
            kind=address.kind,
            name=name,
            shown=address.shown,
            address=sealed_body(key_id=key, plain=address.secret.encode()),
            data_key_id=key,
            hears=sorted(hears),
            digest=digest,
            created_by=actor.label,
        )
        audit_append(
            actor=actor,
            action="endpoint.add",
            object_type="endpoint",
            object_id=endpoint.id,
            detail={"kind": str(address.kind), "hears": sorted(hears), "whole_tenant": membership is None},
        )
    return endpoint


def endpoint_remove(*, actor: Actor, endpoint: Endpoint) -> bool:
    """Tell an endpoint nothing any more. What it was told stays as a record; what waits to be told is skipped."""
    with transaction.atomic():
        live = Endpoint.objects.filter(id=endpoint.id, removed_at=None)
        if not live.update(removed_at=ClockTimestamp()):
            return False
        audit_append(actor=actor, action="endpoint.remove", object_type="endpoint", object_id=endpoint.id, detail={})
    return True
