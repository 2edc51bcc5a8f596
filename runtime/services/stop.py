"""Stop a run: accepted at once; closed at once when nobody holds it, or when nobody waits for what is on the wire."""

from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from runs.faults import reach
from runs.selectors import access_run, run_now
from runtime.cascade import StopState, abort_or_close, children_stop, stop_or_close
from runtime.services.guards import act_refusal, audited, run_ended


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
        children_stop(run_id, outcome.request_id)
    return audited(outcome, actor, "run.stop", "run", run_id)


def run_abort(*, actor: Actor, run_id: UUID, reason: str) -> StopState | Refused:
    """Stop a run and do not wait for what is on the wire. The run, stopped already or not, is closed in this transaction: its
    worker loses the lease, attempts without an answer become UNCERTAIN, and an answer that comes later is evidence only.

    It calls nothing back: what was sent may still happen. Its children are aborted after it, each in a transaction of its own;
    the sweep does what is left out. Needs the permission to stop. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _abort(actor, run_id, reason.strip())
    if isinstance(outcome, StopState):
        reach("after_stop_committed")
        children_stop(run_id, outcome.request_id)
    return audited(outcome, actor, "run.abort", "run", run_id)


def _abort(actor: Actor, run_id: UUID, reason: str) -> StopState | Refused:
    refused = act_refusal(actor, Permission.STOP, reason)
    if refused is not None:
        return refused
    return abort_or_close(actor, run_id, reason) or run_ended(run_now(run_id))


def _stop(actor: Actor, run_id: UUID, reason: str) -> StopState | Refused:
    refused = act_refusal(actor, Permission.STOP, reason)
    if refused is not None:
        return refused
    return stop_or_close(actor, run_id, reason) or run_ended(run_now(run_id))
