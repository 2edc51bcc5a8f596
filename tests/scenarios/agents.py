"""An agent with a child, for the processes of the scenarios: it has one comparison made by a run of its own, and waits for it."""

from collections.abc import Mapping
from typing import ClassVar

from runtime.agents.fund_comparison import FundComparison
from runtime.contracts import AgentSpec, ModelRequest, ModelTurn, ProposedCall
from runtime.tools.children import AwaitChild, SpawnChild

CHILD = "fund_comparison"
CARVED = {"model_calls": 20, "tool_calls": 20, "tokens": 100_000}
SPAWN, AWAIT = "spawn_child", "await_child"


class Family:
    """Starts one comparison, waits for its end, and finishes."""

    spec: ClassVar[AgentSpec] = AgentSpec(
        key="family",
        version="1",
        title="Has a comparison made",
        instructions="Have the comparison made by a child, and wait for it.",
        default_goal="Have the two funds compared.",
        model="scripted",
        tools=(SpawnChild(), AwaitChild()),
        obligations=(),
        input_names=FundComparison.spec.input_names,
        caps={"model_calls": 60, "tool_calls": 60, "tokens": 1_000_000},
        children={CHILD: CARVED},
    )

    @staticmethod
    def check_inputs(inputs: Mapping[str, bytes]) -> str:
        return f"A comparison by a child: {FundComparison.check_inputs(inputs)}"

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        answers = [message["value"] for message in request.history if message["role"] == "tool" and message["ok"]]
        child = next((answer["child"] for answer in answers if "child" in answer), None)
        if child is None:
            asked = {"agent": CHILD, "label": "comparison", "goal": "Compare the two funds and publish."}
            proposed = ProposedCall(SPAWN, asked)
        elif not any("status" in answer for answer in answers):
            proposed = ProposedCall(AWAIT, {"child": child})
        else:
            proposed = ProposedCall("finish", {"summary": "The child has ended."})
        return ModelTurn("", (proposed,), input_tokens=50, output_tokens=10, response_id=f"family-{request.turn_no}")
