"""Pause a run: accepted at once; adopted at once when nobody holds it, else at its worker's next seam. Resume takes it back."""

from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from runs.errors import PausedWithScope, StopOpen
from runs.selectors import access_run, control_of, run_now, scope_control_now
from runs.states import ENDED_RUN
from runtime.cascade import PauseState, children_pause, pause_or_hold
from runtime.services.guards import act_refusal, audited, run_ended
from runtime.services.scope import control_facts


def run_pause(*, actor: Actor, run_id: UUID, reason: str) -> PauseState | Refused:
    """Accept a pause (rulings 17 and 32). From the commit on nothing new is dispatched.

    A run that nobody holds is HELD in it; its waits stay and can be decided, which queues nothing. A run that is held for
    something else stays so, and is paused when that is gone. Its children are paused after it, each in a transaction of its own; the
    sweep does what is left out. Needs the permission to pause. Asking again returns the open
    request; of a run that its scope has paused it says so, since nothing by hand outlasts that. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _pause(actor, run_id, reason.strip())
    if isinstance(outcome, PauseState):
        children_pause(run_id, outcome.request_id)
    return audited(outcome, actor, "run.pause", "run", run_id)


def _pause(actor: Actor, run_id: UUID, reason: str) -> PauseState | Refused:
    refused = act_refusal(actor, Permission.PAUSE, reason)
    if refused is not None:
        return refused
    paused = pause_or_hold(actor, run_id, reason)
    if paused is not None:
        return _with_scope(paused) or paused
    run = run_now(run_id)
    return run_ended(run) if run.status in ENDED_RUN else StopOpen()


def _with_scope(paused: PauseState) -> Refused | None:
    """Why a pause by hand changes nothing: what is open was carried out for a pause of the run's tenant, agent or thread."""
    control_id = None if paused.new else control_of(paused.request_id).scope_control_id
    return None if control_id is None else PausedWithScope(control_facts(scope_control_now(control_id)))
