"""Reads: who a person is in which tenant, and the data keys."""

from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from accounts.codec import NONCE_BYTES, seal, unseal, wrapping_key
from accounts.errors import NotFound
from accounts.models import AuditEvent, DataKey, Membership, User
from accounts.states import Actor


def actor_of(*, user: User, door: str, tenant_slug: str | None = None) -> Actor:
    """The actor behind a signed-in user. Raises NotFound when the user has no membership in the tenant, or none at all.

    With several memberships and no `tenant_slug` the oldest membership counts.
    """
    memberships = Membership.objects.filter(user=user, user__is_active=True).order_by("id")
    if tenant_slug is not None:
        memberships = memberships.filter(tenant__slug=tenant_slug)
    membership = memberships.first()
    if membership is None:
        raise NotFound
    return membership_actor(membership=membership, username=user.username, door=door)


def membership_actor(*, membership: Membership, username: str, door: str) -> Actor:
    """The actor of one membership."""
    return Actor(tenant_id=membership.tenant_id, name=username, roles=frozenset(membership.roles), door=door)


def actor_named(*, username: str, door: str) -> Actor:
    """The actor with this username, for the command line. Raises NotFound."""
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise NotFound
    return actor_of(user=user, door=door)


@lru_cache(maxsize=1024)
def data_key(key_id: UUID) -> bytes:
    """The unwrapped 32 bytes of a data key."""
    wrapped = DataKey.objects.values_list("wrapped", flat=True).get(id=key_id)
    sealed = bytes(wrapped)
    return AESGCM(wrapping_key(settings.MASTER_KEY)).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)


def current_data_key(tenant_id: UUID) -> UUID:
    """The id of the key that new bodies of a tenant are sealed with."""
    return DataKey.objects.values_list("id", flat=True).get(tenant_id=tenant_id, retired_at=None)


def sealed_body(*, key_id: UUID, plain: bytes) -> bytes:
    """A body as it is stored."""
    return seal(data_key(key_id), plain)


def plain_body(*, key_id: UUID, body: bytes | memoryview) -> bytes:
    """The plain bytes of a stored body. Raises InvalidTag when it was changed in the store."""
    return unseal(data_key(key_id), bytes(body))


def audit_of(*, tenant_id: UUID, object_type: str, object_id: str) -> Sequence[AuditEvent]:
    """The audit events about one object, oldest first."""
    events = AuditEvent.objects.filter(tenant_id=tenant_id, object_type=object_type, object_id=object_id)
    return list(events.order_by("seq"))
