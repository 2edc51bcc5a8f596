"""End a run that nobody holds by what is known, on a person's word."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from runs.canonical import digest
from runs.errors import RunHeldByWorker
from runs.leases import lease_held, lease_lock_any
from runs.selectors import access_run, run_now
from runs.services import run_lock
from runs.states import ENDED_RUN, can_settle
from runtime.cascade import children_end
from runtime.ending import close_settled
from runtime.services.guards import act_refusal, audit, audited, run_ended


@dataclass(frozen=True)
class Settled:
    """The run is SETTLED. `settlement` says how many calls are known and unknown, what is published, what is still owed."""

    run_id: UUID
    settlement: dict[str, Any]


def run_end_settled(*, actor: Actor, run_id: UUID, reason: str) -> Settled | Refused:
    """Settle a run that is queued, waits or is held: it ends by what is known, and nothing of it is sent any more.

    Unknown calls stay unknown and keep their place in the inbox; open promises stay visible and can be carried on by a
    continued run. Its children are stopped after it. Needs the permission to settle. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _settle(actor, run_id, reason.strip())
    if isinstance(outcome, Settled):
        children_end(run_id)
    return audited(outcome, actor, "run.settle", "run", run_id)


def _settle(actor: Actor, run_id: UUID, reason: str) -> Settled | Refused:
    refused = act_refusal(actor, Permission.SETTLE, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return run_ended(run)
    if not can_settle(run.status) or (lease.owner and lease_held(lease)):
        return RunHeldByWorker()
    close_settled(run, fence=None, actor=actor.label, why=f"settled by {actor.name}: {reason}")
    settlement = run_now(run_id).settlement or {}
    audit(actor, "run.settle", "run", run_id, {"settlement": settlement, "reason_digest": digest(reason.encode())})
    return Settled(run_id, settlement)
