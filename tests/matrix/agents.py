"""An agent that does what its goal says, so that every worker process that takes its run over says the same.

The goal is JSON: {"turns": [[[tool, label, behaviour], ...], ...]}. After the last turn it finishes. Tools with an
effect outside, and `look`, ask the oracle; the behaviour is how the oracle treats the key the first time. For `spawn_child` the
behaviour is the goal of the child, which `await_child` then waits for.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from receipts.states import EffectClass
from runs.canonical import canonical
from runtime.contracts import (
    AgentSpec,
    Arguments,
    ModelRequest,
    ModelTurn,
    ProposedCall,
    ReportDraft,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolRetryable,
    ToolUnknown,
)
from runtime.tools.base import PlainTool, expect
from runtime.tools.children import AwaitChild, SpawnChild
from runtime.tools.http import refuse_unless_done, says_not_executed, send

Script = list[list[tuple[str, str, str]]]
UNKNOWN = "nothing_of_that_name"


class Told(Arguments):
    label: str
    behaviour: str


class OracleTool(PlainTool):
    """Asks the oracle to do something under the key of its call."""

    key: ClassVar[str]
    effect_class: ClassVar[EffectClass]
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Does something outside."
    timeout_seconds: ClassVar[float] = 5.0
    arguments: ClassVar[type[Arguments]] = Told

    def step_label(self, args: Arguments) -> str:
        return expect(args, Told).label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        told = expect(args, Told)
        asked = {
            "call": str(context.call_id),
            "run": str(context.run_id),
            "tool": self.key,
            "attempt": context.attempt_no,
            "behaviour": told.behaviour,
            "arguments": canonical(told.model_dump(mode="json")).decode(),
        }
        answer = send(context, "POST", "/do", body=canonical(asked))
        reading = self.effect_class == EffectClass.READ_ONLY
        refuse_unless_done(answer, reading=reading, not_done=says_not_executed)
        done = answer.object()
        return ToolOutcome({"ref": str(done["ref"])}, external_ref=str(done["ref"]), target="oracle")


class Look(OracleTool):
    """Only reads."""

    key: ClassVar[str] = "look"
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY


class Once(OracleTool):
    """The oracle does it again if it is asked again."""

    key: ClassVar[str] = "once"
    effect_class: ClassVar[EffectClass] = EffectClass.NON_IDEMPOTENT


class Again(OracleTool):
    """The oracle does a key once, however often it is asked."""

    key: ClassVar[str] = "again"
    effect_class: ClassVar[EffectClass] = EffectClass.IDEMPOTENT
    window_seconds: ClassVar[float] = 600.0


class Asked(OracleTool):
    """The oracle can say whether it did a key. While it holds a request back, it can't."""

    key: ClassVar[str] = "asked"
    effect_class: ClassVar[EffectClass] = EffectClass.QUERYABLE

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        try:
            answer = send(context, "GET", "/find", params={"key": context.idempotency_key})
            refuse_unless_done(answer, reading=True)
            found = answer.object()
        except (ToolFailed, ToolRetryable, ToolUnknown):
            return None
        if found["held"]:
            return None
        if not found["executions"]:
            return False
        ref = f"{self.key}-{context.idempotency_key[:12]}"
        return ToolOutcome({"ref": ref}, external_ref=ref, target="oracle")


class Note(PlainTool):
    """Writes a report version on the console; its only effect is rows of this database."""

    key: ClassVar[str] = "note"
    effect_class: ClassVar[EffectClass] = EffectClass.QUERYABLE
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Writes a version of the report."
    timeout_seconds: ClassVar[float] = 5.0
    arguments: ClassVar[type[Arguments]] = Told
    local: ClassVar[bool] = True

    def step_label(self, args: Arguments) -> str:
        return expect(args, Told).label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        label = expect(args, Told).label
        draft = ReportDraft("noted", f"Version {label}", f"# {label}", ())
        return ToolOutcome({"label": label}, target="report:noted", report=draft)

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        return False


class Matrix:
    """The agent of every run of the matrix."""

    spec: ClassVar[AgentSpec] = AgentSpec(
        key="matrix",
        version="1",
        title="Told by its goal",
        instructions="Do what the goal says.",
        default_goal='{"turns": []}',
        model="scripted",
        tools=(Look(), Once(), Again(), Asked(), Note(), SpawnChild(), AwaitChild()),
        obligations=(),
        input_names=(),
        caps={"model_calls": 200, "tool_calls": 200, "tokens": 1_000_000},
        children={"matrix": {"model_calls": 50, "tool_calls": 50, "tokens": 200_000}},
    )

    @staticmethod
    def check_inputs(inputs: Mapping[str, bytes]) -> str:
        return f"A run of the matrix with {len(inputs)} inputs"

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        turns: Script = json.loads(request.goal)["turns"]
        if request.turn_no > len(turns):
            proposed: tuple[ProposedCall, ...] = (ProposedCall("finish", {"summary": "Done as told."}),)
        else:
            proposed = tuple(_proposed(request, *told) for told in turns[request.turn_no - 1])
        return ModelTurn("", proposed, input_tokens=100, output_tokens=20, response_id=f"told-{request.turn_no}")


def _proposed(request: ModelRequest, tool: str, label: str, behaviour: str) -> ProposedCall:
    arguments: dict[str, Any] = {"label": label, "behaviour": behaviour}
    if tool == SpawnChild.key:
        arguments = {"agent": "matrix", "label": label, "goal": behaviour}
    elif tool == AwaitChild.key:
        told = [message for message in request.history if message.get("tool") == SpawnChild.key and message["ok"]]
        arguments = {"child": told[-1]["value"]["child"]}
    return ProposedCall(tool, arguments)
