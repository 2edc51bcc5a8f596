"""Agents for the waits that people notice: one asks for approval of a call, one is always in the middle of a call."""

import time
from typing import ClassVar

from bench.payload import MODEL_TEXT
from bench.stub import Echo, Numbered, Stub
from receipts.states import EffectClass
from runtime.contracts import Arguments, ModelRequest, ModelTurn, ProposedCall, ToolContext, ToolOutcome
from runtime.tools.base import PlainTool

LONG_CALL_SECONDS = 60.0


class Mark(Echo):
    """Leaves a mark outside, so a person is asked."""

    key: ClassVar[str] = "mark"
    effect_class: ClassVar[EffectClass] = EffectClass.NON_IDEMPOTENT


class Linger(PlainTool):
    """Only reads, for a long time at its first try."""

    key: ClassVar[str] = "linger"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Takes long."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = LONG_CALL_SECONDS
    arguments: ClassVar[type[Arguments]] = Numbered

    def step_label(self, args: Arguments) -> str:
        return "long"

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        if context.attempt_no == 1:
            time.sleep(LONG_CALL_SECONDS)
        return ToolOutcome({"done": True})


class Asker(Stub):
    """Asks for one call."""

    spec = Stub.spec.__class__(**{**vars(Stub.spec), "key": "asker", "tools": (Mark(),)})

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        calls = (ProposedCall("mark", {"number": 1}),) if request.turn_no == 1 else ()
        return ModelTurn(MODEL_TEXT, calls, 100, 100)


class Lingerer(Stub):
    """Makes one long call."""

    spec = Stub.spec.__class__(**{**vars(Stub.spec), "key": "lingerer", "tools": (Linger(),)})

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        calls = (ProposedCall("linger", {"number": 1}),) if request.turn_no == 1 else ()
        return ModelTurn(MODEL_TEXT, calls, 100, 100)
