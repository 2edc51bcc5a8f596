"""How a worker gives a run back: park it, adopt a stop and close it, fail it, settle it. Each is one transaction."""

import logging
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.utils import Error as DatabaseError

from accounts.services import notice_write
from accounts.states import NoticeKind, Subject
from approvals.services import waits_cancel, waits_invalidate
from checkpoints.errors import Unreadable
from checkpoints.selectors import load_head, obligations_of
from checkpoints.services import head_lock, prepare, refused_save_record, snapshot_save
from checkpoints.statements import Candidate
from checkpoints.states import NotSaved, Phase, Saved, Trigger
from receipts.selectors import open_attempts, outcome_counts, published_reports, unknown_effects
from receipts.services import attempt_lost, calls_cancel, receipt_of, unknown_reads_release
from runs.canonical import bounded
from runs.errors import LeaseLost, connection_lost, store_said
from runs.faults import reach
from runs.leases import lease_lock
from runs.selectors import open_pause
from runs.services import (
    budget_hold_unknown,
    children_settle,
    refusal_record,
    run_lock,
    run_move,
    run_settle,
    stop_adopt,
)
from runs.states import (
    GUARD_OF,
    UNHOLDING_CAUSES,
    WAKING_CAUSES,
    Holding,
    HoldReason,
    RefusalKind,
    RunStatus,
    WakeupCause,
)
from runs.wakeups import hint_run, wakeup_pending, wakeups_cancel, wakeups_refuse

logger = logging.getLogger(__name__)


@contextmanager
def held_run(holding: Holding) -> Any:
    """One transaction with the lease proved and locked, then the run locked. Yields (run, stop requested).

    Raises LeaseLost when the lease is not held any more; then nothing is written.
    """
    with transaction.atomic():
        lease = lease_lock(holding)
        if lease is None:
            raise LeaseLost
        yield run_lock(holding.run_id), lease.stop_requested


def park(
    holding: Holding,
    to: RunStatus,
    *,
    cause: str,
    hold_reason: HoldReason | None = None,
    detail: str = "",
    blocked: Callable[[], bool] = lambda: True,
    evidence: Mapping[str, Any] | None = None,
    about: UUID | None = None,
) -> None:
    """Free the lease without ending the run (rulings 23 and 27).

    A stop that came meanwhile is adopted instead. The run goes to QUEUED instead when a wakeup is pending that can end
    this state, or the blocker is gone, both read under the run's lock. A hold by a guard leaves a refusal of that guard,
    with `evidence` (JSON) beside what was found. `about` is the call that it is held for.
    """
    if _parked(holding, to, cause=cause, hold_reason=hold_reason, detail=detail, blocked=blocked, about=about):
        _record_hold(holding, hold_reason, {"found": bounded(detail, 500), **(evidence or {})})


def _parked(
    holding: Holding,
    to: RunStatus,
    *,
    cause: str,
    hold_reason: HoldReason | None,
    detail: str,
    blocked: Callable[[], bool],
    about: UUID | None,
) -> bool:
    """Whether the run is in that state now."""
    causes = UNHOLDING_CAUSES if to == RunStatus.HELD else WAKING_CAUSES
    with held_run(holding) as (run, stopping):
        if not stopping:
            if wakeup_pending(run_id=run.id, causes=causes) or not blocked():
                run_move(run, RunStatus.QUEUED, cause="WOKEN", actor=worker(holding), fence=holding.fence)
                hint_run(run_id=run.id)
            else:
                run_move(
                    run,
                    to,
                    cause=cause,
                    actor=worker(holding),
                    fence=holding.fence,
                    hold_reason=hold_reason,
                    detail=bounded(detail, 500),
                    about=about,
                )
                return True
            return False
    stop(holding)
    return False


def _record_hold(holding: Holding, hold_reason: HoldReason | None, detail: dict[str, Any]) -> None:
    if hold_reason in GUARD_OF:
        refusal_record(
            tenant_id=holding.tenant_id,
            run_id=holding.run_id,
            kind=RefusalKind(hold_reason),
            fence=holding.fence,
            detail=detail,
        )


