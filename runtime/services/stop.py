"""Stop a run: accepted at once; closed at once when nobody holds it."""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from runs.canonical import digest
from runs.faults import reach
from runs.leases import lease_held, lease_lock_any
from runs.selectors import access_run
from runs.services import (
    run_lock,
    stop_accept,
)
from runs.states import (
    ENDED_RUN,
    HOLDERLESS_RUN,
)
from runs.wakeups import hint_run
from runtime.ending import close_stopped
from runtime.services.guards import act_refusal, audit, audited, run_ended


@dataclass(frozen=True)
class StopState:
    """A stop was accepted, now or before. `status` is ACCEPTED, ADOPTED or SETTLED."""

    request_id: UUID
    status: str
    new: bool


def run_stop(*, actor: Actor, run_id: UUID, reason: str) -> StopState | Refused:
    """Accept a stop. From the commit on nothing new is dispatched; a run that nobody holds is closed in it (ruling 23).

    Needs the permission to stop. Asking again returns the open request. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _stop(actor, run_id, reason.strip())
    if isinstance(outcome, StopState):
        reach("after_stop_committed")
    return audited(outcome, actor, "run.stop", "run", run_id)


def _stop(actor: Actor, run_id: UUID, reason: str) -> StopState | Refused:
    refused = act_refusal(actor, Permission.STOP, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return run_ended(run)
    request, new = stop_accept(run=run, reason=reason, actor=actor.label)
    status = str(request.status)
    if run.status in HOLDERLESS_RUN and not (lease.owner and lease_held(lease)):
        close_stopped(run, fence=None, actor=actor.label, save=False)
        status = "SETTLED"
    elif new:
        hint_run(run_id=run_id)
    if new:
        audit(
            actor,
            "run.stop",
            "run",
            run_id,
            {"request": str(request.id), "reason_digest": digest(reason.encode()), "status": status},
        )
    return StopState(request.id, status, new)
