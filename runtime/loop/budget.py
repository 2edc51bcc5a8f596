"""What a dispatch reserves, and what happens when there is no room for it or a stop is in the way."""

from runs.errors import LeaseLost
from runs.states import HoldReason, RunStatus
from runtime.drain import draining
from runtime.ending import give_back, park, stop
from runtime.session import Session
from runtime.statements import Written

# What one model call may use at most; reserved before it is sent, settled by the reported usage.
TURN_TOKENS = 8000

MODEL_RESERVE = {"model_calls": 1, "tokens": TURN_TOKENS}
TOOL_RESERVE = {"tool_calls": 1}


def not_started(session: Session, written: Written) -> bool:
    """Give the run back after a step whose new work could not start. Always returns False."""
    if not written.held:
        raise LeaseLost
    if written.stopping:
        stop(session.holding)
    elif draining():
        give_back(session.holding)
    elif not written.go:
        park(
            session.holding,
            RunStatus.HELD,
            cause="BUDGET",
            hold_reason=HoldReason.BUDGET,
            detail="The budget has no room for the next call.",
        )
    else:
        raise LeaseLost
    return False
