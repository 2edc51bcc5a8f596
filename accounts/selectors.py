"""Reads: who a person is in which tenant, and the data keys."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from accounts.codec import NONCE_BYTES, BodyChanged, seal, unseal, wrapping_key
from accounts.errors import NotFound, TenantUnchosen
from accounts.models import ApiToken, AuditEvent, DataKey, Endpoint, Membership, Notice, SavedView, User
from accounts.statements import DATA_KEY, MEMBERS, fetch, joined
from accounts.states import Actor, Permission, permissions_of


def actor_of(*, user: User, door: str, tenant_slug: str | None = None) -> Actor:
    """The actor behind a signed-in user. Raises NotFound when the user has no membership in the tenant, or none at all, and
    TenantUnchosen where they have several and name no tenant.
    """
    return _actor("u.id = %(who)s", user.id, door, tenant_slug)


def _actor(who: str, value: int | str, door: str, tenant_slug: str | None = None) -> Actor:
    found = fetch(f"{_MEMBERSHIP} AND {who} ORDER BY t.slug", {"who": value, "slug": tenant_slug})
    if len(found) > 1:
        raise TenantUnchosen([slug for *_, slug in found])
    for tenant_id, roles, groups, username, slug in found:
        return Actor(tenant_id, username, frozenset(roles), door=door, groups=frozenset(groups), tenant=slug)
    raise NotFound


def tenants_of(user: User) -> list[tuple[str, str]]:
    """(short name, name) of the tenants that a person is a member of, in order."""
    mine = Membership.objects.filter(user=user, user__is_active=True).order_by("tenant__name", "tenant__slug")
    return list(mine.values_list("tenant__slug", "tenant__name"))


TENANT = "tenant"  # where a session keeps the short name of the tenant that its person acts in
_MEMBERSHIP = """
SELECT m.tenant_id, m.roles, m.groups, u.username, t.slug FROM accounts_membership m
JOIN accounts_user u ON u.id = m.user_id JOIN accounts_tenant t ON t.id = m.tenant_id
WHERE u.is_active AND coalesce(t.slug = %(slug)s::text, true)"""


CONFIRMED = "confirmed_at"  # where a session keeps when its person last gave the password


def confirmed_at(session: Mapping[str, Any]) -> datetime | None:
    """When the person of a session last gave their password on it; None for one that began before this was kept."""
    said = session.get(CONFIRMED)
    return datetime.fromisoformat(said) if said else None


def membership_actor(*, membership: Membership, username: str, door: str) -> Actor:
    """The actor of one membership."""
    roles, groups = frozenset(membership.roles), frozenset(membership.groups)
    tenant = membership.tenant.slug
    return Actor(membership.tenant_id, username, roles, door=door, groups=groups, tenant=tenant)


def actor_in(*, tenant_id: UUID, username: str, door: str) -> Actor:
    """A person as an actor in one tenant, with what they may do there now. Raises NotFound."""
    wanted = Membership.objects.filter(tenant_id=tenant_id, user__username=username, user__is_active=True)
    membership = wanted.select_related("tenant").first()
    if membership is None:
        raise NotFound
    return membership_actor(membership=membership, username=username, door=door)


def actor_named(*, username: str, door: str, tenant_slug: str | None = None) -> Actor:
    """The actor with this username, for the command line. Raises NotFound, and TenantUnchosen as `actor_of` does."""
    return _actor("u.username = %(who)s", username, door, tenant_slug)


_KEPT = joined(MEMBERS, select="SELECT username, roles FROM members")


def still_may(*, tenant_id: UUID, label: str, permission: Permission) -> bool:
    """True while the person that a record names (`person:NAME`) is an active member who holds the permission (guard 10).

    In a transaction it keeps membership and account as they are until the commit. What is no person is nobody's authority.
    """
    members = fetch(_KEPT, {"tenant": tenant_id, "members": people_in([label])})
    return may_still(label, permission, members)


def people_in(labels: Iterable[str]) -> list[str]:
    """The usernames in labels of who did something: `person:NAME`. What is no person is nobody's authority."""
    return [name for kind, _, name in (label.partition(":") for label in labels) if kind == "person"]


def may_still(label: str, permission: Permission, members: Iterable[Sequence[Any]]) -> bool:
    """True if the person that a record names holds the permission, by rows of MEMBERS."""
    held = (roles for username, roles in members if f"person:{username}" == label)
    return any(permission in permissions_of(frozenset(roles)) for roles in held)


