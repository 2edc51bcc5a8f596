"""Tenants, people, roles and tokens, by commands of whoever runs the installation; and a password that is given anew.

Each of these acts is in the audit chain of its tenant, in the transaction of the act: what was before, what is now, and `by` whom, the
account of the machine that the installation is run with. What changes nothing is not recorded.
"""

import hashlib
import os
import secrets
from dataclasses import replace
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import transaction

from accounts.audit import audit_append, audit_refused
from accounts.codec import NONCE_BYTES, wrapping_key
from accounts.errors import Refused, WrongPassword
from accounts.models import ApiToken, AuditHead, ClockTimestamp, DataKey, Membership, Tenant, User
from accounts.services.tries import confirm_counters, try_begin, try_worked
from accounts.statements import fetch
from accounts.states import Actor, Role

SETUP = "setup"  # what makes people without anybody at a keyboard: the tour, tests, benches


def tenant_create(*, slug: str, name: str, by: str = SETUP) -> Tenant:
    """A tenant with its audit chain and its data key. Returns the existing one if the slug is taken."""
    with transaction.atomic():
        tenant, created = Tenant.objects.get_or_create(slug=slug, defaults={"name": name})
        if created:
            AuditHead.objects.create(tenant=tenant)
            nonce = os.urandom(NONCE_BYTES)
            box = AESGCM(wrapping_key(settings.MASTER_KEY))
            DataKey.objects.create(tenant=tenant, wrapped=nonce + box.encrypt(nonce, AESGCM.generate_key(256), None))
            _audit(tenant.id, by, "tenant.create", "tenant", tenant.id, {"slug": slug})
    return tenant


def tenant_rules_set(*, slug: str, by: str = SETUP, **wanted: bool) -> Tenant | None:
    """Set what a tenant wants of its people: `two_for_verdicts`, `self_approval`; what is not named stays. None where there is no
    such tenant. Called by whoever runs the installation.
    """
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update(no_key=True).filter(slug=slug).first()
        if tenant is None:
            return None
        before = {name: getattr(tenant, name) for name in wanted}
        if before != wanted:
            Tenant.objects.filter(id=tenant.id).update(**wanted)
            tenant.refresh_from_db()
            _audit(tenant.id, by, "tenant.rules", "tenant", tenant.id, {"before": before, "now": wanted})
    return tenant


def tour_seen(*, user: User) -> None:
    """The person went through the tour or needs none: it is offered to them no more. Their own word, in every tenant."""
    User.objects.filter(id=user.id, tour_seen_at=None).update(tour_seen_at=ClockTimestamp())


def member_set(
    *,
    tenant: Tenant,
    username: str,
    password: str | None,
    roles: frozenset[Role],
    groups: frozenset[str] | None = None,
    by: str = SETUP,
) -> Membership:
    """Make the person if needed, set the password if one is given, and set their roles in the tenant, and their groups
    unless these are None. A password is one for all tenants of a person, so it is in the audit chain of each.
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
        found = Membership.objects.select_for_update(no_key=True).filter(tenant=tenant, user=user).first()
        before = {"roles": sorted(found.roles), "groups": sorted(found.groups)} if found else None
        membership, _ = Membership.objects.update_or_create(tenant=tenant, user=user, defaults=held)
        _audit_member(membership, username, before, by, password=password is not None)
    return membership


def _audit_member(
    membership: Membership, username: str, before: dict[str, Any] | None, by: str, *, password: bool
) -> None:
    """Record what has changed about a member, in the chains of their tenants in the order of their ids."""
    now = {"roles": sorted(membership.roles), "groups": sorted(membership.groups)}
    acts: dict[UUID, list[tuple[str, dict[str, Any]]]] = {membership.tenant_id: []}
    if before != now:
        action = "member.add" if before is None else "member.change"
        acts[membership.tenant_id].append((action, {"before": before, "now": now}))
    if password:
        for tenant_id in Membership.objects.filter(user=membership.user_id).values_list("tenant_id", flat=True):
            acts.setdefault(tenant_id, []).append(("member.password", {}))
    for tenant_id in sorted(acts):
        for action, detail in acts[tenant_id]:
            _audit(tenant_id, by, action, "member", membership.user_id, {"username": username, **detail})


def _audit(
    tenant_id: UUID, by: str, action: str, object_type: str, object_id: UUID | int, detail: dict[str, Any]
) -> None:
    actor = Actor(tenant_id, by, kind="installation", door="command")
    audit_append(actor=actor, action=action, object_type=object_type, object_id=object_id, detail=detail)


def actor_confirm(*, actor: Actor, password: str) -> Actor | Refused:
    """The same person, who gives their password now, on whatever door. A wrong one is refused and audited; after several of
    them the next one may be given at a time that is said. Called outside any transaction.
    """
    counters = confirm_counters(actor)
    refused: Refused | None = try_begin(counters)
    if refused is None:
        user = User.objects.filter(username=actor.name, is_active=True).first()
        if user is None or not user.check_password(password):
            refused = WrongPassword({"actor": actor.name})
    if refused is not None:
        audit_refused(
            actor=actor, action="password.confirm", object_type="tenant", object_id=actor.tenant_id, refused=refused
        )
        return refused
    try_worked(counters)
    return replace(actor, confirmed_at=fetch("SELECT clock_timestamp()", {})[0][0])


def sign_in_failed(*, name: str, address: str, wrong: int) -> None:
    """Record a wrong password in the chain of each tenant of the person that it was given for, if there is one. Whoever gave it
    is known by their address only. What the limit refuses is not recorded, so nobody fills a chain.
    """
    for tenant_id in Membership.objects.filter(user__username=name).values_list("tenant_id", flat=True):
        with transaction.atomic():
            audit_append(
                actor=Actor(tenant_id, address, kind="address"),
                action="sign_in.refused",
                object_type="tenant",
                object_id=tenant_id,
                detail={"code": WrongPassword.code, "person": name, "wrong": wrong},
            )


def token_create(*, membership: Membership, name: str, by: str = SETUP) -> str:
    """A new bearer token. The plain token is returned once and never stored."""
    token = "sb_" + secrets.token_urlsafe(32)
    with transaction.atomic():
        made = ApiToken.objects.create(membership=membership, name=name, digest=token_digest(token))
        _audit_token("token.create", membership, made, by)
    return token


def token_revoke(*, membership: Membership, name: str, by: str = SETUP) -> int:
    """Revoke the tokens of a membership that have this name. They are refused from the commit on. Returns how many."""
    with transaction.atomic():
        live = ApiToken.objects.filter(membership=membership, name=name, revoked_at=None)
        revoked = list(live.select_for_update(no_key=True).order_by("id"))
        for token in revoked:
            ApiToken.objects.filter(id=token.id).update(revoked_at=ClockTimestamp())
            _audit_token("token.revoke", membership, token, by)
    return len(revoked)


def _audit_token(action: str, membership: Membership, token: ApiToken, by: str) -> None:
    named = {"username": membership.user.username, "roles": sorted(membership.roles)}
    _audit(membership.tenant_id, by, action, "token", token.id, named)


def token_digest(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
