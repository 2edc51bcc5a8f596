"""What goes down from a run to its children: a stop, a pause and its end. Each run in a transaction of its own, which never locks
two of them (ruling 13); the sweep does what a lost process has left out.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.audit import audit_append
from accounts.states import Actor
from approvals.selectors import wait_is_open
from runs.canonical import bounded, digest
from runs.leases import lease_held, lease_lock_any, lease_pass
from runs.selectors import control_of, live_children, open_pause, open_stop, pauses_under, run_now, standing_pause
from runs.services import pause_accept, pause_follow, pause_settle, run_lock, run_move, stop_abort, stop_accept
from runs.states import ENDED_RUN, HOLDERLESS_RUN, OPEN_CONTROL, ControlStatus, HoldReason, RunStatus
from runs.wakeups import hint_run
from runtime.ending import close_aborted, close_stopped

# A run that ends so leaves nobody who waits for its children; one that completes has none that live.
ENDS_ITS_CHILDREN = frozenset({RunStatus.FAILED, RunStatus.SETTLED})


@dataclass(frozen=True)
class StopState:
    """A stop was accepted, now or before. `status` is ACCEPTED, ADOPTED or SETTLED."""

    request_id: UUID
    status: str
    new: bool


@dataclass(frozen=True)
class PauseState:
    """A pause was accepted, now or before. `status` is ACCEPTED or ADOPTED."""

    request_id: UUID
    status: str
    new: bool


# ── stop, and the end of a parent ──


def stop_or_close(
    actor: Actor, run_id: UUID, reason: str, *, cascade_of: UUID | None = None, scope_control: UUID | None = None
) -> StopState | None:
    """Accept the stop of a run in the caller's transaction; close it at once where nobody holds it. None: it has ended."""
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return None
    follows: dict[str, Any] = {"cascade_of": cascade_of, "scope_control": scope_control}
    request, new = stop_accept(run=run, reason=reason, actor=actor.label, **follows)
    status = str(request.status)
    if run.status in HOLDERLESS_RUN and not (lease.owner and lease_held(lease)):
        close_stopped(run, fence=None, actor=actor.label, save=False)
        status = "SETTLED"
    elif new:
        hint_run(run_id=run_id)
    if new:
        _audit(actor, "run.stop", run_id, request.id, reason, status)
    return StopState(request.id, status, new)


def abort_or_close(
    actor: Actor, run_id: UUID, reason: str, *, cascade_of: UUID | None = None, scope_control: UUID | None = None
) -> StopState | None:
    """Stop a run and close it in the caller's transaction, whoever holds it: the lease is taken, and what is on the wire is
    unknown from then on. None: it has ended.
    """
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return None
    follows: dict[str, Any] = {"cascade_of": cascade_of, "scope_control": scope_control}
    request, new = stop_accept(run=run, reason=reason, actor=actor.label, **follows)
    stop_abort(request, reason=reason, actor=actor.label)
    if run.status in HOLDERLESS_RUN and not (lease.owner and lease_held(lease)):
        close_stopped(run, fence=None, actor=actor.label, save=False)
    else:
        close_aborted(run, fence=lease_pass(run_id, actor.label), actor=actor.label)
    _audit(actor, "run.abort", run_id, request.id, reason, "SETTLED")
    return StopState(request.id, "SETTLED", new)


def children_stop(run_id: UUID, stop_id: UUID) -> None:
    """Stop the children of a run whose stop was accepted."""
    for child_id in live_children(run_id):
        child_stop(child_id=child_id, parent_stop_id=stop_id)


def child_stop(*, child_id: UUID, parent_stop_id: UUID) -> None:
    """Stop a child because its parent was stopped, and abort it where its parent was; then its own children. Called after the parent's stop was accepted,
    and by the sweep. The parent is not locked: a stop that was accepted is not taken back.
    """
    parent_stop = control_of(parent_stop_id)
    actor = _on_behalf_of(parent_stop)
    if parent_stop.aborted_at is None:
        _child_stop(actor, child_id, parent_stop.reason, cascade_of=parent_stop)
        return
    follows: dict[str, Any] = {"cascade_of": parent_stop_id, "scope_control": parent_stop.scope_control_id}
    with transaction.atomic():
        aborted = abort_or_close(actor, child_id, parent_stop.abort_reason, **follows)
    if aborted is not None:
        children_stop(child_id, aborted.request_id)


def children_end(run_id: UUID) -> None:
    """Stop the children of a run that FAILED or was SETTLED; of any other, none."""
    if run_now(run_id).status in ENDS_ITS_CHILDREN:
        for child_id in live_children(run_id):
            child_end(child_id=child_id, parent_id=run_id)


def child_end(*, child_id: UUID, parent_id: UUID) -> None:
    """Stop a child because its parent has ended, and then its own children. Called after that end, and by the sweep. The
    parent is not locked: what has ended stays so.
    """
    parent = run_now(parent_id)
    actor = Actor(parent.tenant_id, "cascade", kind="system", door="cascade")
    _child_stop(actor, child_id, f"its parent, run {parent_id}, ended as {parent.status}", cascade_of=None)


