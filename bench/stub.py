"""The agent that is measured: its model and its tool answer at once, so all that is left is what we add."""

from collections.abc import Mapping
from typing import ClassVar

from bench.payload import MODEL_TEXT, PAIRS, TOOL_TEXT
from receipts.states import EffectClass
from runtime.contracts import AgentSpec, Arguments, ModelRequest, ModelTurn, ProposedCall, ToolContext, ToolOutcome
from runtime.tools.base import PlainTool, expect


class Numbered(Arguments):
    number: int


class Echo(PlainTool):
    """Only reads."""

    key: ClassVar[str] = "echo"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Gives a text."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 5.0
    arguments: ClassVar[type[Arguments]] = Numbered

    def step_label(self, args: Arguments) -> str:
        return str(expect(args, Numbered).number)

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        return ToolOutcome({"text": TOOL_TEXT})


class Stub:
    """Ten pairs of a turn and a call, or as many as its goal says, then the end."""

    spec: ClassVar[AgentSpec] = AgentSpec(
        key="stub",
        version="1",
        title="Stub",
        instructions="Echo.",
        default_goal=str(PAIRS),
        model="stub",
        tools=(Echo(),),
        obligations=(),
        input_names=(),
        caps={"model_calls": 5000, "tool_calls": 5000, "tokens": 50_000_000},
        turn_limit=5000,
    )

    @staticmethod
    def check_inputs(inputs: Mapping[str, bytes]) -> str:
        return f"Stub with {len(inputs)} inputs"

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        if request.turn_no > int(request.goal):
            return ModelTurn(MODEL_TEXT, (), 100, 100)
        return ModelTurn(MODEL_TEXT, (ProposedCall("echo", {"number": request.turn_no}),), 100, 100)
