"""Agents whose turns and tools do what a test has told them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from runtime.contracts import (
    AgentSpec,
    Constraint,
    ModelRequest,
    ModelTurn,
    ObligationSpec,
    Price,
)
from runtime.tools.children import AwaitChild, SpawnChild
from runtime.tools.memory import Recall, Remember
from runtime.tools.registry import TOOLS
from tests.scripted import SCRIPT
from tests.scripted_tools import (
    Again,
    Apart,
    Asked,
    AskedSlowly,
    Carry,
    Keyed,
    Look,
    Note,
    Once,
    Part,
    Pay,
    Plan,
    Post,
    Typed,
    Watch,
)


def _spec(key: str, **differently: Any) -> AgentSpec:
    usual: dict[str, Any] = {
        "key": key,
        "version": "1",
        "title": "Told by a test",
        "instructions": "Do what the test has told.",
        "default_goal": "Do what the test has told.",
        "model": "scripted",
        "tools": (
            Look(),
            Watch(),
            Apart(),
            Keyed(),
            Again(),
            Asked(),
            AskedSlowly(),
            Once(),
            Post(),
            Note(),
            Typed(),
            Plan(),
            Carry(),
            *TOOLS.values(),
        ),
        "obligations": (),
        "input_names": (),
        "caps": {"model_calls": 50, "tool_calls": 50, "tokens": 1_000_000},
    }
    return AgentSpec(**(usual | differently))


class Told:
    """Promises nothing."""

    spec: ClassVar[AgentSpec] = _spec("told")

    @staticmethod
    def check_inputs(inputs: Mapping[str, bytes]) -> str:
        return f"A run of a test with {len(inputs)} inputs"

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        return SCRIPT.answer(request)


class Promising(Told):
    """Promises one thing."""

    spec: ClassVar[AgentSpec] = _spec("promising", obligations=(ObligationSpec("Do it once.", "once/promised"),))


class Settling(Told):
    """Is settled by what is known when its worker is lost."""

    spec: ClassVar[AgentSpec] = _spec(
        "settling", recovery_policy="SETTLE", obligations=(ObligationSpec("Do it once.", "once/promised"),)
    )


class Paid(Told):
    """Costs something, and may use five dollars and a minute on the wire."""

    spec: ClassVar[AgentSpec] = _spec(
        "paid",
        price=Price(input=Decimal("2.50"), output=Decimal(10)),
        caps={"model_calls": 50, "usd_micros": 5_000_000, "wall_ms": 600_000},
    )


class Brief(Told):
    """May take three turns, and lose two workers."""

    spec: ClassVar[AgentSpec] = _spec("brief", turn_limit=3, max_takeovers=2)


class Bound(Told):
    """Declares what each run of it accepts."""

    spec: ClassVar[AgentSpec] = _spec(
        "bound", constraints=(Constraint("Send no typed call.", denies=("typed",)),), assumptions=("The wiki is up.",)
    )


class Researching(Told):
    """May say how far its research got; its reports need nothing."""

    spec: ClassVar[AgentSpec] = _spec(
        "researching", tools=(Look(), Part(), Remember(), Recall()), workspace_progress=True
    )


class Parent(Told):
    """May have children, each within caps carved out of its own."""

    spec: ClassVar[AgentSpec] = _spec(
        "parent",
        tools=(Look(), Note(), SpawnChild(), AwaitChild()),
        children={"told": {"model_calls": 20, "tool_calls": 20, "tokens": 200_000}},
    )


class Paying(Told):
    """Moves money."""

    spec: ClassVar[AgentSpec] = _spec("paying", tools=(Look(), Pay()))


AGENTS = [
    f"tests.agents.{name}"
    for name in ("Told", "Promising", "Settling", "Brief", "Paid", "Bound", "Researching", "Parent", "Paying")
]
