"""What an agent, a tool and a model gateway are to the loop. Pure: no Django, no Celery, no rows.

A tool is a typed function. The loop never trusts it to say what happened: it commits the dispatch before it calls
`run`, and reads the outcome from what `run` returns or raises.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from receipts.states import AttemptOutcome, EffectClass
from runtime.progress import Proposed

Json = None | bool | int | str | list["Json"] | dict[str, "Json"]


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown fields are refused, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ArgumentsRefused(ValueError):
    """The proposed arguments can't be used. The message is for the model; nothing was recorded as a call or sent."""


# ── outcomes of one attempt ──────────────────────────────────────────────────


class ToolFailed(Exception):
    """The remote answered that it did not do it. Final: the same call is not sent again."""

    outcome: ClassVar[AttemptOutcome] = AttemptOutcome.ERROR_FINAL


class ToolRefused(ToolFailed):
    """The remote answered that it does not do this for us: no permission. Final; another call may do better."""

    outcome: ClassVar[AttemptOutcome] = AttemptOutcome.ERROR_REFUSED


class ToolRetryable(Exception):
    """The remote answered that it did not do it now. The same logical call may be sent again later.

    `retry_after`: the seconds that the remote asked us to wait, where it did.
    """

    def __init__(self, said: str, *, retry_after: float | None = None) -> None:
        super().__init__(said)
        self.retry_after = retry_after


class ToolUnknown(Exception):
    """No usable answer: sent, and nobody knows whether it happened. A timeout is this, never a failure."""


@dataclass(frozen=True)
class ReportDraft:
    """A report version that a tool wrote. `body` is Markdown; `[text](call:<uuid>)` links a number to its receipt."""

    slug: str
    title: str
    body: str
    source_calls: tuple[UUID, ...]


@dataclass(frozen=True)
class MemoryDraft:
    """A text that a tool keeps in long-term memory, under a subject."""

    subject: str
    text: str


class ToolPending(ToolRetryable):
    """The answer comes when a child run has ended. The same logical call is sent again then, however often."""


@dataclass(frozen=True)
class ChildDraft:
    """A child run that a tool asks for: its id, the key of its agent and its goal. It is admitted with the result."""

    run_id: UUID
    agent: str
    goal: str


@dataclass(frozen=True)
class ChildReport:
    """Where a child run stands. `said` is the summary with which it finished; `own` is False for another run's child."""

    run_id: UUID
    status: str
    ended: bool
    own: bool
    said: str


@dataclass(frozen=True)
class ToolOutcome:
    """What one attempt gave. `value` is JSON that the model may read; `target` names where an effect happened.

    `remark` is for people: what is odd about an answer that is good all the same. `report`, `memories`, `progress` and
    `child` are rows of this database; they are stored in the commit of the result, or not at all.
    """

    value: dict[str, Any]
    external_ref: str | None = None
    target: str = ""
    remark: str = ""
    report: ReportDraft | None = None
    memories: tuple[MemoryDraft, ...] = ()
    progress: Proposed | None = None
    child: ChildDraft | None = None


@dataclass(frozen=True)
class PriorResult:
    """A stored result of this run that a tool may build on. `ok` is False for a known failure."""

    call_id: UUID
    tool: str
    step_name: str
    ok: bool
    value: dict[str, Any]


def _nothing_recalled(subject: str) -> tuple[str, ...]:
    return ()


def _no_child(run_id: UUID) -> ChildReport | None:
    return None


@dataclass(frozen=True)
class ToolContext:
    """What a tool may read: the run's inputs (name to bytes), earlier results in order, its key, and its time limit.

    `recall` gives what long-term memory holds about a subject, `child` where a child run of the lineage stands.
    """

    run_id: UUID
    call_id: UUID
    idempotency_key: str
    attempt_no: int
    timeout_seconds: float
    inputs: Mapping[str, bytes]
    results: Sequence[PriorResult]
    outside_url: str
    recall: Callable[[str], tuple[str, ...]] = _nothing_recalled
    child: Callable[[UUID], ChildReport | None] = _no_child

    def latest(self, tool: str) -> PriorResult | None:
        """The newest successful result of a tool, or None."""
        return next((r for r in reversed(self.results) if r.tool == tool and r.ok), None)


class Tool(Protocol):
    """One registered tool. Undeclared effect classes do not exist: the attribute is required."""

    key: ClassVar[str]
    version: ClassVar[str]
    description: ClassVar[str]
    effect_class: ClassVar[EffectClass]
    timeout_seconds: ClassVar[float]
    # How long the other side of an IDEMPOTENT tool tells a repetition by its key; counted from the first try in doubt.
    window_seconds: ClassVar[float]
    arguments: ClassVar[type[Arguments]]
    # "" or the outside channel that it publishes a report version to; the draft is recorded before it is asked for.
    publishes: ClassVar[str]
    # True for a tool whose only effect is rows of this database, committed together with its result.
    local: ClassVar[bool]
    # "" or the key of the tool of the same agent that prepares what this one carries out (runtime.tools.prepared).
    prepared_by: ClassVar[str]
    # Where a person can see whether a call happened: what to look for, and a path below the outside address. The path
    # may hold {key}, the call's idempotency key.
    look: ClassVar[tuple[tuple[str, str], ...]]
    # For a tool that only reads: how long what it observed holds, in seconds, counted from when it was sent; None for
    # what does not change. What is older is read again, under a step name with its epoch, before anything rests on it.
    half_life_seconds: ClassVar[float | None]

    def __hash__(self) -> int:
        """Tools are shared objects, so that what is derived from their definition is computed once."""
        ...

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Fill in, from stored results, what the model may not write itself. Deterministic. Called before the key.

        Raises ArgumentsRefused; like pydantic's ValidationError it is a ValueError whose text the model is told.
        """
        ...

    def step_label(self, args: Arguments) -> str:
        """The label after the tool name in the step name, e.g. `overlap-v2` (T06)."""
        ...

    def rests_on(self, args: Arguments, results: Sequence[PriorResult]) -> Collection[UUID]:
        """The calls whose results this call would act on. `args` are completed. Guard 12 asks how old those are."""
        ...

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """Do it once. Raises ToolFailed, ToolRetryable or ToolUnknown."""
        ...

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        """Look whether the key was executed: an outcome if it was, False if it was not, None if that can't be told."""
        ...

    def awaits(self, args: Arguments) -> UUID | None:
        """The child run whose end this call waits for, or None."""
        ...

    def draft(self, args: Arguments, results: Sequence[PriorResult]) -> ReportDraft | None:
        """The report version that this call would publish, for tools with `publishes`. `args` are completed.

        The results give the ids of the calls that its numbers link to. The arguments hold none, so that a continued
        run that proposes the same publication has the same intent key (T07).
        """
        ...


# ── model turns ──────────────────────────────────────────────────────────────


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


# ── agents ───────────────────────────────────────────────────────────────────


class AgentInputRefused(ValueError):
    """The given input can't be used. The message names the input, the line and the reason."""


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
