"""Pause a run: accepted at once; adopted at once when nobody holds it, else at its worker's next seam. Resume takes it back."""

from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from runs.errors import StopOpen
from runs.selectors import access_run, run_now
from runs.states import ENDED_RUN
from runtime.cascade import PauseState, children_pause, pause_or_hold
from runtime.services.guards import act_refusal, audited, run_ended


def run_pause(*, actor: Actor, run_id: UUID, reason: str) -> PauseState | Refused:
    """Accept a pause (rulings 17 and 32). From the commit on nothing new is dispatched.

    A run that nobody holds is HELD in it; its waits stay and can be decided, which queues nothing. A run that is held for
    something else stays so, and is paused when that is gone. Its children are paused after it, each in a transaction of its own; the
    sweep does what is left out. Needs the permission to pause. Asking again returns the open
    request. Raises NotFound.
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
        return paused
    run = run_now(run_id)
    return run_ended(run) if run.status in ENDED_RUN else StopOpen()
