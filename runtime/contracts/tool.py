"""A tool: a typed function, what one attempt of it gives, and what it may read.

The loop never trusts it to say what happened: it commits the dispatch before it calls `run`, and reads the outcome from
what `run` returns or raises.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from receipts.states import AttemptOutcome, EffectClass
from runs.canonical import MAX_BYTES
from runtime.progress import Proposed

ANSWER_BYTES = 8 * MAX_BYTES  # what a tool, a probe or a model may answer at most


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown fields are refused, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class QuestionArguments(Arguments):
    """The arguments of a tool that asks people: what is asked, why, and how it is answered. `form` is a JSON schema
    (`approvals.questions.form`), for `answer` form.
    """

    question: str = Field(min_length=1, max_length=2000, description="The question, in one or two sentences.")
    why: str = Field(default="", max_length=1000, description="Why you ask, and what depends on the answer.")
    answer: Literal["text", "form", "file"] = Field(
        default="text", description="How it is answered: in free words, by the fields of a form, or with one file."
    )
    form: dict[str, Any] | None = Field(
        default=None,
        description="For answer form: a JSON schema of type object. Its properties are of type string (with minLength, "
        "maxLength, pattern, format date or enum), number or integer (minimum, maximum), boolean, or array of an enum "
        "(minItems, maxItems); each with title, description and default. No other keyword.",
    )


@dataclass(frozen=True)
class Asks:
    """What a tool says of itself that asks people. `within_seconds`: for how long they may answer, where policy says nothing;
    None is the installation's own.
    """

    within_seconds: int | None = None


@dataclass(frozen=True)
class Sensitive:
    """Marks a field of arguments that not everybody may see: `iban: Annotated[str, Sensitive()]`. `audited`: who sees it is recorded.

    It changes who is shown the field and nothing of what is digested, decided on and sent.
    """

    audited: bool = False


class ArgumentsRefused(ValueError):
    """The proposed arguments can't be used. The message is for the model; nothing was recorded as a call or sent."""


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


class SecretRef(Arguments):
    """An argument that names a secret of the installation. The name is stored, hashed and shown; the value never is (D-085)."""

    secretRef: str = Field(pattern=r"^[a-z0-9][a-z0-9._/-]{0,99}$")  # noqa: N815 - the name that the model is offered


def _no_secret(ref: SecretRef) -> str:
    raise ToolFailed(f"No secret is called {ref.secretRef} here. Nothing was sent.")


def _nothing_recalled(subject: str) -> tuple[str, ...]:
    return ()


def _no_child(run_id: UUID) -> ChildReport | None:
    return None


def _no_file(sha256: str) -> bytes:
    raise ToolFailed(f"Nobody has given a file with the digest {sha256[:64]} as an answer here.")


def _anything_may_go() -> None:
    return None


@dataclass(frozen=True)
class ToolContext:
    """What a tool may read: the run's inputs (name to bytes), earlier results in order, its key, and its time limit.

    `hidden`: texts of marked arguments, without which is stored what it says beside its answer (references, errors, remarks).
    `answered` gives a file that a person has given as an answer, by the digest that a result among `results` names; `recall`
    what long-term memory holds about a subject, `child` where a child run of the lineage stands, and `secret`
    the secret that the arguments name: for this try only, to be sent and nothing else. A tool that speaks to the outside calls
    `about_to_send` when it has a connection and nothing of its request has left: it raises ToolRetryable where this worker may
    have lost the run while it got there.
    """

    run_id: UUID
    call_id: UUID
    idempotency_key: str
    attempt_no: int
    timeout_seconds: float
    inputs: Mapping[str, bytes]
    results: Sequence[PriorResult]
    outside_url: str
    hidden: Sequence[str] = ()
    recall: Callable[[str], tuple[str, ...]] = _nothing_recalled
    child: Callable[[UUID], ChildReport | None] = _no_child
    secret: Callable[[SecretRef], str] = _no_secret
    about_to_send: Callable[[], None] = _anything_may_go
    answered: Callable[[str], bytes] = _no_file

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

    # For a tool that asks people: nothing runs, what one of them answers is its result. Its arguments are QuestionArguments.
    asks: ClassVar[Asks | None]

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
