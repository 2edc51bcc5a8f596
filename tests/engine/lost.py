"""Calls whose answer never came."""

from uuid import UUID

from receipts.models import ToolCall
from runs.models import Budget
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from tests.engine.engine import Engine, call_named
from tests.scripted import SCRIPT, calls, went_well

UNKNOWN = ToolUnknown("the connection ended without an answer")


def lose_answer(engine: Engine, tool: str = "post", label: str = "a", agent: str = "told") -> ToolCall:
    """An approved call that was sent and gave no answer; its run is held."""
    SCRIPT.do(label, UNKNOWN, went_well(label))
    run_id = engine.run(calls((tool, label)), agent=agent)
    engine.approve(run_id)
    drive(run_id)
    return call_named(run_id, label)


def tool_budget(run_id: UUID) -> tuple[int, int, int]:
    """(reserved, held for unknown outcomes, spent) of the tool calls."""
    budget = Budget.objects.get(run_id=run_id, unit="tool_calls")
    return budget.reserved, budget.held_unknown, budget.spent
