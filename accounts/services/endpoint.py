"""Where people hear of things outside the pages, by themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction

from accounts.audit import audit_append
from accounts.errors import EndpointGone, EndpointMoved, Invalid
from accounts.models import AuditEvent, ClockTimestamp, Endpoint, Membership
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


def endpoint_change(
    *, actor: Actor, endpoint: Endpoint, change: Change, seen: int | None
) -> EndpointGone | EndpointMoved | Invalid | None:
    """Change an endpoint that is in use. The caller has checked everything. Returns a refusal where it was removed meanwhile, or is not
    at the version `seen` any more, where that is given, or never was.

    The audit says what was changed, never an address or a secret.
    """
    with transaction.atomic():
        held = Endpoint.objects.select_for_update(no_key=True).filter(id=endpoint.id, removed_at=None).first()
        if held is None:
            return EndpointGone()
        if seen is not None and seen != held.version:
            return _moved(held, seen)
        wanted = _changed(held, change)
        named = _named(change, wanted)
        if not named:
            return None
        Endpoint.objects.filter(id=held.id).update(**wanted, version=held.version + 1)
        detail = {"changed": named} | ({"hears": wanted["hears"]} if "hears" in wanted else {})
        audit_append(
            actor=actor, action="endpoint.change", object_type="endpoint", object_id=endpoint.id, detail=detail
        )
    return None


def _moved(held: Endpoint, seen: int) -> EndpointMoved | Invalid:
    """Who changed it last since that version, and everything that was changed since, as the audit names it."""
    if not 0 < seen < held.version:
        return Invalid(
            {"field": "version", "reason": f"{seen} is no version of this endpoint, which is at {held.version}."}
        )
    changes = AuditEvent.objects.filter(
        tenant_id=held.tenant_id, object_type="endpoint", object_id=str(held.id), action="endpoint.change"
    ).order_by("-seq")[: held.version - seen]
    since = list(changes)
    what = sorted({_WORDS[name] for event in since for name in event.detail["changed"]})
    by, at = since[0].actor.partition(":")[2], f"{since[0].at:%Y-%m-%d %H:%M:%S} UTC"
    return EndpointMoved({"seen": seen, "version": held.version, "by": by, "at": at, "changed": ", ".join(what)})


_WORDS = {
    "name": "its name",
    "address": "its address",
    "signed_with": "what it is signed with",
    "hears": "what it hears of",
    "digest": "whether it is gathered",
}


def _named(change: Change, wanted: Mapping[str, Any]) -> list[str]:
    """What is another than before, by name. A secret that is given counts as another one."""
    given = {name for name in ("address", "signed_with") if getattr(change, name) is not None}
    return sorted(given | ({"name", "hears", "digest"} & wanted.keys()))


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
