"""The database refuses a statement of a step and the connection stands: a rule, a full disk, a timeout, another transaction.

What was sent was rolled back, and the server says so: nothing is unknown. The worker stores what it knows, if that goes now,
and gives the run back with the error in words, to be tried again after a while. A run that meets such errors again and again
without getting on is held, as one whose workers die is (X07).
"""

import logging

from checkpoints.selectors import head_saved_at
from runs.errors import store_said
from runs.selectors import moves_since, run_now
from runs.states import Holding, HoldReason, RunStatus
from runtime.backoff import backoff
from runtime.ending import give_back, park
from runtime.loop.lost import keep
from runtime.session import Session

logger = logging.getLogger(__name__)

CAUSE = "STORE_ERROR"


def after_store_error(holding: Holding, session: Session | None, error: Exception) -> None:
    """Keep what is known, then give the run back or hold it. What the database refuses here too is raised: then the lease
    is left to expire. Raises LeaseLost.
    """
    said = store_said(error)
    logger.error("run %s: %s", holding.run_id, said, exc_info=error)
    if session is not None:
        keep(session, holding, why=said)
    run = run_now(holding.run_id)
    met = 1 + moves_since(run, cause=CAUSE, since=head_saved_at(run.id), but_after="RESUMED")
    if met <= run.max_takeovers:
        give_back(holding, cause=CAUSE, due_in=backoff(met), detail=said)
        return
    park(
        holding,
        RunStatus.HELD,
        cause=CAUSE,
        hold_reason=HoldReason.STORE_ERROR,
        detail=f"{met} times without getting on, the last time: {said}.",
    )
