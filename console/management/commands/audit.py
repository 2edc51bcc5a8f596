"""`manage.py audit verify`: whether the audit chain of the tenant is whole."""

from accounts.audit import audit_verify
from accounts.errors import NotAllowed, Refused
from accounts.states import Permission
from console.management.noun import Asked, Noun, Shown


class ChainBroken(Refused):
    """The audit chain is broken: {found}."""

    code = "CHAIN_BROKEN"


class Command(Noun):
    help = "The audit chain: human and control acts, and refused ones. Needs the role auditor."
    noun = "audit"

    def add_verbs(self) -> None:
        self.verb("verify", verify, "walk the chain from its first event")


def verify(asked: Asked) -> Shown | Refused:
    """Walk the chain of the acting person's tenant."""
    if not asked.actor.may(Permission.AUDIT):
        return NotAllowed({"permission": "audit", "actor": asked.actor.name})
    try:
        events = audit_verify(asked.actor.tenant_id)
    except ValueError as error:
        return ChainBroken({"found": str(error)})
    return Shown({"events": events, "whole": True}, f"The chain is whole: {events} events.")
