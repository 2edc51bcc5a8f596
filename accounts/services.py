"""Writes: tenants, people, roles and tokens, by commands of whoever runs the installation; where people hear of things, by
themselves; and the outbox of what they are told.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import transaction

from accounts.audit import audit_append, audit_refused
from accounts.codec import NONCE_BYTES, wrapping_key
from accounts.errors import WrongPassword
from accounts.models import ApiToken, AuditHead, ClockTimestamp, DataKey, Endpoint, Membership, Tenant, User
from accounts.selectors import current_data_key, sealed_body
from accounts.statements import fetch
from accounts.states import Actor, EndpointKind, NoticeKind, NoticeStatus, Role


def tenant_create(*, slug: str, name: str) -> Tenant:
    """A tenant with its audit chain and its data key. Returns the existing one if the slug is taken."""
    with transaction.atomic():
        tenant, created = Tenant.objects.get_or_create(slug=slug, defaults={"name": name})
        if created:
            AuditHead.objects.create(tenant=tenant)
            nonce = os.urandom(NONCE_BYTES)
            box = AESGCM(wrapping_key(settings.MASTER_KEY))
            DataKey.objects.create(tenant=tenant, wrapped=nonce + box.encrypt(nonce, AESGCM.generate_key(256), None))
    return tenant


def tenant_rules_set(*, slug: str, two_for_verdicts: bool) -> bool:
    """Set what a tenant wants of its people. False where there is no such tenant. Called by whoever runs the installation."""
    return bool(Tenant.objects.filter(slug=slug).update(two_for_verdicts=two_for_verdicts))


def member_set(
    *,
    tenant: Tenant,
    username: str,
    password: str | None,
    roles: frozenset[Role],
    groups: frozenset[str] | None = None,
) -> Membership:
    """Make the person if needed, set the password if one is given, and set their roles in the tenant, and their groups
    unless these are None.
    """
    with transaction.atomic():
        user, created = User.objects.get_or_create(username=username)
        if password is not None:
            user.set_password(password)
            user.save(update_fields=["password"])
        elif created:
            user.set_unusable_password()
            user.save(update_fields=["password"])
        held = {"roles": sorted(roles)} | ({} if groups is None else {"groups": sorted(groups)})
        membership, _ = Membership.objects.update_or_create(tenant=tenant, user=user, defaults=held)
    return membership


def actor_confirm(*, actor: Actor, password: str) -> Actor | WrongPassword:
    """The same person, who gives their password now, on whatever door. A wrong one is refused and audited."""
    user = User.objects.filter(username=actor.name, is_active=True).first()
    if user is None or not user.check_password(password):
        refused = WrongPassword({"actor": actor.name})
        audit_refused(
            actor=actor, action="password.confirm", object_type="tenant", object_id=actor.tenant_id, refused=refused
        )
        return refused
    return replace(actor, confirmed_at=fetch("SELECT clock_timestamp()", {})[0][0])


def token_create(*, membership: Membership, name: str) -> str:
    """A new bearer token. The plain token is returned once and never stored."""
    token = "sb_" + secrets.token_urlsafe(32)
    ApiToken.objects.create(membership=membership, name=name, digest=token_digest(token))
    return token


def token_revoke(*, membership: Membership, name: str) -> int:
    """Revoke the tokens of a membership that have this name. They are refused from the commit on. Returns how many."""
    live = ApiToken.objects.filter(membership=membership, name=name, revoked_at=None)
    return live.update(revoked_at=ClockTimestamp())


def token_digest(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


# ── where people hear of things, and what they are told ──


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


_NOTICE = """
INSERT INTO accounts_notice (id, endpoint_id, kind, dedupe_key, subject, subject_id, facts, gathered, due_at)
SELECT gen_random_uuid(), e.id, %(kind)s::text, %(key)s::text, %(subject)s::text, %(id)s::uuid, %(facts)s::jsonb,
    e.digest AND %(low_risk)s::boolean,
    CASE WHEN e.digest AND %(low_risk)s::boolean
        THEN to_timestamp(ceil(extract(epoch FROM clock_timestamp()) / %(every)s::int) * %(every)s::int)
        ELSE clock_timestamp() END
