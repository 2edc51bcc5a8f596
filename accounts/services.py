"""Writes: tenants, people, roles and tokens. Called by commands of whoever runs the installation."""

import hashlib
import os
import secrets

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import transaction

from accounts.codec import NONCE_BYTES, wrapping_key
from accounts.models import ApiToken, AuditHead, ClockTimestamp, DataKey, Membership, Tenant, User
from accounts.states import Role


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