def give_back(holding: Holding, *, cause: str = "DRAIN", due_in: float | None = None, detail: str = "") -> None:
    """Queue the run again between two steps. No takeover; a stop that came wins.

    DRAIN: its worker was asked to stop (X06), another one takes it at once. RETRY: it has nothing to do for `due_in` seconds;
    nobody takes it before, and the sweep sends its hint then. STORE_ERROR: the database refused what `detail` says; the same.
    """
    with held_run(holding) as (run, stopping):
        if not stopping:
            run_move(
                run,
                RunStatus.QUEUED,
                cause=cause,
                actor=worker(holding),
                fence=holding.fence,
                due_in=due_in,
                detail=detail,
            )
            if due_in is None:
                hint_run(run_id=run.id)
            return
    stop(holding)


def pause(holding: Holding) -> bool:
    """Adopt an open pause between two steps: run HELD, lease free (ruling 32). False where it was taken back meanwhile."""
    with held_run(holding) as (run, stopping):
        if not stopping:
            request = open_pause(run)
            if request is not None:
                run_move(
                    run,
                    RunStatus.HELD,
                    cause="PAUSED",
                    actor=worker(holding),
                    fence=holding.fence,
                    hold_reason=HoldReason.PAUSED,
                    detail=bounded(request.reason, 500),
                )
            return request is not None
    stop(holding)
    return True


def adopt(holding: Holding) -> None:
    """Adopt an open stop: request ADOPTED, run STOPPING. Also called by the heartbeat while a call is in flight."""
    with held_run(holding) as (run, stopping):
        if stopping:
            stop_adopt(run=run, fence=holding.fence, actor=worker(holding))


def stop(holding: Holding) -> None:
    """Adopt the stop and close the run: unsent calls, waits and wakeups cancelled, a STOPPED revision, CANCELLED.

    Calls of unknown outcome stay as they are; they outlive the run (T22).
    """
    adopt(holding)
    reach("after_stop_adopted")
    with held_run(holding) as (run, _):
        lose_open_attempts(run.id, before_fence=holding.fence + 1, why="the run was stopped before it was asked")
        close_stopped(run, fence=holding.fence, actor=worker(holding), save=True)


def lose_open_attempts(run_id: UUID, *, before_fence: int, why: str) -> None:
    """Settle every attempt without an outcome that was committed under an older fence, and hold its budget."""
    for attempt in open_attempts(run_id=run_id, before_fence=before_fence):
        attempt_lost(attempt, why=why)
        budget_hold_unknown(run_id=run_id, receipt_id=receipt_of(attempt), attempt_no=attempt.attempt_no)


def close_aborted(run: Any, *, fence: int, actor: str) -> None:
    """Close a run whose lease a person has taken under this fence, with lease and run locked. What is on the wire is not
    waited for: its outcome is unknown, its budget stays held, and its answer can only be evidence any more.
    """
    stop_adopt(run=run, fence=fence, actor=actor)
    lose_open_attempts(run.id, before_fence=fence, why="the run was aborted, and its answer not waited for")
    close_stopped(run, fence=fence, actor=actor, save=True, how="aborted")


def close_stopped(run: Any, *, fence: int | None, actor: str, save: bool, how: str = "stopped") -> None:
    """Close a stopped run, with lease and run locked. `save` adds the closing revision, which may fail (X01)."""
    head = head_lock(run.id)
    calls_cancel(run_id=run.id, why="the run was stopped")
    waits_cancel(run_id=run.id, why="the run was stopped")
    close_wakeups(run.id)
    unknown_reads_release(run_id=run.id)
    _tell_of_unknown(run)
    if save:
        _save_closing(run, head, Phase.STOPPED, fence or 0)
    run_move(run, RunStatus.CANCELLED, cause=how.upper(), actor=actor, fence=fence, detail=how)


def close_settled(run: Any, *, fence: int | None, actor: str, why: str) -> None:
    """End a run by what is known, with lease and run locked: nothing is repeated, nothing is guessed, no revision is added.

    Unsent calls, waits and wakeups are cancelled. Calls of unknown outcome and open promises stay as they are, and the
    settlement names them.
    """
    head_lock(run.id)
    left = _settlement(run)
    calls_cancel(run_id=run.id, why="the run was settled")
    waits_cancel(run_id=run.id, why="the run was settled")
    close_wakeups(run.id)
    unknown_reads_release(run_id=run.id)
    _tell_of_unknown(run)
    run_settle(run, actor=actor, fence=fence, settlement=left, why=why)


