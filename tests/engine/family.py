"""Parents and their children in engine tests."""

from collections.abc import Callable
from uuid import UUID

from runs.models import Budget, BudgetEntry, Run
from runtime.contracts import ModelRequest, ModelTurn
from tests.scripted import SCRIPT, calls, done

CARVED = {"model_calls": 20, "tool_calls": 20, "tokens": 200_000}
Turn = ModelTurn | Callable[[ModelRequest], ModelTurn]


def spawn(*labels: str, agent: str = "told") -> ModelTurn:
    return calls(*[("spawn_child", {"agent": agent, "label": label, "goal": f"Do {label}."}) for label in labels])


def told_child(request: ModelRequest, label: int = 0) -> str:
    """The id of the child that the parent's model was told of."""
    told = [m["value"] for m in request.history if m["role"] == "tool" and "child" in m["value"]]
    return str(told[label]["child"])


def awaits(request: ModelRequest) -> ModelTurn:
    return calls(("await_child", {"child": told_child(request)}))


def tell(parent: list[Turn], child: list[Turn]) -> None:
    """The turns of parent and child; a turn that is not told ends the work."""

    def answer(request: ModelRequest) -> ModelTurn:
        turns = parent if request.agent == "parent" else child
        turn = turns[request.turn_no - 1] if request.turn_no <= len(turns) else done()
        return turn(request) if callable(turn) else turn

    for turn_no in range(1, 8):
        SCRIPT.turns[turn_no] = [answer]


def child_of(run_id: UUID) -> Run:
    return Run.objects.get(parent_run_id=run_id)


def entries(run_id: UUID, receipt_id: UUID) -> list[tuple[str, str, int]]:
    rows = BudgetEntry.objects.filter(run_id=run_id, receipt_id=receipt_id).order_by("kind")
    return [(row.kind, unit, amount) for row in rows for unit, amount in sorted(row.amounts.items())]


def reserved(run_id: UUID) -> dict[str, int]:
    rows = Budget.objects.filter(run_id=run_id, unit__in=CARVED).order_by("unit")
    return {row.unit: row.reserved for row in rows}
