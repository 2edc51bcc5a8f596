"""Verify: a run completes only when nothing that it promised is open (T39)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.selectors import people_in
from accounts.statements import gather
from checkpoints.selectors import agreed, obligations_of
from checkpoints.services import SaveRefused, conflict, contract_of
from checkpoints.statements import save_params
from checkpoints.states import ObligationStatus, Phase, Trigger
from runs.errors import LeaseLost
from runs.faults import reach
from runs.selectors import locked_run
from runs.services import Move, children_settle, move_params, run_moved
from runs.statements import fence_params, run_statement
from runs.states import LIVE_RUN, HoldReason, RunStatus, WakeupCause
from runtime import guards
from runtime.ending import park, stop, worker
from runtime.loop.unknown import await_children
from runtime.session import Session
from runtime.statements import FINISH, LAST_LOOK


@dataclass(frozen=True)
class _LastLook:
    """What stands between a run and its end, locked until the commit."""

    run: Any
    stopping: bool
    obligations: Sequence[Any]
    commitments: Sequence[Any]
    children: Sequence[UUID]
    failed: guards.Failed | None

    @property
    def open_promises(self) -> list[str]:
        return _open(self.obligations)

    @property
    def clear(self) -> bool:
        return not (self.stopping or self.open_promises or self.children or self.failed)


def verify(session: Session) -> bool:
    """Finish the run, or hold it with the obligations that are open, or wait for the children that live.

    One commit: FINISHED revision, run COMPLETED, lease free. A stop that came first wins (F15).
    """
    with transaction.atomic():
        last = _look(session)
        if last.clear:
            _finish(session, last)
    if last.stopping:
        stop(session.holding)
    elif last.open_promises:
        _hold_to(session, last.open_promises)
        return False
    elif last.children:
        return await_children(session, last.children)
    elif last.failed is not None:
        return guards.hold(session, last.failed)
    reach("after_terminal_commit")
    return False


def _look(session: Session) -> _LastLook:
    """Lock lease, run and head, and read under them what has to hold. Raises LeaseLost."""
    run = session.run
    wanted = {"members": people_in([run.created_by]), "live": sorted(LIVE_RUN)}
    found = gather(LAST_LOOK, fence_params(session.holding) | wanted)
    for _, _, stopping, *_ in found["fence"]:
        obligations, commitments = agreed(found["promised"], found["committed"])
        children = [id for (id,) in found["living"]]
        failed = guards.ground_found(run, found["members"], commitments)
        return _LastLook(locked_run(found["locked"]), stopping, obligations, commitments, children, failed)
    raise LeaseLost


def _hold_to(session: Session, promises: list[str]) -> None:
    park(
        session.holding,
        RunStatus.HELD,
        cause="OBLIGATION_OPEN",
        hold_reason=HoldReason.OBLIGATION_OPEN,
        detail="Promised, and not done yet: " + "; ".join(f"“{promise}”" for promise in promises),
        blocked=lambda: bool(_open(obligations_of(session.run.id))),
    )


def _open(obligations: Sequence[Any]) -> list[str]:
    return [row.statement for row in obligations if row.status == ObligationStatus.OPEN]


def _finish(session: Session, last: _LastLook) -> None:
    contract = session.snapshot.contract
    now = contract_of(last.obligations, last.commitments, goal=contract.goal, version=contract.version)
    snapshot = session.next_snapshot(Phase.FINISHED, node="none", contract=now, barrier=())
    prepared = session.prepared(snapshot, Trigger.CLOSING)
    move = Move(RunStatus.COMPLETED, "FINISHED", worker(session.holding), session.holding.fence)
    written = save_params(prepared, key_id=session.key_id) | move_params(last.run, move)
    stored, moved, cancelled = run_statement(FINISH, {"tenant": last.run.tenant_id, **written})
    if not stored:
        raise SaveRefused(conflict(prepared))
    if not moved:
        raise RuntimeError(f"run {last.run.id} is no longer {last.run.status}")
    if WakeupCause.CHILD in (cancelled or ()):
        children_settle(last.run.id)
    run_moved(last.run, move)