def _tell_of_unknown(run: Any) -> None:
    """Tell people of the calls that outlive a run unknown. Of one that held it they were told when it did."""
    if run.hold_reason == HoldReason.UNCERTAIN_CALL:
        return
    for call_id in unknown_effects(run_id=run.id):
        notice_write(
            tenant_id=run.tenant_id,
            kind=NoticeKind.UNKNOWN_CALL,
            subject=Subject.CALL,
            subject_id=call_id,
            dedupe_key=f"call:{call_id}:unknown",
            facts={},
        )


def close_wakeups(run_id: UUID) -> None:
    """Cancel what would wake a run that ends, and settle what it was told of its children: no worker comes for that any more."""
    if WakeupCause.CHILD in wakeups_cancel(run_id=run_id):
        children_settle(run_id)


def _settlement(run: Any) -> dict[str, Any]:
    """What a settled run leaves: how many calls are known and unknown, its published reports, its open promises."""
    return {
        **outcome_counts(run_id=run.id),
        "reports": published_reports(run_id=run.id),
        "open_obligations": [row.step_name for row in obligations_of(run.id) if row.status == "OPEN"],
    }


def _save_closing(run: Any, head: Any, phase: Phase, fence: int) -> None:
    """Save the closing revision; where it can't be saved, whatever the reason, say so: the run ends all the same (X01)."""
    try:
        with transaction.atomic():
            outcome = _closing_saved(run, phase, fence)
    except Unreadable as error:
        refusal_record(
            tenant_id=run.tenant_id, run_id=run.id, kind=RefusalKind(error.kind), fence=fence, detail={"at": "closing"}
        )
        return
    except DatabaseError as error:
        if connection_lost(error):
            raise
        logger.exception("run %s: its closing revision is not saved", run.id)
        outcome = NotSaved(uuid4(), Trigger.CLOSING, head.revision, "STORE_ERROR", "$", store_said(error))
    if isinstance(outcome, NotSaved):
        refused_save_record(outcome, tenant_id=run.tenant_id, run_id=run.id, fence=fence)


def _closing_saved(run: Any, phase: Phase, fence: int) -> Saved | NotSaved:
    position = load_head(run)
    snapshot = position.snapshot.model_copy(
        update={
            "revision": position.revision + 1,
            "parent_digest": position.digest,
            "phase": phase,
            "next_node": "none",
        }
    )
    prepared = prepare(Candidate(snapshot, Trigger.CLOSING, after=position.snapshot, base=position.parts))
    return prepared if isinstance(prepared, NotSaved) else snapshot_save(prepared, fence=fence)


def fail(holding: Holding, why: str, *, cause: str = "FAILED") -> None:
    """End the run as FAILED. Its facts stand; unsent calls are cancelled."""
    with held_run(holding) as (run, stopping):
        if not stopping:
            head_lock(run.id)
            calls_cancel(run_id=run.id, why="the run failed")
            unknown_reads_release(run_id=run.id)
            close_wakeups(run.id)
            run_move(
                run, RunStatus.FAILED, cause=cause, actor=worker(holding), fence=holding.fence, detail=bounded(why, 500)
            )
            return
    stop(holding)


def refuse_resume(
    holding: Holding, kind: str, found: str, subject_id: UUID | None = None, *, void_waits: bool = False
) -> None:
    """Hold a run that can't be resumed, with a refusal of its own kind. Its wakeup is REFUSED; a person may try again.

    `void_waits`: what was decided, or asked, can't be used any more, and is asked anew after that (ruling 31).
    """
    with held_run(holding) as (run, _):
        if void_waits:
            waits_invalidate(run_id=run.id, why=bounded(found, 500))
        wakeups_refuse(run_id=run.id)
    park(
        holding,
        RunStatus.HELD,
        cause="RESUME_REFUSED",
        hold_reason=HoldReason.RESUME_REFUSED,
        detail=f"{kind}: {found}",
    )
    refusal_record(
        tenant_id=holding.tenant_id,
        run_id=holding.run_id,
        kind=RefusalKind(kind),
        fence=holding.fence,
        subject_id=subject_id,
        detail={"found": bounded(found, 500)},
    )


def worker(holding: Holding) -> str:
    """The actor label of the worker that holds this lease."""
    return f"worker:{holding.owner}"
