"""Stop and pause requests: rows, and what the lease says of them. What is about one run is called with lease and run locked."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from accounts.models import ClockTimestamp
from accounts.statements import fetch
from runs.live import hint_changed
from runs.models import ControlRequest, Lease, Run, ScopeControl
from runs.selectors import standing_control
from runs.statements import HOLD_ADMISSIONS
from runs.states import OPEN_CONTROL, ControlKind, ControlStatus, Scope, ScopeStatus


def stop_accept(
    *, run: Run, reason: str, actor: str, cascade_of: UUID | None = None, scope_control: UUID | None = None
) -> tuple[ControlRequest, bool]:
    """Accept a stop: the open request, and whether it is new. From here nothing is dispatched.

    `cascade_of` is the stop of the parent that this one follows from, `scope_control` the act on a scope that it carries out.
    """
    return _accept(run, ControlKind.STOP, reason, actor, cascade_of, scope_control)


def pause_accept(
    *, run: Run, reason: str, actor: str, cascade_of: UUID | None = None, scope_control: UUID | None = None
) -> tuple[ControlRequest, bool]:
    """Accept a pause: the open request, and whether it is new. From here nothing is dispatched until it is settled.

    `cascade_of` is the pause of the parent that this one follows from, `scope_control` the act on a scope that it carries out.
    """
    return _accept(run, ControlKind.PAUSE, reason, actor, cascade_of, scope_control)


def _accept(
    run: Run, kind: ControlKind, reason: str, actor: str, cascade_of: UUID | None, scope_control: UUID | None
) -> tuple[ControlRequest, bool]:
    existing = ControlRequest.objects.filter(run=run, kind=kind, status__in=OPEN_CONTROL).first()
    if existing is not None:
        return existing, False
    request = ControlRequest.objects.create(
        tenant_id=run.tenant_id,
        run=run,
        kind=kind,
        reason=reason,
        requested_by=actor,
        cascade_of_id=cascade_of,
        scope_control_id=scope_control,
    )
    _derive(run)
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    return request, True


def _derive(run: Run) -> None:
    """What the lease says follows from the open requests (rulings 3 and 32)."""
    open_kinds = set(ControlRequest.objects.filter(run=run, status__in=OPEN_CONTROL).values_list("kind", flat=True))
    Lease.objects.filter(run=run).update(
        stop_requested=ControlKind.STOP in open_kinds, pause_requested=ControlKind.PAUSE in open_kinds
    )


def control_adopt(*, run: Run, kind: ControlKind, fence: int | None) -> None:
    """Mark an accepted request as adopted: by the holder under its fence, or by whoever moves a run that nobody holds."""
    adopted = ControlRequest.objects.filter(run=run, kind=kind, status=ControlStatus.ACCEPTED)
    adopted.update(status=ControlStatus.ADOPTED, adopted_at=ClockTimestamp(), adopted_fence=fence)


def stop_abort(request: ControlRequest, *, reason: str, actor: str) -> None:
    """Note on an open stop that nobody waits for what is on the wire. Noted once; the first one stands."""
    ControlRequest.objects.filter(id=request.id, aborted_at=None).update(
        aborted_at=ClockTimestamp(), aborted_by=actor, abort_reason=reason
    )


def pause_settle(request: ControlRequest) -> None:
    """Settle a pause, and nothing else: a stop that is open stays so (ruling 32)."""
    ControlRequest.objects.filter(id=request.id).update(status=ControlStatus.SETTLED, settled_at=ClockTimestamp())
    _derive(request.run)


def pause_follow(request: ControlRequest, *, scope_control: UUID | None) -> None:
    """An open pause stays for another act than the one that it was carried out for: that one was lifted, this one stands."""
    ControlRequest.objects.filter(id=request.id).update(scope_control_id=scope_control)


# ── acts on a scope: no run is locked ──


def scope_accept(
    *, scope: Scope, kind: ControlKind, reason: str, actor: str, aborts: bool = False
) -> tuple[ScopeControl, bool]:
    """Accept a stop or a pause of a scope in the caller's transaction: the act that stands, and whether it is new.

    From the commit on no run is admitted into a stopped scope. Admissions that are under way are waited for, and are there to be
    reached after it. `aborts`: nobody waits for what is on the wire.
    """
    fetch(HOLD_ADMISSIONS, {"tenant": scope.tenant_id})
    standing = standing_control(scope, kind)
    if standing is not None:
        return standing, False
    abort: Mapping[str, Any] = {"aborted_at": ClockTimestamp(), "aborted_by": actor, "abort_reason": reason}
    control = ScopeControl.objects.create(
        tenant_id=scope.tenant_id,
        kind=kind,
        scope=scope.kind,
        agent_id=scope.agent_id,
        thread_id=scope.thread_id,
        reason=reason,
        requested_by=actor,
        **(abort if aborts else {}),
    )
    control.refresh_from_db()
    return control, True


def scope_lock(control_id: UUID) -> ScopeControl:
    """Lock an act on a scope."""
    return ScopeControl.objects.select_for_update(no_key=True).get(id=control_id)


def scope_lift(control: ScopeControl, *, reason: str, actor: str) -> None:
    """Lift a locked act that stands. Its runs are seen to after the commit."""
    ScopeControl.objects.filter(id=control.id, status=ScopeStatus.STANDING).update(
        status=ScopeStatus.LIFTED, lifted_at=ClockTimestamp(), lifted_by=actor, lift_reason=reason
    )


def scope_abort(control: ScopeControl, *, reason: str, actor: str) -> None:
    """Note on a locked stop that nobody waits for what is on the wire. Noted once; the first one stands."""
    ScopeControl.objects.filter(id=control.id, aborted_at=None).update(
        aborted_at=ClockTimestamp(), aborted_by=actor, abort_reason=reason
    )
