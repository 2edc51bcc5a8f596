"""A model turn: what is asked, what is answered, and the one way to a model."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from receipts.states import AttemptOutcome


@dataclass(frozen=True)
class ProposedCall:
    """One tool call that the model proposed. `arguments` is what it wrote, unchecked."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ModelTurn:
    """A complete answer of the model: text, ordered proposals and what it cost. No proposals means it is done."""

    text: str
    proposals: tuple[ProposedCall, ...]
    input_tokens: int
    output_tokens: int
    response_id: str = ""


@dataclass(frozen=True)
class ModelRequest:
    """What the model is asked, and for which agent (its key).

    `history` is the conversation in order, as plain JSON messages.
    A message is {"role": "user", "text"}, {"role": "assistant", "text", "calls": [{"id","tool","arguments"}]},
    {"role": "tool", "id", "tool", "ok", "value"} or {"role": "notice", "text"} (something people did or decided).
    """

    agent: str
    model: str
    instructions: str
    goal: str
    turn_no: int
    inputs: tuple[str, ...]
    history: tuple[dict[str, Any], ...]
    tools: tuple["ToolSpec", ...]
    timeout_seconds: float = 60.0
    constraints: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    # The ids of answers in the history that have passed their half-life and do not hold any more.
    lapsed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it."""

    key: str
    description: str
    schema: dict[str, Any]


class ModelRetryable(Exception):
    """The provider answered that it can't now (rate limit, overload).

    `retry_after`: the seconds that it asked us to wait, where it did.
    """

    def __init__(self, said: str, *, retry_after: float | None = None) -> None:
        super().__init__(said)
        self.retry_after = retry_after


class ModelFailed(Exception):
    """The provider answered with a final refusal."""

    outcome: ClassVar[AttemptOutcome] = AttemptOutcome.ERROR_FINAL


class ModelRefused(ModelFailed):
    """The provider does not answer us: the key is missing, unknown or without permission."""

    outcome: ClassVar[AttemptOutcome] = AttemptOutcome.ERROR_REFUSED


class ContextOverflow(ModelFailed):
    """The request is longer than the model can read. It was not answered; a shorter one may be (A-135)."""

    outcome: ClassVar[AttemptOutcome] = AttemptOutcome.CONTEXT_OVERFLOW


class ModelUnknown(Exception):
    """No usable answer. Asking again is allowed: a model call changes nothing outside."""


class Gateway(Protocol):
    """The one way to a model. One call is one try: no retries of its own."""

    key: ClassVar[str]

    def ask(self, request: ModelRequest) -> ModelTurn:
        """Ask once. Raises ModelRetryable, ModelFailed (ContextOverflow where the request was too long) or ModelUnknown."""
        ...
