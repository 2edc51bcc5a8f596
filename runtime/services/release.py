"""Release a promise of a run."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from checkpoints.errors import ObligationClosed
from checkpoints.selectors import access_obligation, obligations_of
from checkpoints.services import (
    head_lock,
    obligation_close,
    obligation_lock,
)
from checkpoints.states import ObligationStatus, can_release
from runs.canonical import digest
from runs.leases import lease_lock_any
from runs.live import hint_changed
from runs.services import (
    run_lock,
    run_move,
)
from runs.states import (
    ENDED_RUN,
    HoldReason,
    RunStatus,
    WakeupCause,
)
from runs.wakeups import hint_run
from runtime.services.guards import (
    act_refusal,
    audit,
    audited,
    wake,
)


@dataclass(frozen=True)
class Released:
    """The obligation is released."""

    obligation_id: UUID
    run_id: UUID


def obligation_release(*, actor: Actor, obligation_id: UUID, reason: str) -> Released | Refused:
    """Release a promise of a run, so that it can complete without it (ruling 11). Needs reconciler or approver."""
    run_id = access_obligation(actor=actor, id=obligation_id).run_id
    with transaction.atomic():
        outcome = _release(actor, run_id, obligation_id, reason.strip())
    return audited(outcome, actor, "obligation.release", "obligation", obligation_id)


def _release(actor: Actor, run_id: UUID, obligation_id: UUID, reason: str) -> Released | Refused:
    refused = act_refusal(actor, Permission.RELEASE, reason)
    if refused is not None:
        return refused
    lease_lock_any(run_id)
    run = run_lock(run_id)
    head_lock(run_id)
    obligation = obligation_lock(obligation_id)
    if not can_release(obligation.status):
        return ObligationClosed({"status": obligation.status})
    obligation_close(obligation, actor=actor.label, reason=reason)
    if run.status not in ENDED_RUN:
        wake(run, WakeupCause.RESUME, f"obligation:{obligation_id}")
        _queue_if_nothing_is_open(run, actor)
    audit(
        actor,
        "obligation.release",
        "obligation",
        obligation_id,
        {"run": str(run_id), "reason_digest": digest(reason.encode())},
    )
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    return Released(obligation_id, run_id)


def _queue_if_nothing_is_open(run: Any, actor: Actor) -> None:
    held = run.status == RunStatus.HELD and run.hold_reason == HoldReason.OBLIGATION_OPEN
    still_open = any(row.status == ObligationStatus.OPEN for row in obligations_of(run.id))
    if held and not still_open:
        run_move(run, RunStatus.QUEUED, cause="OBLIGATION_RELEASED", actor=actor.label)
        hint_run(run_id=run.id)
