"""What a dispatch reserves, what it is settled at, and what happens when there is no room or a stop is in the way.

Wall time is the time that a call is on the wire, as its worker measured it; it is counted where it has a cap. Money is
counted where somebody has said what the model costs.
"""

from runs.errors import LeaseLost
from runs.services import refusal_record
from runs.states import BudgetUnit, HoldReason, RefusalKind, RunStatus
from runtime.contracts import ModelTurn, Tool
from runtime.drain import draining
from runtime.ending import give_back, park, pause, stop
from runtime.session import Session
from runtime.statements import Written

MODEL_TIMEOUT_SECONDS = 60.0

# What one model call may use at most; reserved before it is sent, settled by the reported usage.
TURN_TOKENS = 8000

Amounts = dict[str, int]


def model_reserve(session: Session) -> Amounts:
    """What is reserved before the model is asked."""
    amounts: Amounts = {BudgetUnit.MODEL_CALLS: 1, BudgetUnit.TOKENS: TURN_TOKENS}
    if session.price is not None:
        amounts[BudgetUnit.USD_MICROS] = session.price.most(TURN_TOKENS)
    return amounts | time_used(session, int(MODEL_TIMEOUT_SECONDS * 1000))


def model_used(session: Session, turn: ModelTurn, took_ms: int) -> Amounts:
    """What a turn has used, as its provider reports it (B-048)."""
    amounts: Amounts = {BudgetUnit.MODEL_CALLS: 1, BudgetUnit.TOKENS: turn.input_tokens + turn.output_tokens}
    if session.price is not None:
        amounts[BudgetUnit.USD_MICROS] = session.price.cost(turn.input_tokens, turn.output_tokens)
    return amounts | time_used(session, took_ms)


def tool_reserve(session: Session, tool: Tool) -> Amounts:
    """What is reserved before a call is sent."""
    return {BudgetUnit.TOOL_CALLS: 1, **time_used(session, int(tool.timeout_seconds * 1000))}


def tool_used(session: Session, took_ms: int) -> Amounts:
    """What a call with a known outcome has used."""
    return {BudgetUnit.TOOL_CALLS: 1, **time_used(session, took_ms)}


def time_used(session: Session, took_ms: int) -> Amounts:
    """The time on the wire, where it has a cap. All that a try has used that was answered with “not now”."""
    return {BudgetUnit.WALL_MS: took_ms} if session.timed else {}


def not_started(session: Session, written: Written) -> bool:
    """Give the run back after a step whose new work could not start. True where it may start by now."""
    if not written.held:
        raise LeaseLost
    if written.stopping:
        stop(session.holding)
    elif draining():
        give_back(session.holding)
    elif written.pausing:
        return not pause(session.holding)
    elif written.short:
        _no_room(session, written)
    else:
        raise LeaseLost
    return False


def _no_room(session: Session, written: Written) -> None:
    """Hold the run until a person raises the cap (ruling 17), with a refusal that says which unit lacks how much."""
    lacking = "; ".join(
        f"{short['unit']}: {short['wanted']} needed, {max(short['room'], 0)} of {short['cap']} left"
        if short["cap"] is not None
        else f"{short['unit']}: {short['wanted']} needed, and the run has no such budget"
        for short in written.short
    )
    park(
        session.holding,
        RunStatus.HELD,
        cause="BUDGET",
        hold_reason=HoldReason.BUDGET,
        detail=f"The budget has no room for what comes next. {lacking}.",
    )
    refusal_record(
        tenant_id=session.holding.tenant_id,
        run_id=session.holding.run_id,
        kind=RefusalKind.BUDGET,
        fence=session.holding.fence,
        detail={"short": list(written.short)},
    )
