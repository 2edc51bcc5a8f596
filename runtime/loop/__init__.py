"""The agent loop: take the lease, restore under it, then one step after the other until the run is given back.

Read it in the order in which a run lives: think (ask the model, seal its turn), route (policy), act (send a call, record
its result), wait (wake from a decision), verify (finish). Every step ends in one commit; nothing is sent inside one.
"""

import logging
import os
import socket
from collections.abc import Callable
from uuid import UUID

from django.db import transaction
from django.db.utils import Error as DatabaseError

from checkpoints.errors import Unreadable
from checkpoints.services import SaveRefused
from checkpoints.states import Phase
from runs.errors import LeaseLost, connection_lost
from runs.faults import reach
from runs.leases import lease_acquire, lease_expired, lease_lock
from runs.services import refusal_record
from runs.statements import plan_once
from runs.states import Holding, RefusalKind
from runtime.drain import draining
from runtime.ending import adopt, give_back, refuse_resume, stop
from runtime.facts import refresh
from runtime.guards import note_drift, passed
from runtime.heartbeat import Heartbeat
from runtime.liveness.lock import liveness_key
from runtime.loop.act import await_result
from runtime.loop.hear import hear
from runtime.loop.lost import after_lost_connection
from runtime.loop.next import Known, Next, decide_next
from runtime.loop.route import route
from runtime.loop.store_error import after_store_error
from runtime.loop.think import think
from runtime.loop.unsaved import hold_unbound
from runtime.loop.verify import verify
from runtime.loop.wake import wake
from runtime.recovery import restore
from runtime.saving import ReadAnew, after_refused_save, read_anew
from runtime.session import Session

logger = logging.getLogger(__name__)


def _give_up(session: Session) -> bool:
    raise LeaseLost


def _stop(session: Session) -> bool:
    stop(session.holding)
    return False


def _give_back(session: Session) -> bool:
    give_back(session.holding)
    return False


# A step returns True to go on and False when the run was given back.
STEPS: dict[Next, Callable[[Session], bool]] = {
    Next.GIVE_UP: _give_up,
    Next.STOP: _stop,
    Next.GIVE_BACK: _give_back,
    Next.UNBOUND: hold_unbound,
    Next.THINK: think,
    Next.ROUTE: route,
    Next.WAKE: wake,
    Next.HEAR: hear,
    Next.AWAIT_RESULT: await_result,
    Next.VERIFY: verify,
}


def drive(run_id: UUID) -> None:
    """Continue a run as far as it goes. A no-op when there is nothing to take. Called by the Celery task only."""
    holding = lease_acquire(run_id=run_id, owner=owner_name(), lock_key=liveness_key())
    if holding is None:
        return
    reach("after_acquire")
    while holding is not None:
        holding = _hold(holding)
    reach("after_release")


def _hold(holding: Holding) -> Holding | None:
    """Continue from the head under one fence. Returns the lease with a higher one where the run is to be read anew."""
    heartbeat = Heartbeat(holding, lambda: adopt(holding))
    session: Session | None = None
    try:
        plan_once()
        with heartbeat:
            session = restore(holding, heartbeat)
            going = session is not None and _passes_guards(session)
            while going and session is not None:
                going = _step(session)
    except LeaseLost:
        _gave_up(holding)
    except SaveRefused as refused:
        return after_refused_save(holding, refused.outcome)
    except ReadAnew:
        return read_anew(holding)
    except DatabaseError as error:
        return _after_database_error(holding, heartbeat, session, error)
    return None


def _passes_guards(session: Session) -> bool:
    """Guards 10 to 13, in their order; a run that waits is asked 9 to 12 by `wake`. False: it was held."""
    if session.snapshot.phase != Phase.AWAITING_APPROVAL:
        if not passed(session, session.failed):
            return False
        refresh(session)
    note_drift(session)
    return True


def _after_database_error(
    holding: Holding, heartbeat: Heartbeat, session: Session | None, error: Exception
) -> Holding | None:
    """The connection was lost, or the server refused a statement; mending the latter may meet the former."""
    try:
        if connection_lost(error):
            return after_lost_connection(holding, heartbeat, session)
        after_store_error(holding, session, error)
    except LeaseLost:
        _gave_up(holding)
    except DatabaseError as another:
        if connection_lost(error) or not connection_lost(another):
            raise
        return _after_database_error(holding, heartbeat, session, another)
    return None


def _gave_up(holding: Holding) -> None:
    """A worker that lost its lease has changed nothing; that it tried is recorded (ruling 14): as LEASE_EXPIRED while nobody
    has taken the run since, else as STALE_FENCE.
    """
    logger.warning("run %s: nothing more is written under fence %s", holding.run_id, holding.fence)
    with transaction.atomic():
        if lease_lock(holding) is not None:
            return
    refusal_record(
        tenant_id=holding.tenant_id,
        run_id=holding.run_id,
        kind=RefusalKind.LEASE_EXPIRED if lease_expired(holding) else RefusalKind.STALE_FENCE,
        fence=holding.fence,
        detail={"owner": holding.owner},
    )


def _step(session: Session) -> bool:
    session.in_flight.clear()
    try:
        return STEPS[decide_next(_known(session))](session)
    except Unreadable as error:
        refuse_resume(session.holding, error.kind, error.found)
        return False


def _known(session: Session) -> Known:
    return Known(
        phase=session.snapshot.phase,
        lost=session.heartbeat.lost,
        stop_seen=session.heartbeat.stop_seen,
        draining=draining(),
        to_send=bool(session.sending),
        asked=session.asked is not None,
        unsaved=session.working is not None,
    )


def owner_name() -> str:
    """The name of this worker process."""
    return f"{socket.gethostname()}-{os.getpid()}"
