"""An agent whose every turn and every answer is another text of 500 bytes, and which notes when each step begins."""

import time
from typing import ClassVar

from bench.growing import START_MESSAGES, STEPS, texts
from bench.stub import Echo, Numbered, Stub
from runtime.contracts import AgentSpec, Arguments, ModelRequest, ModelTurn, ProposedCall, ToolContext, ToolOutcome
from runtime.tools.base import expect

PAIRS = (START_MESSAGES + STEPS) // 2
MARKS: list[float] = []
TEXTS = texts(2 * PAIRS + 1)


class Told(Echo):
    """Gives the next text."""

    key: ClassVar[str] = "told"

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        MARKS.append(time.perf_counter())
        return ToolOutcome({"text": TEXTS[2 * expect(args, Numbered).number - 1]})


class Grower(Stub):
    """As many pairs of a turn and a call as the growth has steps."""

    spec: ClassVar[AgentSpec] = AgentSpec(
        **{**vars(Stub.spec), "key": "grower", "tools": (Told(),), "default_goal": "grow"}
    )

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        MARKS.append(time.perf_counter())
        calls = (ProposedCall("told", {"number": request.turn_no}),) if request.turn_no <= PAIRS else ()
        return ModelTurn(TEXTS[2 * (request.turn_no - 1)], calls, 100, 100)
