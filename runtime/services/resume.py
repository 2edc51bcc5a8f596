"""Try a held run again, or take back a pause."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from checkpoints.errors import NoCheckpoint, OlderRevision
from checkpoints.selectors import has_head, head_of
from runs.canonical import digest
from runs.errors import NothingToResume, PausedSince, PauseOver
from runs.leases import lease_lock_any
from runs.selectors import access_run, open_pause
from runs.services import (
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
from runtime.cascade import children_resume, pause_take_back
from runtime.services.guards import (
    act_refusal,
    audit,
    audited,
    wake,
)
from runtime.services.scope import paused_with_scope


@dataclass(frozen=True)
class Resumed:
    """The run is queued again; or, where a wait of it is open after a pause, it waits. `pause_id` is the pause that was taken
    back, if there was one.
    """

    run_id: UUID
    pause_id: UUID | None = None


@dataclass(frozen=True)
class PauseShown:
    """What a person knew of the pause of a run when they asked for it to go on: the one with this id, or none. Who asked for many runs
    at once knew those that were accepted `by` then.
    """

    id: UUID | None = None
    by: datetime | None = None

    def refusal(self, paused: Any) -> Refused | None:
        """Why the run, with the pause that is open on it now or None, is not as it was shown; None when it is."""
        if paused is None:
            return PauseOver() if self.id is not None else None
        if paused.id == self.id or (self.by is not None and paused.accepted_at <= self.by):
            return None
        by, at = paused.requested_by.partition(":")[2], f"{paused.accepted_at:%Y-%m-%d %H:%M:%S} UTC"
        return PausedSince({"by": by, "at": at, "reason": paused.reason[:500]})


def run_resume(
    *, actor: Actor, run_id: UUID, reason: str, revision: int | None = None, shown: PauseShown | None = None
) -> Resumed | Refused:
    """Try a held run again: after a refused resume, with as many takeovers as it had, or after a pause. Raises NotFound.

    While a pause is open, this takes back the pause only (ruling 32), whether it has been adopted or not, and
    then what has followed from it for the run's children. `revision`, where it is given, is the one that the person means
    to go on from: only the head is (A-035). `shown`, where it is given, is what they knew of a pause: one that somebody asked for since
    then stays.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _resume(actor, run_id, reason.strip(), revision, shown)
    if isinstance(outcome, Resumed) and outcome.pause_id is not None:
        children_resume(actor, outcome.pause_id, reason.strip())
    return audited(outcome, actor, "run.resume", "run", run_id)


def _older(run_id: UUID, revision: int | None) -> OlderRevision | None:
    if revision is None or not has_head(run_id) or head_of(run_id).revision == revision:
        return None
    return OlderRevision({"seen": revision, "revision": head_of(run_id).revision})


def _resume(
    actor: Actor, run_id: UUID, reason: str, revision: int | None, shown: PauseShown | None
) -> Resumed | Refused:
    refused = act_refusal(actor, Permission.RESUME, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    paused = open_pause(run)
    refused = _older(run_id, revision) or paused_with_scope(run) or (shown.refusal(paused) if shown else None)
    if refused is not None:
        return refused
    if paused is not None:
        pause_take_back(actor, run, paused, reason)
        return Resumed(run.id, paused.id)
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
