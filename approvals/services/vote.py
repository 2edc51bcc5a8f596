"""A person takes their own vote back, while nothing is decided. The vote stays as evidence."""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from accounts.audit import audit_append, audit_refused
from accounts.errors import Refused
from accounts.models import ClockTimestamp
from accounts.states import Actor
from approvals.errors import NoVote
from approvals.models import Vote
from approvals.selectors import access_wait
from approvals.services.checks import reason_refusal, still_decidable, wait_locked
from runs.canonical import digest
from runs.live import hint_changed
from runs.services import run_lock


@dataclass(frozen=True)
class VoteWithdrawn:
    """The vote does not count any more; `given` of `quorum` have approved."""

    wait_id: UUID
    by: str
    given: int
    quorum: int


def vote_withdraw(*, actor: Actor, wait_id: UUID, reason: str) -> VoteWithdrawn | Refused:
    """Take the actor's own vote back before the quorum is met. They may vote again.

    Guarded under the same locks as a decision: the wait is open and in time, and a vote of theirs stands. Whoever gave a
    vote may take it back, whatever their roles are by now. A refusal is audited. Raises NotFound.
    """
    run_id = access_wait(actor=actor, id=wait_id).run_id
    with transaction.atomic():
        outcome = _withdraw(actor, run_id, wait_id, reason.strip())
    if isinstance(outcome, Refused):
        audit_refused(actor=actor, action="vote.withdraw", object_type="wait", object_id=wait_id, refused=outcome)
    return outcome


def _withdraw(actor: Actor, run_id: UUID, wait_id: UUID, reason: str) -> VoteWithdrawn | Refused:
    locked = wait_locked(run_lock(run_id), wait_id)
    refused = reason_refusal(reason) or still_decidable(actor, locked)
    if refused is not None:
        return refused
    mine = next((vote for vote in locked.votes if vote.actor == actor.label), None)
    if mine is None:
        return NoVote({"actor": actor.name})
    Vote.objects.filter(id=mine.id, withdrawn_at=None).update(withdrawn_at=ClockTimestamp(), withdrawal_reason=reason)
    hint_changed(tenant_id=locked.wait.tenant_id, run_id=run_id)
    left = sum(vote.id != mine.id for vote in locked.votes)
    detail = {"vote": str(mine.id), "verdict": mine.verdict, "approvals": left, "quorum": locked.wait.quorum}
    audit_append(
        actor=actor,
        action="vote.withdraw",
        object_type="wait",
        object_id=wait_id,
        detail={**detail, "run": str(run_id), "reason_digest": digest(reason.encode())},
    )
    return VoteWithdrawn(wait_id, actor.label, left, locked.wait.quorum)
