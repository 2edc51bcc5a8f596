"""Pause a run: accepted at once; adopted at once when nobody holds it, else at its worker's next seam. Resume takes it back."""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from runs.canonical import digest
from runs.errors import StopOpen
from runs.leases import lease_held, lease_lock_any
from runs.selectors import access_run, open_stop
from runs.services import pause_accept, run_lock, run_move
from runs.states import ENDED_RUN, ControlStatus, HoldReason, RunStatus
from runtime.services.guards import act_refusal, audit, audited, run_ended


@dataclass(frozen=True)
class PauseState:
    """A pause was accepted, now or before. `status` is ACCEPTED or ADOPTED."""

    request_id: UUID
    status: str
    new: bool


def run_pause(*, actor: Actor, run_id: UUID, reason: str) -> PauseState | Refused:
    """Accept a pause (rulings 17 and 32). From the commit on nothing new is dispatched.

    A run that nobody holds is HELD in it; its waits stay and can be decided, which queues nothing. A run that is held for
    something else stays so, and is paused when that is gone. Needs the permission to pause. Asking again returns the open
    request. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _pause(actor, run_id, reason.strip())
    return audited(outcome, actor, "run.pause", "run", run_id)


def _pause(actor: Actor, run_id: UUID, reason: str) -> PauseState | Refused:
    refused = act_refusal(actor, Permission.PAUSE, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return run_ended(run)
    if open_stop(run) is not None:
        return StopOpen()
    request, new = pause_accept(run=run, reason=reason, actor=actor.label)
    held = lease.owner is not None and lease_held(lease)
    if run.status in (RunStatus.QUEUED, RunStatus.WAITING) and not held:
        run_move(
            run, RunStatus.HELD, cause="PAUSED", actor=actor.label, hold_reason=HoldReason.PAUSED, detail=reason[:500]
        )
    request.refresh_from_db(fields=["status"])
    if new:
        detail = {"request": str(request.id), "reason_digest": digest(reason.encode()), "status": str(request.status)}
        audit(actor, "run.pause", "run", run_id, detail)
    return PauseState(request.id, str(ControlStatus(request.status)), new)
