"""Requeue a parked run that has a pending wakeup: whoever wrote it could not queue the run then."""

from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from approvals.selectors import wait_is_open
from approvals.services import waits_supersede
from checkpoints.services import head_lock
from receipts.selectors import verdicts_on
from runs.leases import lease_lock_any
from runs.services import children_settle, parent_wake, run_lock, run_move
from runs.states import ENDED_RUN, UNHOLDING_CAUSES, WAKING_CAUSES, HoldReason, RunStatus, WakeupCause
from runs.wakeups import hint_run, wakeup_pending, wakeup_write, wakeups_cancel


def requeue_woken(run_id: UUID) -> None:
    """Queue a WAITING or HELD run with a pending wakeup, unless a wait of it is still open and stands on firm
    ground. Called by the sweep.
    """
    with transaction.atomic():
        lease_lock_any(run_id)
        run = run_lock(run_id)
        if run.status not in (RunStatus.WAITING, RunStatus.HELD) or not wakeup_pending(
            run_id=run_id, causes=_causes(run)
        ):
            return
        withdrawn = wakeup_pending(run_id=run_id, causes=frozenset({WakeupCause.WITHDRAWN}))
        if wait_is_open(run_id=run_id) and not withdrawn:
            return
        run_move(run, RunStatus.QUEUED, cause="WOKEN", actor="system:sweep")
        hint_run(run_id=run_id)


def wake_descendant(run_id: UUID, call_id: UUID) -> None:
    """Wake a run that was held by a call of another run of its lineage, and no longer is (ruling 34). Called by the sweep.

    The other run is not locked (ruling 13): what its call has become can't be taken back.
    """
    with transaction.atomic():
        lease_lock_any(run_id)
        run = run_lock(run_id)
        if run.status != RunStatus.HELD or run.hold_reason != HoldReason.UNCERTAIN_CALL:
            return
        wakeup_write(
            tenant_id=run.tenant_id,
            run_id=run_id,
            cause=WakeupCause.RECONCILED,
            dedupe_key=f"recon:{call_id}:{verdicts_on(call_id)}:{run_id}",
        )
        run_move(run, RunStatus.QUEUED, cause="ANCESTOR_SETTLED", actor="system:sweep")
        hint_run(run_id=run_id)


def supersede_waits(run_id: UUID, *, why: str, cause: str) -> None:
    """Take back the live waits of a run that no worker holds, so that policy is asked again about their calls (ruling 35).

    Called by the sweep, once what they were opened under is not what is in force any more. One that a worker takes meanwhile
    is left to that worker: it holds an approval against the same before it uses it.
    """
    with transaction.atomic():
        lease_lock_any(run_id)
        run = run_lock(run_id)
        if run.status not in (RunStatus.WAITING, RunStatus.HELD):
            return
        head_lock(run_id)
        if waits_supersede(run=run, cause=WakeupCause.SUPERSEDED, why=why) and run.status == RunStatus.WAITING:
            run_move(run, RunStatus.QUEUED, cause=cause, actor="system:sweep")
            hint_run(run_id=run_id)


def settle_children(run_id: UUID) -> None:
    """Settle what an ended run had reserved for a child that has ended since, or of which a verdict was given since, and tell its
    own parent. Called by the sweep; no worker comes any more.
    """
    with transaction.atomic():
        lease_lock_any(run_id)
        run = run_lock(run_id)
        if run.status in ENDED_RUN:
            if children_settle(run_id):
                parent_wake(run, f"child:{run_id}:{uuid4()}")
            wakeups_cancel(run_id=run_id)


def _causes(run: Any) -> frozenset[WakeupCause]:
    return UNHOLDING_CAUSES if run.status == RunStatus.HELD else WAKING_CAUSES
