"""Many waits at once, each decided by `approval_decide` on its own: its guards, its transaction, its answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from accounts.audit import audit_refused
from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.states import Actor, Permission
from approvals.errors import NotTogether, WaitNotHere
from approvals.selectors import access_wait, givers_to
from approvals.services.checks import Seen, Tools, reason_refusal
from approvals.services.decide import Decided, Voted, approval_decide
from approvals.states import DecisionVerdict

BATCH_LIMIT = 200


@dataclass(frozen=True)
class Item:
    """One wait of a batch, with exactly what the person was shown of it."""

    wait_id: UUID
    seen: Seen


@dataclass(frozen=True)
class Answered:
    """What came of one item."""

    wait_id: UUID
    outcome: Decided | Voted | Refused


def approvals_decide(
    *, actor: Actor, items: Sequence[Item], verdict: DecisionVerdict, reason: str, tools: Tools
) -> list[Answered] | Refused:
    """Decide several waits with one verdict and one reason, in the order given, and say of each what came of it.

    Each is a decision of its own: what is refused for one changes nothing for the others. Only waits that the policy marks
    as fit for it (`batchable`) are approved so; the others are refused one by one, and every wait may be rejected. It
    grants nothing beyond these calls. Refused as a whole are who may decide nothing, an empty batch, more than BATCH_LIMIT, a wait named twice, and
    a reason that can't be stored.
    """
    refused = _not_allowed(actor) or _unfit(items) or reason_refusal(reason.strip())
    if refused is not None:
        return refused
    return [Answered(item.wait_id, _one(actor, item, verdict, reason, tools)) for item in items]


def _not_allowed(actor: Actor) -> NotAllowed | None:
    if actor.may(Permission.DECIDE) or givers_to(tenant_id=actor.tenant_id, taker=actor.label):
        return None
    return NotAllowed({"permission": "decide", "actor": actor.name})


def _unfit(items: Sequence[Item]) -> Invalid | None:
    if not items:
        return Invalid({"field": "waits", "reason": "name at least one."})
    if len(items) > BATCH_LIMIT:
        return Invalid({"field": "waits", "reason": f"at most {BATCH_LIMIT} at once."})
    if len({item.wait_id for item in items}) != len(items):
        return Invalid({"field": "waits", "reason": "one of them is named twice."})
    return None


def _one(actor: Actor, item: Item, verdict: DecisionVerdict, reason: str, tools: Tools) -> Decided | Voted | Refused:
    """Decide one item. A wait of somebody else is refused as one that is not there, and the others go on."""
    try:
        wait = access_wait(actor=actor, id=item.wait_id)
    except NotFound:
        return WaitNotHere({"wait": str(item.wait_id)})
    if verdict == DecisionVerdict.APPROVE and not wait.batchable:
        refused = NotTogether()
        audit_refused(actor=actor, action="wait.decide", object_type="wait", object_id=wait.id, refused=refused)
        return refused
    return approval_decide(actor=actor, wait_id=wait.id, verdict=verdict, seen=item.seen, reason=reason, tools=tools)
