"""Stop and pause requests: rows, and what the lease says of them. Every function runs with lease and run locked."""

from uuid import UUID

from accounts.models import ClockTimestamp
from runs.live import hint_changed
from runs.models import ControlRequest, Lease, Run
from runs.states import OPEN_CONTROL, ControlKind, ControlStatus


def stop_accept(*, run: Run, reason: str, actor: str, cascade_of: UUID | None = None) -> tuple[ControlRequest, bool]:
    """Accept a stop: the open request, and whether it is new. From here nothing is dispatched.

    `cascade_of` is the stop of the parent that this one follows from.
    """
    return _accept(run, ControlKind.STOP, reason, actor, cascade_of)


def pause_accept(*, run: Run, reason: str, actor: str, cascade_of: UUID | None = None) -> tuple[ControlRequest, bool]:
    """Accept a pause: the open request, and whether it is new. From here nothing is dispatched until it is settled.

    `cascade_of` is the pause of the parent that this one follows from.
    """
    return _accept(run, ControlKind.PAUSE, reason, actor, cascade_of)


def _accept(
    run: Run, kind: ControlKind, reason: str, actor: str, cascade_of: UUID | None = None
) -> tuple[ControlRequest, bool]:
    existing = ControlRequest.objects.filter(run=run, kind=kind, status__in=OPEN_CONTROL).first()
    if existing is not None:
        return existing, False
    request = ControlRequest.objects.create(
        tenant_id=run.tenant_id, run=run, kind=kind, reason=reason, requested_by=actor, cascade_of_id=cascade_of
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