FROM accounts_endpoint e
LEFT JOIN accounts_membership m ON m.id = e.membership_id LEFT JOIN accounts_user u ON u.id = m.user_id
WHERE e.tenant_id = %(tenant)s::uuid AND e.removed_at IS NULL AND %(kind)s::text = ANY(e.hears)
    AND coalesce(u.username <> %(but)s::text, true)
ON CONFLICT (endpoint_id, dedupe_key) DO NOTHING RETURNING id"""


def notice_write(
    *,
    tenant_id: UUID,
    kind: NoticeKind,
    subject: str,
    subject_id: UUID,
    dedupe_key: str,
    facts: Mapping[str, str],
    but: str = "",
    low_risk: bool = False,
) -> int:
    """Tell every endpoint of a tenant that hears of this kind, once per dedupe key, in the transaction of the fact.

    `subject` is "wait" or "run"; `facts` are names and words of ours, never arguments or texts of others; `but` is the
    username of who did it, and knows. What is of low risk waits for the digest of an endpoint that has one. Returns how
    many are told.
    """
    row = {
        "tenant": tenant_id,
        "kind": str(kind),
        "subject": subject,
        "id": subject_id,
        "key": dedupe_key,
        "facts": json.dumps(dict(facts)),
        "but": but,
        "low_risk": low_risk,
        "every": settings.NOTICE_DIGEST_SECONDS,
    }
    return len(fetch(_NOTICE, row))


_CLAIM = """
WITH first AS (
    SELECT id, endpoint_id, gathered FROM accounts_notice
    WHERE status = 'PENDING' AND due_at <= (SELECT clock_timestamp())
    ORDER BY due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED),
rest AS (
    SELECT n.id FROM accounts_notice n JOIN first f ON f.gathered AND n.gathered AND n.endpoint_id = f.endpoint_id
    WHERE n.status = 'PENDING' AND n.due_at <= (SELECT clock_timestamp()) AND n.id <> f.id
    ORDER BY n.created_at LIMIT %(most)s::int FOR NO KEY UPDATE OF n SKIP LOCKED)
UPDATE accounts_notice SET attempts = attempts + 1, due_at = clock_timestamp() + make_interval(secs => %(seconds)s::float)
WHERE id IN (SELECT id FROM first UNION ALL SELECT id FROM rest) RETURNING id, attempts"""


@dataclass(frozen=True)
class Claim:
    """Notices of one endpoint that this process is to tell now, as one, with the number of the attempt for each."""

    attempts: Mapping[UUID, int]


def notices_claim(*, seconds: float, most: int) -> Claim | None:
    """Take the notice that is due for the longest time, and the rest of its digest; nobody else takes them for so many
    seconds. None when nothing is due. Not called inside a transaction: the claim is committed before anything is sent.
    """
    claimed = fetch(_CLAIM, {"seconds": seconds, "most": most})
    return Claim(dict(claimed)) if claimed else None


_SETTLE = """
UPDATE accounts_notice n SET status = %(status)s::text, error = %(error)s::text, closed_at = clock_timestamp()
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS c(id, attempt)
WHERE n.id = c.id AND n.attempts = c.attempt AND n.status = 'PENDING' RETURNING n.id"""

_AGAIN = """
UPDATE accounts_notice n
SET error = %(error)s::text, due_at = clock_timestamp() + make_interval(secs => %(seconds)s::float)
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS c(id, attempt)
WHERE n.id = c.id AND n.attempts = c.attempt AND n.status = 'PENDING' RETURNING n.id"""


def notices_settle(claim: Claim, ids: Sequence[UUID], *, status: NoticeStatus, error: str = "") -> int:
    """Close these notices of a claim, unless somebody else has claimed them since. Returns how many. `error` names no
    address.
    """
    return len(fetch(_SETTLE, _claimed(claim, ids) | {"status": str(status), "error": error[:500]}))


def notices_again(claim: Claim, ids: Sequence[UUID], *, seconds: float, error: str) -> int:
    """Let these notices of a claim be tried again in so many seconds."""
    return len(fetch(_AGAIN, _claimed(claim, ids) | {"seconds": seconds, "error": error[:500]}))


def _claimed(claim: Claim, ids: Sequence[UUID]) -> dict[str, Any]:
    return {"ids": list(ids), "attempts": [claim.attempts[id] for id in ids]}
