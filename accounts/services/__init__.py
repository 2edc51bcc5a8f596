"""Writes: tenants, people, roles and tokens; where people hear of things; and the outbox of what they are told."""

from accounts.services.endpoint import Address, endpoint_create, endpoint_remove
from accounts.services.notice import Claim, notice_write, notices_again, notices_claim, notices_settle
from accounts.services.people import (
    actor_confirm,
    member_set,
    tenant_create,
    tenant_rules_set,
    token_create,
    token_digest,
    token_revoke,
)

__all__ = [
    "Address",
    "Claim",
    "actor_confirm",
    "endpoint_create",
    "endpoint_remove",
    "member_set",
    "notice_write",
    "notices_again",
    "notices_claim",
    "notices_settle",
    "tenant_create",
    "tenant_rules_set",
    "token_create",
    "token_digest",
    "token_revoke",
]
