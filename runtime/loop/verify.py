"""Verify: a run completes only when nothing that it promised is open (T39)."""

from checkpoints.selectors import obligations_of
from checkpoints.services import contract_now, head_lock, saved, snapshot_save
from checkpoints.states import ObligationStatus, Phase, Trigger
from receipts.services import unknown_reads_release
from runs.faults import reach
from runs.selectors import live_children
from runs.services import run_move
from runs.states import HoldReason, RunStatus
from runtime import guards
from runtime.ending import close_wakeups, held_run, park, stop, worker
from runtime.loop.unknown import await_children
from runtime.session import Session


def verify(session: Session) -> bool:
    """Finish the run, or hold it with the obligations that are open, or wait for the children that live."""
    open_promises = _open_promises(session)
    if open_promises:
        park(
            session.holding,
            RunStatus.HELD,
            cause="OBLIGATION_OPEN",
            hold_reason=HoldReason.OBLIGATION_OPEN,
            detail="Not done as promised: " + "; ".join(open_promises),
            blocked=lambda: bool(_open_promises(session)),
        )
        return False
    children = live_children(session.run.id)
    if children:
        return await_children(session, children)
    return _finish(session)


def _open_promises(session: Session) -> list[str]:
    rows = obligations_of(session.run.id)
    return [row.statement for row in rows if row.status == ObligationStatus.OPEN]


def _finish(session: Session) -> bool:
    """One commit: FINISHED revision, run COMPLETED, lease free. A stop that came first wins (F15)."""
    with held_run(session.holding) as (run, stopping):
        failed = guards.ground(session)
        if not stopping and failed is None:
            head_lock(run.id)
            contract = session.snapshot.contract
            now = contract_now(run_id=run.id, goal=contract.goal, version=contract.version)
            snapshot = session.next_snapshot(Phase.FINISHED, node="none", contract=now, barrier=())
            saved(snapshot_save(session.prepared(snapshot, Trigger.CLOSING), fence=session.holding.fence))
            unknown_reads_release(run_id=run.id)
            close_wakeups(run.id)
            run_move(
                run, RunStatus.COMPLETED, cause="FINISHED", actor=worker(session.holding), fence=session.holding.fence
            )
    if stopping:
        stop(session.holding)
    elif failed is not None:
        return guards.hold(session, failed)
    reach("after_terminal_commit")
    return False