def _child_stop(actor: Actor, child_id: UUID, reason: str, *, cascade_of: Any) -> None:
    follows: dict[str, Any] = {}
    if cascade_of is not None:
        follows = {"cascade_of": cascade_of.id, "scope_control": cascade_of.scope_control_id}
    with transaction.atomic():
        stopped = stop_or_close(actor, child_id, reason, **follows)
    if stopped is not None:
        children_stop(child_id, stopped.request_id)


# ── pause, and taking it back ──


def pause_or_hold(
    actor: Actor, run_id: UUID, reason: str, *, cascade_of: UUID | None = None, scope_control: UUID | None = None
) -> PauseState | None:
    """Accept the pause of a run in the caller's transaction; hold it at once where nobody holds its lease. None: it has
    ended, or is being stopped.
    """
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN or open_stop(run) is not None:
        return None
    request, new = pause_accept(
        run=run, reason=reason, actor=actor.label, cascade_of=cascade_of, scope_control=scope_control
    )
    held = lease.owner is not None and lease_held(lease)
    if run.status in (RunStatus.QUEUED, RunStatus.WAITING) and not held:
        run_move(
            run,
            RunStatus.HELD,
            cause="PAUSED",
            actor=actor.label,
            hold_reason=HoldReason.PAUSED,
            detail=bounded(reason, 500),
        )
    request.refresh_from_db(fields=["status"])
    if new:
        _audit(actor, "run.pause", run_id, request.id, reason, str(request.status))
    return PauseState(request.id, str(ControlStatus(request.status)), new)


def children_pause(run_id: UUID, pause_id: UUID) -> None:
    """Pause the children of a run whose pause was accepted."""
    for child_id in live_children(run_id):
        child_pause(child_id=child_id, parent_pause_id=pause_id)


def child_pause(*, child_id: UUID, parent_pause_id: UUID) -> None:
    """Pause a child because its parent is paused, and then its own children. A child that a person has paused already stays
    paused by that. Called after the parent's pause was accepted, and by the sweep; where it was taken back meanwhile, the
    sweep takes back this one too.
    """
    parent_pause = control_of(parent_pause_id)
    actor = _on_behalf_of(parent_pause)
    with transaction.atomic():
        paused = pause_or_hold(
            actor,
            child_id,
            parent_pause.reason,
            cascade_of=parent_pause_id,
            scope_control=parent_pause.scope_control_id,
        )
    if paused is not None:
        children_pause(child_id, paused.request_id)


def pause_take_back(actor: Actor, run: Any, paused: Any, reason: str) -> None:
    """Settle a pause and nothing else, with lease and run locked. A run that it held is queued, or waits again while a wait
    of it is open.
    """
    pause_settle(paused)
    if run.hold_reason == HoldReason.PAUSED:
        to = RunStatus.WAITING if wait_is_open(run_id=run.id) else RunStatus.QUEUED
        run_move(run, to, cause="RESUMED", actor=actor.label, detail=reason)
        if to == RunStatus.QUEUED:
            hint_run(run_id=run.id)
    _audit(actor, "run.resume", run.id, paused.id, reason, str(run.status))


def children_resume(actor: Actor, pause_id: UUID, reason: str) -> None:
    """Take back the pauses that have followed from one that is taken back."""
    for child_id in pauses_under(pause_id):
        child_resume(actor=actor, child_id=child_id, parent_pause_id=pause_id, reason=reason)


def child_resume(*, actor: Actor, child_id: UUID, parent_pause_id: UUID, reason: str) -> None:
    """Take back the pause of a child that followed from its parent's, and then those of its own children. What a person has
    paused stays so. Called after the parent's was taken back, and by the sweep.
    """
    with transaction.atomic():
        lease_lock_any(child_id)
        run = run_lock(child_id)
        paused = open_pause(run)
        if paused is None or paused.cascade_of_id != parent_pause_id or pause_stays(run, paused):
            return
        pause_take_back(actor, run, paused, reason)
    children_resume(actor, paused.id, reason)


def pause_stays(run: Any, paused: Any) -> bool:
    """Whether a pause that is to be taken back stays, with lease and run locked: another one of the run's scope stands, or its parent is
    still paused. It is carried out for that one from now on.
    """
    standing = standing_pause(run)
    if standing is not None:
        pause_follow(paused, scope_control=standing.id)
        return True
    parent = control_of(paused.cascade_of_id) if paused.cascade_of_id else None
    if parent is None or parent.status not in OPEN_CONTROL:
        return False
    pause_follow(paused, scope_control=parent.scope_control_id)
    return True


def _on_behalf_of(request: Any) -> Actor:
    """Who has asked for what goes down."""
    kind, _, name = request.requested_by.partition(":")
    return Actor(request.tenant_id, name, kind=kind, door="cascade")


def _audit(actor: Actor, action: str, run_id: UUID, request_id: UUID, reason: str, status: str) -> None:
    detail = {"request": str(request_id), "reason_digest": digest(reason.encode()), "status": status}
    audit_append(actor=actor, action=action, object_type="run", object_id=run_id, detail=detail)
