"""An agent: its pinned version, what its runs accept and promise at their start, and its planner."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Protocol, Self

from runtime.contracts.model import ModelRequest, ModelTurn
from runtime.contracts.tool import Tool


class AgentInputRefused(ValueError):
    """The given input can't be used. The message names the input, the line and the reason; `field` is the input's name, where it is
    about one.
    """

    field: str = ""

    def about(self, field: str) -> Self:
        """The same refusal, of this input."""
        self.field = field
        return self


@dataclass(frozen=True)
class ObligationSpec:
    """A promise a run starts with. It is fulfilled by the call with this step name."""

    statement: str
    step_name: str


@dataclass(frozen=True)
class Constraint:
    """A limit that every run of an agent accepts at its start.

    `denies` names tools, or effect classes, that policy denies to a run that carries it.
    """

    statement: str
    denies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Price:
    """What a model costs: dollars for a million tokens, which is millionths of a dollar for one."""

    input: Decimal
    output: Decimal

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Millionths of a dollar, rounded up."""
        return math.ceil(self.input * input_tokens + self.output * output_tokens)

    def most(self, tokens: int) -> int:
        """The most that so many tokens can cost, whichever they are."""
        return math.ceil(max(self.input, self.output) * tokens)


@dataclass(frozen=True)
class AgentSpec:
    """One version of an agent, pinned by a run at its start.

    `caps` limit what a run may use, by unit (model_calls, tool_calls, tokens, usd_micros, wall_ms); a unit without a cap is
    recorded and never refused. `price` wins over the installation's price of the model.
    """

    key: str
    version: str
    title: str
    instructions: str
    default_goal: str
    model: str
    tools: tuple[Tool, ...]
    obligations: tuple[ObligationSpec, ...]
    input_names: tuple[str, ...]
    caps: Mapping[str, int]
    recovery_policy: str = "RESUME_IN_PLACE"
    price: Price | None = None
    max_takeovers: int = 5
    turn_limit: int = 30
    # What a run accepts at its start. Not pinned: a run keeps what it accepted, whatever is declared later (guard 13).
    constraints: tuple[Constraint, ...] = ()
    assumptions: tuple[str, ...] = ()
    input_labels: Mapping[str, str] = field(default_factory=dict)
    input_help: str = ""
    # Inputs that are plain text: a person may type them instead of giving a file. The value is a sample to start from.
    text_inputs: Mapping[str, str] = field(default_factory=dict)
    # The agents that a run may have as children, each with the caps that are carved out of the run's own budget.
    children: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Whether a run that is given a workspace may say how far its research got.
    workspace_progress: bool = False


class Agent(Protocol):
    """A registered agent class."""

    spec: ClassVar[AgentSpec]

    @staticmethod
    def check_inputs(inputs: Mapping[str, bytes]) -> str:
        """Check the uploads before a run exists and return a title for the run. Raises AgentInputRefused."""
        ...

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        """The deterministic planner behind the scripted gateway: the turn that follows this history."""
        ...
