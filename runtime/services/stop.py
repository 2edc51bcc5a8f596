"""Stop a run: accepted at once; closed at once when nobody holds it."""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from runs.canonical import digest
from runs.faults import reach
from runs.leases import lease_held, lease_lock_any
from runs.selectors import access_run, live_children, stop_of
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

    Its children are stopped after it, each in a transaction of its own; the sweep does what is left out (ruling 13). Needs
    the permission to stop. Asking again returns the open request. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _stop(actor, run_id, reason.strip())
    if isinstance(outcome, StopState):
        reach("after_stop_committed")
        for child_id in live_children(run_id):
            child_stop(child_id=child_id, parent_stop_id=outcome.request_id)
    return audited(outcome, actor, "run.stop", "run", run_id)


def child_stop(*, child_id: UUID, parent_stop_id: UUID) -> None:
    """Stop a child because its parent was stopped, and then its own children. Called after the parent's stop was accepted,
    and by the sweep. The parent is not locked: a stop that was accepted is not taken back.
    """
    parent_stop = stop_of(parent_stop_id)
    name = parent_stop.requested_by.partition(":")[2]
    actor = Actor(parent_stop.tenant_id, name, door="cascade")
    with transaction.atomic():
        outcome = _close_or_ask(actor, child_id, parent_stop.reason, cascade_of=parent_stop_id)
    if isinstance(outcome, StopState):
        for grandchild_id in live_children(child_id):
            child_stop(child_id=grandchild_id, parent_stop_id=outcome.request_id)


def _stop(actor: Actor, run_id: UUID, reason: str) -> StopState | Refused:
    refused = act_refusal(actor, Permission.STOP, reason)
    if refused is not None:
        return refused
    return _close_or_ask(actor, run_id, reason)


def _close_or_ask(actor: Actor, run_id: UUID, reason: str, *, cascade_of: UUID | None = None) -> StopState | Refused:
    """Accept the stop of a run; close it at once where nobody holds it."""
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return run_ended(run)
    request, new = stop_accept(run=run, reason=reason, actor=actor.label, cascade_of=cascade_of)
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
