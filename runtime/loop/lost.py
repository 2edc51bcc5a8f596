"""A connection that was lost around a commit: nothing is sent or assumed until what the commit did is looked up (T36).

The worker first raises the fence of its own lease, so that a statement that still sits in a socket can't land, then looks
(ruling 29): saves by their save id under the head's lock, every other commit by the attempt or the lease row that it would
have left. What it knows and finds not stored, it stores; then it goes on from the head.
"""

import logging
import threading

from django.db import connection, transaction
from django.db.utils import Error as DatabaseError

from checkpoints.services import head_lock_soon, saves_probe, unknown_save_record
from receipts.selectors import open_attempts
from receipts.services import attempt_refused, receipt_of
from runs.errors import LeaseLost, connection_lost
from runs.leases import lease_given_back, lease_lock_any, lease_refence
from runs.services import budget_release
from runs.states import Holding
from runtime.ending import held_run
from runtime.heartbeat import Heartbeat
from runtime.loop.act import record_in_hand
from runtime.loop.seal import seal_in_hand
from runtime.session import Session

logger = logging.getLogger(__name__)

_TRY_AGAIN_SECONDS = 0.2
_never = threading.Event()


def after_lost_connection(holding: Holding, heartbeat: Heartbeat, session: Session | None) -> Holding | None:
    """Resolve what was under way. Returns the lease under which the run goes on; None when it was given back, or when the
    database can't be reached while the lease lasts: then it expires, and the next holder looks. Raises LeaseLost.
    """
    while heartbeat.seconds_left() > 0:
        connection.close()
        try:
            return _resolve(holding, session)
        except DatabaseError as error:
            if not connection_lost(error):
                raise
            logger.warning("run %s: still no database: %s", holding.run_id, error)
            _never.wait(_TRY_AGAIN_SECONDS)
    logger.warning("run %s: the lease under fence %s is left to expire", holding.run_id, holding.fence)
    return None


def _resolve(holding: Holding, session: Session | None) -> Holding | None:
    with transaction.atomic():
        again = lease_refence(holding)
        if again is None and not lease_given_back(holding):
            raise LeaseLost
        for prepared in session.in_flight if session else ():
            unknown_save_record(prepared, fence=holding.fence)
    if again is None:
        with transaction.atomic():
            lease_lock_any(holding.run_id)
            head_lock_soon(holding.run_id)
            saves_probe(run_id=holding.run_id, fence=holding.fence)
        return None
    with held_run(again) as (run, _):
        head_lock_soon(run.id)
        saves_probe(run_id=run.id, fence=again.fence)
    if session is not None:
        keep(session, again, why="the connection to the database was lost")
    return again


def keep(session: Session, holding: Holding, *, why: str) -> None:
    """Store what this worker knows and the store does not, under the fence that it has now: attempts that it never sent,
    answers and a turn in hand. What the database refuses once more is asked for again, or kept as evidence. Raises LeaseLost.
    """
    with held_run(holding):
        _free_unsent(session, holding, why)
    session.holding = holding
    record_in_hand(session)
    try:
        seal_in_hand(session)
    except DatabaseError as error:
        if connection_lost(error):
            raise
        logger.exception("run %s: its turn in hand is refused again", holding.run_id)


def _free_unsent(session: Session, holding: Holding, why: str) -> None:
    """An attempt that was committed and, as this worker knows, never sent: it may be tried again, whatever its class."""
    for attempt in open_attempts(run_id=holding.run_id, before_fence=holding.fence + 1):
        receipt = receipt_of(attempt)
        ours = attempt.fence == session.holding.fence
        if ours and (receipt, attempt.attempt_no) not in session.sent:
            attempt_refused(attempt, why=f"not sent: {why}", retry_in=0)
            budget_release(run_id=holding.run_id, receipt_id=receipt, attempt_no=attempt.attempt_no)
