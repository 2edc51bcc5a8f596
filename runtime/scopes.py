"""An act on a scope, carried to its runs: each in a transaction of its own, which locks no other run (ruling 13). The act itself
does the first ones, the sweep what is left, however often either is cut off.
"""

from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.states import Actor
from runs.leases import lease_lock_any
from runs.selectors import (
    open_pause,
    pauses_of_scope,
    runs_to_reach,
    scope_control_now,
)
from runs.services import run_lock
from runs.states import ControlKind, ScopeStatus
from runtime.cascade import (
    abort_or_close,
    children_pause,
    children_resume,
    children_stop,
    pause_or_hold,
    pause_stays,
    pause_take_back,
    stop_or_close,
)

AT_ONCE = 200  # runs that the act sees to itself; the sweep goes on with the rest


def scope_carry(control_id: UUID) -> None:
    """Carry a standing act to the runs that it has not reached, or take back the pauses of one that was lifted."""
    control = scope_control_now(control_id)
    if control.status == ScopeStatus.STANDING:
        for run_id in runs_to_reach(control, AT_ONCE):
            scope_reach(control_id=control_id, run_id=run_id)
    elif control.kind == ControlKind.PAUSE:
        for run_id in pauses_of_scope(control_id, AT_ONCE):
            scope_release(control_id=control_id, run_id=run_id)


def scope_reach(*, control_id: UUID, run_id: UUID) -> None:
    """Stop, abort or pause one run of a scope, and then its children. Does nothing once the act was lifted."""
    control = scope_control_now(control_id)
    if control.status != ScopeStatus.STANDING:
        return
    actor = _on_behalf_of(control, control.requested_by)
    if control.kind == ControlKind.PAUSE:
        with transaction.atomic():
            paused = pause_or_hold(actor, run_id, control.reason, scope_control=control_id)
        if paused is not None:
            children_pause(run_id, paused.request_id)
        return
    with transaction.atomic():
        stopped = _stopped(actor, control, run_id)
    if stopped is not None:
        children_stop(run_id, stopped.request_id)


def _stopped(actor: Actor, control: Any, run_id: UUID) -> Any:
    if control.aborted_at is None:
        return stop_or_close(actor, run_id, control.reason, scope_control=control.id)
    who = _on_behalf_of(control, control.aborted_by)
    return abort_or_close(who, run_id, control.abort_reason, scope_control=control.id)


def scope_release(*, control_id: UUID, run_id: UUID) -> None:
    """Take back the pause of one run that an act was carried out with, which was lifted. It stays paused while its parent is
    paused, or another pause stands over it.
    """
    control = scope_control_now(control_id)
    actor = _on_behalf_of(control, control.lifted_by)
    with transaction.atomic():
        lease_lock_any(run_id)
        run = run_lock(run_id)
        paused = open_pause(run)
        if paused is None or paused.scope_control_id != control_id or pause_stays(run, paused):
            return
        pause_take_back(actor, run, paused, control.lift_reason)
    children_resume(actor, paused.id, control.lift_reason)


def _on_behalf_of(control: Any, label: str) -> Actor:
    kind, _, name = label.partition(":")
    return Actor(control.tenant_id, name, kind=kind, door="cascade")
