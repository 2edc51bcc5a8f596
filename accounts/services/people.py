"""Tenants, people, roles and tokens, by commands of whoever runs the installation; and a password that is given anew."""

import hashlib
import os
import secrets
from dataclasses import replace

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
