"""Where people hear of things outside the pages, by themselves."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction

from accounts.audit import audit_append
from accounts.models import ClockTimestamp, Endpoint, Membership
from accounts.selectors import current_data_key, plain_body, sealed_body
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
    signed_with: str = "",
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
            secret=sealed_body(key_id=key, plain=signed_with.encode()) if signed_with else None,
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


@dataclass(frozen=True)
class Change:
    """What of an endpoint is to be another: None leaves it as it is; `signed_with` "" has nothing signed any more."""

    name: str | None = None
    address: Address | None = None
    signed_with: str | None = None
    hears: frozenset[NoticeKind] | None = None
    digest: bool | None = None


def endpoint_change(*, actor: Actor, endpoint: Endpoint, change: Change) -> bool:
    """Change an endpoint that is in use. False where it was removed meanwhile. The caller has checked everything.

    The audit says what was changed, never an address or a secret.
    """
    with transaction.atomic():
        held = Endpoint.objects.select_for_update(no_key=True).filter(id=endpoint.id, removed_at=None).first()
        if held is None:
            return False
        wanted = _changed(held, change)
        Endpoint.objects.filter(id=held.id).update(**wanted)
        detail = {"changed": _named(change)}
        detail |= {"hears": sorted(change.hears)} if change.hears is not None else {}
        audit_append(
            actor=actor, action="endpoint.change", object_type="endpoint", object_id=endpoint.id, detail=detail
        )
    return True


def _named(change: Change) -> list[str]:
    """What was to be changed, by name."""
    return sorted(name for name, value in vars(change).items() if value is not None)


def _changed(held: Endpoint, change: Change) -> dict[str, Any]:
    wanted: dict[str, Any] = {"name": change.name, "digest": change.digest}
    wanted["hears"] = None if change.hears is None else sorted(change.hears)
    kept = {name: value for name, value in wanted.items() if value is not None and value != getattr(held, name)}
    return kept | _resealed(held, change)


def _resealed(held: Endpoint, change: Change) -> dict[str, Any]:
    """What is secret of an endpoint, sealed anew with one key where any of it is another."""
    if change.address is None and change.signed_with is None:
        return {}
    key = current_data_key(held.tenant_id)
    seal = partial(sealed_body, key_id=key)
    shown = {} if change.address is None else {"shown": change.address.shown}
    address = (
        change.address.secret.encode() if change.address else plain_body(key_id=held.data_key_id, body=held.address)
    )
    if change.signed_with is not None:
        secret = change.signed_with.encode()
    else:
        secret = plain_body(key_id=held.data_key_id, body=held.secret) if held.secret else b""
    sealed = {"address": seal(plain=address), "secret": seal(plain=secret) if secret else None}
    return {**shown, **sealed, "data_key_id": key}


def endpoint_pause(*, actor: Actor, endpoint: Endpoint) -> bool:
    """Tell an endpoint nothing until it is resumed; what happens meanwhile is not told later. False if it was paused."""
    return _pause(actor, endpoint, paused=True)


def endpoint_resume(*, actor: Actor, endpoint: Endpoint) -> bool:
    """Tell a paused endpoint again. False if it was not paused."""
    return _pause(actor, endpoint, paused=False)


def _pause(actor: Actor, endpoint: Endpoint, *, paused: bool) -> bool:
    with transaction.atomic():
        other = Endpoint.objects.filter(id=endpoint.id, removed_at=None, paused_at__isnull=paused)
        if not other.update(paused_at=ClockTimestamp() if paused else None):
            return False
        action = "endpoint.pause" if paused else "endpoint.resume"
        audit_append(actor=actor, action=action, object_type="endpoint", object_id=endpoint.id, detail={})
    return True


def endpoint_remove(*, actor: Actor, endpoint: Endpoint) -> bool:
    """Tell an endpoint nothing any more. What it was told stays as a record; what waits to be told is skipped."""
    with transaction.atomic():
        live = Endpoint.objects.filter(id=endpoint.id, removed_at=None)
        if not live.update(removed_at=ClockTimestamp()):
            return False
        audit_append(actor=actor, action="endpoint.remove", object_type="endpoint", object_id=endpoint.id, detail={})
    return True
