"""Writes: tenants, people, roles and tokens; where people hear of things; and the outbox of what they are told."""

from accounts.services.endpoint import (
    Address,
    Change,
    endpoint_change,
    endpoint_create,
    endpoint_pause,
    endpoint_remove,
    endpoint_resume,
)
from accounts.services.form import form_free, form_send
from accounts.services.notice import (
    Claim,
    notice_test,
    notice_write,
    notices_again,
    notices_claim,
    notices_purge,
    notices_settle,
)
from accounts.services.people import (
    actor_confirm,
    member_set,
    sign_in_failed,
    tenant_create,
    tenant_rules_set,
    token_create,
    token_digest,
    token_revoke,
    tour_seen,
)
from accounts.services.tries import Device, sign_in_counters, try_begin, try_worked, wrong_so_far
from accounts.services.view import view_remove, view_save

__all__ = [
    "Address",
    "Change",
    "Claim",
    "Device",
    "actor_confirm",
    "endpoint_change",
    "endpoint_create",
    "endpoint_pause",
    "endpoint_remove",
    "endpoint_resume",
    "form_free",
    "form_send",
    "member_set",
    "notice_test",
    "notice_write",
    "notices_again",
    "notices_claim",
    "notices_purge",
    "notices_settle",
    "sign_in_counters",
    "sign_in_failed",
    "tenant_create",
    "tenant_rules_set",
    "token_create",
    "token_digest",
    "token_revoke",
    "tour_seen",
    "try_begin",
    "try_worked",
    "view_remove",
    "view_save",
    "wrong_so_far",
]
