"""A process that waits for work keeps its database session, with all that is prepared and cached in it."""

import select
import time

from django.db import connection

from accounts.statements import plan_ahead
from runs.statements import plan_once
from runtime.statements import AHEAD

# A pool process that takes longer than some seconds to start is killed.
AHEAD_SECONDS = 1.0


def plan_steps() -> None:
    """Let the server plan the statements of a run in this session before there is one, as far as the time goes."""
    plan_once()
    until = time.monotonic() + AHEAD_SECONDS
    for statement in AHEAD:
        if time.monotonic() > until:
            return
        plan_ahead(statement)


def leave_dead_session() -> None:
    """Give up a session of this thread that failed, or that the server ended while nobody used it.

    Called before work begins, and never inside a transaction. Costs no round trip: an idle session has nothing to read
    until the server says goodbye.
    """
    session = connection.connection
    if session is None or not (connection.errors_occurred or session.closed or _server_spoke(session.fileno())):
        return
    session.close()  # so that a pool does not hand it out again
    connection.close()


def _server_spoke(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