_HELD = """
SELECT u.username, m.roles, m.groups FROM accounts_membership m JOIN accounts_user u ON u.id = m.user_id
WHERE m.tenant_id = %(tenant)s AND u.username = ANY(%(names)s) AND u.is_active FOR SHARE"""


def authority_of(*, tenant_id: UUID, labels: Collection[str]) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Roles and groups of the people that records name (`person:NAME`), by that label; who is no active member is left out.

    In a transaction it keeps memberships and accounts as they are until the commit.
    """
    names = [label.removeprefix("person:") for label in labels if label.startswith("person:")]
    found = fetch(_HELD, {"tenant": tenant_id, "names": names}) if names else []
    return {f"person:{name}": (frozenset(roles), frozenset(groups)) for name, roles, groups in found}


def members_who_may(*, tenant_id: UUID, permission: Permission) -> list[str]:
    """The usernames of the active members of a tenant who hold a permission, in order."""
    members = Membership.objects.filter(tenant_id=tenant_id, user__is_active=True).order_by("user__username")
    found = members.values_list("user__username", "roles")
    return [name for name, roles in found if permission in permissions_of(frozenset(roles))]


def token_by_digest(digest: str) -> ApiToken | None:
    """The token with this digest, with its membership and person; None when it was revoked or the person is switched off."""
    live = ApiToken.objects.filter(revoked_at=None, membership__user__is_active=True)
    return live.select_related("membership__user", "membership__tenant").filter(digest=digest).first()


def is_session_key(text: str) -> bool:
    """Whether a text of a cookie can be the key of a session: letters and digits of ASCII."""
    return len(text) >= 8 and text.isascii() and text.isalnum()


def signed_in(session_keys: Collection[str]) -> dict[str, Actor]:
    """Who is behind each of these sessions at this moment, in three queries; an ended session is left out.

    The same rules as for a page: the session has not expired, the password has not changed since, the person is active and a
    member of the tenant that they act in.
    """
    known = [key for key in session_keys if is_session_key(key)]
    sessions = Session.objects.filter(session_key__in=known, expire_date__gt=timezone.now())
    held = {session.session_key: session.get_decoded() for session in sessions}
    ids = {data[SESSION_KEY] for data in held.values() if SESSION_KEY in data}
    users = {str(one.pk): one for one in User.objects.filter(pk__in=ids, is_active=True)}
    theirs: dict[str, list[Membership]] = {}
    for one in Membership.objects.filter(user__in=users.values()).select_related("tenant"):
        theirs.setdefault(str(one.user_id), []).append(one)
    acting = {key: _acts_by(theirs.get(data.get(SESSION_KEY, ""), []), data.get(TENANT)) for key, data in held.items()}
    return {
        key: membership_actor(membership=membership, username=users[data[SESSION_KEY]].username, door="page")
        for key, data in held.items()
        if (membership := acting[key]) is not None
        and _session_holds(users[data[SESSION_KEY]], data.get(HASH_SESSION_KEY, ""))
    }


def _acts_by(memberships: Sequence[Membership], tenant: str | None) -> Membership | None:
    """The membership that a session acts by: the one in the tenant that was chosen, or the only one."""
    fits = [one for one in memberships if tenant in (None, one.tenant.slug)]
    return fits[0] if len(fits) == 1 else None


def _session_holds(user: User, session_hash: str) -> bool:
    valid = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(session_hash, one) for one in valid)


@lru_cache(maxsize=1024)
def data_key(key_id: UUID) -> bytes:
    """The unwrapped 32 bytes of a data key."""
    wrapped = DataKey.objects.values_list("wrapped", flat=True).get(id=key_id)
    sealed = bytes(wrapped)
    return AESGCM(wrapping_key(settings.MASTER_KEY)).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)


def current_data_key(tenant_id: UUID) -> UUID:
    """The id of the key that new bodies of a tenant are sealed with."""
    found: UUID = fetch(_CURRENT_KEY, {"tenant": tenant_id})[0][0]
    return found


_CURRENT_KEY = joined(DATA_KEY, select="SELECT id FROM data_key")


def sealed_body(*, key_id: UUID, plain: bytes) -> bytes:
    """A body as it is stored."""
    return seal(data_key(key_id), plain)


def plain_body(*, key_id: UUID, body: bytes | memoryview) -> bytes:
    """The plain bytes of a stored body. Raises BodyChanged when it was changed in the store."""
    return unseal(data_key(key_id), bytes(body))


def proved_body(*, key_id: UUID, body: bytes | memoryview, sha256: str) -> bytes:
    """The plain bytes of a stored body whose digest stands beside it. Raises BodyChanged when it was changed in the store, and
    when other bytes of the same tenant were put in its place: the key alone would open those.
    """
    plain = plain_body(key_id=key_id, body=body)
    if hashlib.sha256(plain).hexdigest() != sha256:
        raise BodyChanged
    return plain


def audit_of(*, tenant_id: UUID, object_type: str, object_id: str) -> Sequence[AuditEvent]:
    """The audit events about one object, oldest first."""
    events = AuditEvent.objects.filter(tenant_id=tenant_id, object_type=object_type, object_id=object_id)
    return list(events.order_by("seq"))


def last_audited(
    *, tenant_id: UUID, action: str, object_type: str, object_id: UUID, **detail: object
) -> AuditEvent | None:
    """The newest row of one act on one object whose detail says this; None where there is none. Called by services."""
    said = {f"detail__{name}": value for name, value in detail.items()}
    events = AuditEvent.objects.filter(tenant_id=tenant_id, object_type=object_type, object_id=str(object_id))
    return events.filter(action=action, **said).order_by("-seq").first()


_LATELY = """
SELECT 1 FROM accounts_auditevent WHERE tenant_id = %(tenant)s AND object_type = 'call' AND object_id = %(object)s
AND actor = %(actor)s AND action = %(action)s AND at > clock_timestamp() - interval '15 minutes' LIMIT 1"""


def audited_lately(*, actor: Actor, action: str, object_id: UUID) -> bool:
    """Whether the audit chain says of a person that they did this with a call within the last quarter of an hour."""
    wanted = {"tenant": actor.tenant_id, "object": str(object_id), "actor": actor.label, "action": action}
    return bool(fetch(_LATELY, wanted))


def membership_of(actor: Actor) -> Membership:
    """The membership that an actor acts by."""
    return Membership.objects.get(tenant_id=actor.tenant_id, user__username=actor.name)


def views_visible(actor: Actor) -> QuerySet[SavedView]:
    """The saved views that a person may use: their own, and those that others share in the tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return SavedView.objects.none()
    mine = Q(membership__user__username=actor.name) | Q(shared=True)
    views = SavedView.objects.filter(mine, tenant_id=actor.tenant_id)
    return views.select_related("membership__user").order_by("name", "id")


