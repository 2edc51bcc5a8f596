"""Stop or pause everything of a tenant, an agent or a thread, and lift that again. One row, carried to each run by itself."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import NotFound, Refused
from accounts.states import Actor, Permission
from runs.canonical import bounded, digest
from runs.errors import AlreadyLifted, NotAStop, NothingToAbort, ScopePaused, ScopeStopped, StartsStopped
from runs.faults import reach
from runs.selectors import (
    access_scope,
    access_scope_control,
    runs_of_scope,
    scope_control_now,
    scope_name,
    scope_of,
    standing_pause,
)
from runs.services import agent_open, scope_abort, scope_accept, scope_lift, scope_lock
from runs.states import LIVE_RUN, ControlKind, Scope, ScopeKind, can_lift
from runtime.registry import agents
from runtime.scopes import scope_carry
from runtime.services.guards import act_refusal, audit, audited


@dataclass(frozen=True)
class ScopeState:
    """An act on a scope stands, from now or from before; or it was lifted."""

    control_id: UUID
    new: bool


def named_scope(*, actor: Actor, kind: ScopeKind, of: str = "") -> Scope:
    """The scope that a user named: an agent by its key, a thread by its id, a tenant by nothing. An agent that is installed
    here can be named before its first run. Raises NotFound, also for a tenant of something: who meant one agent or one thread
    would stop everything.
    """
    if kind == ScopeKind.TENANT and of:
        raise NotFound
    try:
        return access_scope(actor=actor, kind=kind, of=of)
    except NotFound:
        if kind != ScopeKind.AGENT or of not in agents() or not actor.may(Permission.READ):
            raise
        return Scope(actor.tenant_id, kind, agent_id=agent_open(tenant_id=actor.tenant_id, key=of).id)


def scope_stop(*, actor: Actor, scope: Scope, reason: str, aborts: bool = False) -> ScopeState | Refused:
    """Stop every live run of a scope, and start none in it until the stop is lifted.

    From the commit on no run is admitted there: an admission under way is waited for, and stopped after it. Each live run is
    then stopped in a transaction of its own; the sweep goes on where this process is cut off. With `aborts` nobody waits for what
    is on the wire. Needs the permission to stop. Asking again returns the act that stands. The scope is the actor's own
    (`named_scope`).
    """
    return _act(actor, scope, ControlKind.STOP, Permission.STOP, reason.strip(), aborts)


def scope_pause(*, actor: Actor, scope: Scope, reason: str) -> ScopeState | Refused:
    """Pause every live run of a scope until the pause is lifted. A run that is started meanwhile is held from the beginning, and
    no run of it is resumed by itself. Needs the permission to pause.
    """
    return _act(actor, scope, ControlKind.PAUSE, Permission.PAUSE, reason.strip(), aborts=False)


def _act(
    actor: Actor, scope: Scope, kind: ControlKind, permission: Permission, reason: str, aborts: bool
) -> ScopeState | Refused:
    action = f"scope.{'abort' if aborts else kind.lower()}"
    outcome: ScopeState | Refused | None = act_refusal(actor, permission, reason)
    if outcome is None:
        with transaction.atomic():
            control, new = scope_accept(scope=scope, kind=kind, reason=reason, actor=actor.label, aborts=aborts)
            if new:
                _audit(actor, action, control, reason)
        outcome = ScopeState(control.id, new)
        reach("after_scope_committed")
        if aborts and control.aborted_at is None:
            return scope_abort_on(actor=actor, control_id=control.id, reason=reason)
        scope_carry(control.id)
    return audited(outcome, actor, action, "tenant", actor.tenant_id)


def scope_abort_on(*, actor: Actor, control_id: UUID, reason: str) -> ScopeState | Refused:
    """Have a stop that stands not wait any longer for what is on the wire of its runs. Needs the permission to stop; raises NotFound."""
    access_scope_control(actor=actor, id=control_id)
    outcome = act_refusal(actor, Permission.STOP, reason) or _abort(actor, control_id, reason.strip())
    if isinstance(outcome, ScopeState):
        scope_carry(control_id)
    return audited(outcome, actor, "scope.abort", "scope", control_id)


def _abort(actor: Actor, control_id: UUID, reason: str) -> ScopeState | Refused:
    with transaction.atomic():
        control = scope_lock(control_id)
        if control.kind != ControlKind.STOP:
            return NotAStop()
        if not can_lift(control.status):
            return _lifted(control)
        if control.aborted_at is None:
            if not runs_of_scope(scope_of(control)).filter(status__in=sorted(LIVE_RUN)).exists():
                return NothingToAbort()
            scope_abort(control, reason=reason, actor=actor.label)
            _audit(actor, "scope.abort", control, reason)
        return ScopeState(control_id, new=control.aborted_at is None)


def scope_end(*, actor: Actor, control_id: UUID, reason: str) -> ScopeState | Refused:
    """Lift a stop or a pause of a scope. What was stopped stays so; from now on runs are started there again. What was paused
    goes on, unless another pause stands over it. Needs the permission to stop, or to resume; raises NotFound.
    """
    control = access_scope_control(actor=actor, id=control_id)
    permission = Permission.STOP if control.kind == ControlKind.STOP else Permission.RESUME
    outcome = act_refusal(actor, permission, reason) or _lift(actor, control_id, reason.strip())
    if isinstance(outcome, ScopeState):
        scope_carry(control_id)
    return audited(outcome, actor, "scope.lift", "scope", control_id)


def _lift(actor: Actor, control_id: UUID, reason: str) -> ScopeState | Refused:
    with transaction.atomic():
        control = scope_lock(control_id)
        if not can_lift(control.status):
            return _lifted(control)
        scope_lift(control, reason=reason, actor=actor.label)
        _audit(actor, "scope.lift", control, reason)
        return ScopeState(control_id, new=True)


def _audit(actor: Actor, action: str, control: Any, reason: str) -> None:
    about = {"kind": control.kind, "scope": control.scope, "reason_digest": digest(reason.encode())}
    audit(actor, action, "scope", control.id, about)


# ── what others are told of it ──


def starts_stopped(stopped: ScopeStopped) -> StartsStopped:
    """The refusal of a start in a scope that is stopped."""
    return StartsStopped(control_facts(scope_control_now(stopped.control_id)))


def paused_with_scope(run: Any) -> ScopePaused | None:
    """Why a run is not resumed by itself: a pause of its tenant, agent or thread stands. None when none does."""
    standing = standing_pause(run)
    return ScopePaused(control_facts(standing)) if standing is not None else None


def control_facts(control: Any) -> dict[str, Any]:
    """What a refusal says of an act on a scope."""
    name = scope_name(scope_of(control))
    return {
        "name": name[0].upper() + name[1:],
        "by": control.requested_by.partition(":")[2],
        "at": f"{control.accepted_at:%Y-%m-%d %H:%M:%S} UTC",
        "reason": bounded(control.reason, 500),
        "control": str(control.id),
    }


def _lifted(control: Any) -> AlreadyLifted:
    by = control.lifted_by.partition(":")[2]
    return AlreadyLifted({"by": by, "at": f"{control.lifted_at:%Y-%m-%d %H:%M:%S} UTC"})
