"""A run of an agent without the loop: its planner and its tools on a conversation kept in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from runtime.agents.fund_comparison import FundComparison
from runtime.contracts import (
    Arguments,
    ModelRequest,
    ModelTurn,
    PriorResult,
    ProposedCall,
    Tool,
    ToolContext,
    ToolFailed,
    ToolOutcome,
)
from runtime.tools.registry import TOOLS

A = b"""date,fund,company,ticker,weight(%)
2026-06-30,LARCH,ALDER GROVE ROBOTICS INC,ALGR,60.1
2026-06-30,LARCH,CINDERFORD ENERGY STORAGE,CNDF,39.5
2026-06-30,LARCH,US DOLLAR,,0.4
"""
B = b"""date,fund,company,ticker,weight(%)
2026-06-30,MAPLE,ALDER GROVE ROBOTICS INC,ALGR,55.02
2026-06-30,MAPLE,LONGACRE [CLOUD](https://evil.example) | X,LGAC,44.0
2026-06-30,MAPLE,BAYHEAD TRADE FINANCE NOTE B,-,0.98
"""


@dataclass
class InMemoryRun:
    """Inputs, stored results and conversation of one run. `outside_url` is where its tools send to."""

    outside_url: str = ""
    inputs: Mapping[str, bytes] = field(default_factory=lambda: {"a": A, "b": B})
    run_id: UUID = field(default_factory=uuid4)
    results: list[PriorResult] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    lapsed: set[str] = field(default_factory=set)

    def complete(self, key: str, **arguments: Any) -> Arguments:
        """The arguments as the loop has them before the key: checked and completed."""
        tool = TOOLS[key]
        return tool.complete(tool.arguments.model_validate(arguments), self.results)

    def context(
        self, idempotency_key: str = "k1", timeout_seconds: float = 5.0, call_id: UUID | None = None
    ) -> ToolContext:
        return ToolContext(
            run_id=self.run_id,
            call_id=call_id or uuid4(),
            idempotency_key=idempotency_key,
            attempt_no=1,
            timeout_seconds=timeout_seconds,
            inputs=self.inputs,
            results=self.results,
            outside_url=self.outside_url,
        )

    def call(self, key: str, **arguments: Any) -> ToolOutcome:
        """Run a tool once and store its result."""
        args = self.complete(key, **arguments)
        call_id = uuid4()
        outcome = TOOLS[key].run(self.context(call_id=call_id), args)
        self.store(TOOLS[key], args, call_id, ok=True, value=outcome.value)
        return outcome

    def store(self, tool: Tool, args: Arguments, call_id: UUID, *, ok: bool, value: dict[str, Any]) -> None:
        step_name = f"{tool.key}/{tool.step_label(args)}"
        self.results.append(PriorResult(call_id, tool.key, step_name, ok, value))

    def prepare(self) -> "InMemoryRun":
        """Up to the first draft: both read, compared, v1 sent."""
        self.call("read_disclosure", input="a")
        self.call("read_disclosure", input="b")
        self.call("compute_overlap")
        self.call("send_answer_part", version=1, title="LARCH / MAPLE overlap", summary="They share a holding.")
        return self

    # ── the planner ──

    def ask(self) -> ModelTurn:
        return FundComparison.plan(
            ModelRequest(
                agent=FundComparison.spec.key,
                model="scripted",
                instructions=FundComparison.spec.instructions,
                goal=FundComparison.spec.default_goal,
                turn_no=len(self.history) + 1,
                inputs=("a", "b"),
                history=tuple(self.history),
                tools=(),
                lapsed=frozenset(self.lapsed),
            )
        )

    def tell(self, turn: ModelTurn, *, ok: bool | None, value: dict[str, Any]) -> None:
        """Add a turn and what became of its proposal; None where nobody has said."""
        message_id = str(len(self.history))
        calls = [{"id": message_id, "tool": call.tool, "arguments": call.arguments} for call in turn.proposals]
        self.history.append({"role": "assistant", "text": turn.text, "calls": calls})
        if ok is not None:
            tool = turn.proposals[0].tool
            self.history.append({"role": "tool", "id": message_id, "tool": tool, "ok": ok, "value": value})

    def follow(self, answers: Mapping[str, dict[str, Any] | None] | None = None) -> list[ProposedCall]:
        """Let the planner work to its end. `answers` gives tools that are not run: their error, or None for silence."""
        told: list[ProposedCall] = []
        while not told or told[-1].tool != "finish":
            turn = self.ask()
            [proposal] = turn.proposals
            told.append(proposal)
            if proposal.tool == "finish":
                break
            if answers and proposal.tool in answers:
                error = answers[proposal.tool]
                self.tell(turn, ok=None if error is None else False, value=error or {})
                continue
            try:
                outcome = self.call(proposal.tool, **proposal.arguments)
                self.tell(turn, ok=True, value=outcome.value)
            except ToolFailed as failed:
                self.tell(turn, ok=False, value={"error": str(failed)})
        return told