def access_view(*, actor: Actor, id: UUID) -> SavedView:
    """One of them. Raises NotFound."""
    view = views_visible(actor).filter(id=id).first()
    if view is None:
        raise NotFound
    return view


def endpoints_visible(actor: Actor) -> QuerySet[Endpoint]:
    """The endpoints in use that a person may know of: their own, and those of the whole tenant; none without the permission
    to read.
    """
    return _endpoints(actor).filter(removed_at=None)


def access_endpoint(*, actor: Actor, id: UUID) -> Endpoint:
    """One endpoint that a person may know of, removed or not. Raises NotFound."""
    endpoint = _endpoints(actor).filter(id=id).first()
    if endpoint is None:
        raise NotFound
    return endpoint


def _endpoints(actor: Actor) -> QuerySet[Endpoint]:
    if not actor.may(Permission.READ):
        return Endpoint.objects.none()
    mine = Q(membership=None) | Q(membership__user__username=actor.name)
    return Endpoint.objects.filter(mine, tenant_id=actor.tenant_id).select_related("membership__user")


def notices_visible(actor: Actor) -> QuerySet[Notice]:
    """What the endpoints that a person may know of were told, or are to be told."""
    return Notice.objects.filter(endpoint__in=_endpoints(actor)).select_related("endpoint")


def notices_claimed(ids: Collection[UUID]) -> list[Notice]:
    """Claimed notices with their endpoint and its person, in the order in which they were written."""
    rows = Notice.objects.filter(id__in=ids).select_related(
        "endpoint__membership__user", "endpoint__membership__tenant", "endpoint__tenant"
    )
    return list(rows.order_by("created_at", "id"))
