"""Try a held run again, or take back a pause."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from approvals.selectors import wait_is_open
from checkpoints.errors import NoCheckpoint
from checkpoints.selectors import has_head
from runs.canonical import digest
from runs.errors import NothingToResume
from runs.leases import lease_lock_any
from runs.selectors import access_run, open_pause
from runs.services import (
    pause_settle,
    run_lock,
    run_move,
    takeover_limit_raise,
)
from runs.states import (
    HoldReason,
    RunStatus,
    WakeupCause,
    can_retry_resume,
)
from runs.wakeups import hint_run
from runtime.services.guards import (
    act_refusal,
    audit,
    audited,
    wake,
)


@dataclass(frozen=True)
class Resumed:
    """The run is queued again; or, where a wait of it is open after a pause, it waits."""

    run_id: UUID


def run_resume(*, actor: Actor, run_id: UUID, reason: str) -> Resumed | Refused:
    """Try a held run again: after a refused resume, with as many takeovers as it had, or after a pause. Raises NotFound.

    While a pause is open, this takes back the pause only (ruling 32), whether it has been adopted or not.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _resume(actor, run_id, reason.strip())
    return audited(outcome, actor, "run.resume", "run", run_id)


def _resume(actor: Actor, run_id: UUID, reason: str) -> Resumed | Refused:
    refused = act_refusal(actor, Permission.RESUME, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    paused = open_pause(run)
    if paused is not None:
        return _take_back(actor, run, paused, reason)
    if not can_retry_resume(run.status, run.hold_reason):
        return NothingToResume({"status": run.status})
    if not has_head(run.id):
        return NoCheckpoint({})
    if run.hold_reason == HoldReason.TAKEOVER_LIMIT:
        takeover_limit_raise(run=run)
    wake(run, WakeupCause.RESUME, f"resume:{run.id}:{lease.fence}")
    run_move(run, RunStatus.QUEUED, cause="RESUMED", actor=actor.label, detail=reason)
    hint_run(run_id=run.id)
    audit(actor, "run.resume", "run", run_id, {"reason_digest": digest(reason.encode())})
    return Resumed(run.id)


def _take_back(actor: Actor, run: Any, paused: Any, reason: str) -> Resumed:
    """Settle the pause and nothing else. A run that it held is queued, or waits again while a wait of it is open."""
    pause_settle(paused)
    if run.hold_reason == HoldReason.PAUSED:
        to = RunStatus.WAITING if wait_is_open(run_id=run.id) else RunStatus.QUEUED
        run_move(run, to, cause="RESUMED", actor=actor.label, detail=reason)
        if to == RunStatus.QUEUED:
            hint_run(run_id=run.id)
    detail = {"request": str(paused.id), "reason_digest": digest(reason.encode()), "status": str(run.status)}
    audit(actor, "run.resume", "run", run.id, detail)
    return Resumed(run.id)
