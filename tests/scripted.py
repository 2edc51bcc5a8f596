"""What a test tells agents and tools to do, and what they were asked.

`SCRIPT` is what the test tells: the answers of the model turn by turn, and what each tool does at each attempt. Turns
and outcomes are looked up, not consumed by whoever asks first, so that a worker that takes over hears the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from runtime.contracts import (
    ModelRequest,
    ModelTurn,
    ProposedCall,
    ToolContext,
    ToolOutcome,
)

A = TypeVar("A")
G = TypeVar("G")
Answer = ModelTurn | Exception | Callable[[ModelRequest], ModelTurn]
Doing = ToolOutcome | Exception | Callable[[ToolContext], ToolOutcome]
Found = ToolOutcome | bool | None | Exception | Callable[[ToolContext], ToolOutcome | bool | None]


@dataclass(frozen=True)
class Sent:
    """One attempt of a tool that really ran."""

    tool: str
    label: str
    attempt: int
    key: str


@dataclass
class Script:
    """What the test has told, and what was asked and sent so far. `watch` sees every request before it is answered."""

    turns: dict[int, list[Answer]] = field(default_factory=dict)
    outcomes: dict[str, list[Doing]] = field(default_factory=dict)
    probes: dict[str, list[Found]] = field(default_factory=dict)
    requests: list[ModelRequest] = field(default_factory=list)
    watch: Callable[[ModelRequest], None] | None = None
    sent: list[Sent] = field(default_factory=list)
    probed: list[Sent] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything, for the next test."""
        self.__init__()  # type: ignore[misc]

    def tell(self, *answers: Answer | Sequence[Answer]) -> None:
        """The answers of turn 1, 2, and so on; of several for one turn, the n-th is given to the n-th asking."""
        for turn_no, answer in enumerate(answers, start=1):
            self.turns[turn_no] = list(answer) if isinstance(answer, Sequence) else [answer]

    def do(self, label: str, *outcomes: Doing) -> None:
        """What the call with this label does at attempt 1, 2, and so on; the last one holds for all that follow."""
        self.outcomes[label] = list(outcomes)

    def find(self, label: str, *found: Found) -> None:
        """What the first, second, ... probe of the call with this label finds; the last one holds on."""
        self.probes[label] = list(found)

    def labels(self, tool: str) -> list[str]:
        """The labels of the attempts of a tool that really ran, in order."""
        return [sent.label for sent in self.sent if sent.tool == tool]

    def answer(self, request: ModelRequest) -> ModelTurn:
        """The answer to a request; without one the work is at its end."""
        asked_before = sum(1 for earlier in self.requests if earlier.turn_no == request.turn_no)
        self.requests.append(request)
        if self.watch:
            self.watch(request)
        answers = self.turns.get(request.turn_no, [done()])
        return _do(answers[min(asked_before, len(answers) - 1)], request)

    def run(self, tool: str, label: str, context: ToolContext) -> ToolOutcome:
        """One attempt."""
        self.sent.append(Sent(tool, label, context.attempt_no, context.idempotency_key))
        outcomes = self.outcomes.get(label, [went_well(label)])
        return _do(outcomes[min(context.attempt_no, len(outcomes)) - 1], context)

    def probe(self, tool: str, label: str, context: ToolContext) -> ToolOutcome | bool | None:
        """One look."""
        self.probed.append(Sent(tool, label, context.attempt_no, context.idempotency_key))
        found = self.probes.get(label, [None])
        return _do(found[min(len(self.probed), len(found)) - 1], context)


SCRIPT = Script()


def _do(told: G | Exception | Callable[[A], G], about: A) -> G:
    if isinstance(told, Exception):
        raise told
    return told(about) if callable(told) else told


def went_well(label: str) -> ToolOutcome:
    """An outcome like any other."""
    return ToolOutcome({"label": label}, external_ref=f"ref-{label}", target="elsewhere")


def calls(*proposals: tuple[str, str | Mapping[str, Any]], text: str = "") -> ModelTurn:
    """A turn that proposes (tool, label) or (tool, arguments), in this order."""
    proposed = tuple(
        ProposedCall(tool, {"label": given} if isinstance(given, str) else dict(given)) for tool, given in proposals
    )
    return ModelTurn(text, proposed, input_tokens=100, output_tokens=20, response_id="told")


def done() -> ModelTurn:
    """The turn that ends the work."""
    return calls(("finish", {"summary": "All done."}))
