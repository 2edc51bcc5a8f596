"""Agents whose turns and tools do what a test has told them.

`SCRIPT` is what the test tells: the answers of the model turn by turn, and what each tool does at each attempt. Turns
and outcomes are looked up, not consumed by whoever asks first, so that a worker that takes over hears the same.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, TypeVar
from uuid import UUID

from receipts.states import EffectClass
from runtime.contracts import (
    AgentSpec,
    Arguments,
    Constraint,
    ModelRequest,
    ModelTurn,
    ObligationSpec,
    Price,
    PriorResult,
    ProposedCall,
    ReportDraft,
    SecretRef,
    Sensitive,
    ToolContext,
    ToolOutcome,
)
from runtime.tools.answer import AnswerPart, AnswerPartArguments
from runtime.tools.base import PlainTool, expect
from runtime.tools.children import AwaitChild, SpawnChild
from runtime.tools.http import refuse_unless_done, send
from runtime.tools.memory import Recall, Remember
from runtime.tools.prepared import PreparedArguments, PreparedTool
from runtime.tools.registry import TOOLS

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


class Labelled(Arguments):
    label: str


class _ToldTool(PlainTool):
    key: ClassVar[str]
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Does what the test has told."
    timeout_seconds: ClassVar[float] = 5.0
    arguments: ClassVar[type[Arguments]] = Labelled

    def step_label(self, args: Arguments) -> str:
        return expect(args, Labelled).label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        return SCRIPT.run(self.key, expect(args, Labelled).label, context)

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        return SCRIPT.probe(self.key, expect(args, Labelled).label, context)


class Look(_ToldTool):
    """Only reads."""

    key: ClassVar[str] = "look"
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY


class Watch(Look):
    """Only reads, and what it saw holds for an hour."""

    key: ClassVar[str] = "watch"
    half_life_seconds: ClassVar[float | None] = 3600.0


class Again(_ToldTool):
    """Its other side executes a key once, however often it is asked."""

    key: ClassVar[str] = "again"
    effect_class: ClassVar[EffectClass] = EffectClass.IDEMPOTENT
    window_seconds: ClassVar[float] = 600.0


class Asked(_ToldTool):
    """Its other side can say whether it executed a key."""

    key: ClassVar[str] = "asked"
    effect_class: ClassVar[EffectClass] = EffectClass.QUERYABLE
    timeout_seconds: ClassVar[float] = 0.001  # what it did not do by then it never does


class AskedSlowly(Asked):
    """The same, and what was sent may still be done for a while."""

    key: ClassVar[str] = "asked-slowly"
    timeout_seconds: ClassVar[float] = 60.0


class Once(_ToldTool):
    """Its other side does it again if it is asked again."""

    key: ClassVar[str] = "once"
    effect_class: ClassVar[EffectClass] = EffectClass.NON_IDEMPOTENT


class Dated(Arguments):
    """Arguments that JSON has no types of its own for."""

    label: str
    day: date
    weights: tuple[float, ...]


class Typed(_ToldTool):
    """Only reads; its arguments have types that JSON writes as text or as a list."""

    key: ClassVar[str] = "typed"
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    arguments: ClassVar[type[Arguments]] = Dated

    def step_label(self, args: Arguments) -> str:
        return expect(args, Dated).label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        dated = expect(args, Dated)
        SCRIPT.run(self.key, dated.label, context)
        return ToolOutcome({"next": (dated.day + timedelta(days=1)).isoformat(), "sum": sum(dated.weights)})


class KeyedArguments(Labelled):
    key: SecretRef


class Keyed(Once):
    """Sends a secret that its arguments name, to the outside address."""

    key: ClassVar[str] = "keyed"
    arguments: ClassVar[type[Arguments]] = KeyedArguments

    def step_label(self, args: Arguments) -> str:
        return expect(args, KeyedArguments).label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        secret = context.secret(expect(args, KeyedArguments).key)
        answer = send(context, "POST", "/", body=b"{}", authorization=f"Bearer {secret}")
        refuse_unless_done(answer, reading=False)
        return ToolOutcome(answer.object(), external_ref="kept", target="elsewhere")


class Payee(Arguments):
    name: Annotated[str, Sensitive()]
    country: str


class PaymentArguments(Labelled):
    """`number` is audited, `note` is marked by policies only."""

    number: Annotated[str, Sensitive(audited=True)]
    cents: Annotated[int, Sensitive()]
    payees: tuple[Payee, ...]
    note: str = ""


class Pay(Once):
    """Moves money; not everybody may see whose."""

    key: ClassVar[str] = "pay"
    arguments: ClassVar[type[Arguments]] = PaymentArguments

    def step_label(self, args: Arguments) -> str:
        payment = expect(args, PaymentArguments)
        return f"{payment.label}-{payment.number}" if payment.label == "named" else payment.label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        return SCRIPT.run(self.key, expect(args, PaymentArguments).label, context)


class Apart(Once):
    """Rests on nothing that was read."""

    key: ClassVar[str] = "apart"

    def rests_on(self, args: Arguments, results: Sequence[PriorResult]) -> Collection[UUID]:
        return ()


class Post(Once):
    """Publishes a report version to an outside channel."""

    key: ClassVar[str] = "post"
    publishes: ClassVar[str] = "wiki"

    def draft(self, args: Arguments, results: Sequence[PriorResult]) -> ReportDraft | None:
        label = expect(args, Labelled).label
        return ReportDraft("told", f"Version {label}", f"# {label}", tuple(result.call_id for result in results))


class Note(_ToldTool):
    """Writes a report version on the console; its only effect is rows of this database."""

    key: ClassVar[str] = "note"
    effect_class: ClassVar[EffectClass] = EffectClass.QUERYABLE
    local: ClassVar[bool] = True

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        label = expect(args, Labelled).label
        outcome = super().run(context, args)
        return ToolOutcome(outcome.value, target="report:told", report=ReportDraft("told", label, f"# {label}", ()))


class Plan(_ToldTool):
    """Prepares what `carry` carries out."""

    key: ClassVar[str] = "plan"
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY


class CarryArguments(PreparedArguments):
    label: str


class Carry(PreparedTool):
    """Carries out the newest plan."""

    key: ClassVar[str] = "carry"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Does what the test has told."
    effect_class: ClassVar[EffectClass] = EffectClass.NON_IDEMPOTENT
    timeout_seconds: ClassVar[float] = 5.0
    arguments: ClassVar[type[Arguments]] = CarryArguments
    prepared_by: ClassVar[str] = "plan"

    def step_label(self, args: Arguments) -> str:
        return expect(args, CarryArguments).label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        given = expect(args, CarryArguments)
        SCRIPT.run(self.key, given.label, context)
        return ToolOutcome({"carried": given.plan}, target="elsewhere")


class Part(AnswerPart):
    """Publishes what the model says."""

    description: ClassVar[str] = "Publishes what the test has told."
    arguments: ClassVar[type[Arguments]] = AnswerPartArguments
    slug: ClassVar[str] = "told"

    def compose(self, part: AnswerPartArguments, results: Sequence[PriorResult]) -> str:
        return f"# {part.summary}"


def _spec(key: str, **differently: Any) -> AgentSpec:
    usual: dict[str, Any] = {
        "key": key,
        "version": "1",
        "title": "Told by a test",
        "instructions": "Do what the test has told.",
        "default_goal": "Do what the test has told.",
        "model": "scripted",
        "tools": (
            Look(),
            Watch(),
            Apart(),
            Keyed(),
            Again(),
            Asked(),
            AskedSlowly(),
            Once(),
            Post(),
            Note(),
            Typed(),
            Plan(),
            Carry(),
            *TOOLS.values(),
        ),
        "obligations": (),
        "input_names": (),
        "caps": {"model_calls": 50, "tool_calls": 50, "tokens": 1_000_000},
    }
    return AgentSpec(**(usual | differently))


class Told:
    """Promises nothing."""

    spec: ClassVar[AgentSpec] = _spec("told")

    @staticmethod
    def check_inputs(inputs: Mapping[str, bytes]) -> str:
        return f"A run of a test with {len(inputs)} inputs"

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        return SCRIPT.answer(request)


class Promising(Told):
    """Promises one thing."""

    spec: ClassVar[AgentSpec] = _spec("promising", obligations=(ObligationSpec("Do it once.", "once/promised"),))


class Settling(Told):
    """Is settled by what is known when its worker is lost."""

    spec: ClassVar[AgentSpec] = _spec(
        "settling", recovery_policy="SETTLE", obligations=(ObligationSpec("Do it once.", "once/promised"),)
    )


class Paid(Told):
    """Costs something, and may use five dollars and a minute on the wire."""

    spec: ClassVar[AgentSpec] = _spec(
        "paid",
        price=Price(input=Decimal("2.50"), output=Decimal(10)),
        caps={"model_calls": 50, "usd_micros": 5_000_000, "wall_ms": 600_000},
    )


class Brief(Told):
    """May take three turns, and lose two workers."""

    spec: ClassVar[AgentSpec] = _spec("brief", turn_limit=3, max_takeovers=2)


class Bound(Told):
    """Declares what each run of it accepts."""

    spec: ClassVar[AgentSpec] = _spec(
        "bound", constraints=(Constraint("Send no typed call.", denies=("typed",)),), assumptions=("The wiki is up.",)
    )


class Researching(Told):
    """May say how far its research got; its reports need nothing."""

    spec: ClassVar[AgentSpec] = _spec(
        "researching", tools=(Look(), Part(), Remember(), Recall()), workspace_progress=True
    )


class Parent(Told):
    """May have children, each within caps carved out of its own."""

    spec: ClassVar[AgentSpec] = _spec(
        "parent",
        tools=(Look(), Note(), SpawnChild(), AwaitChild()),
        children={"told": {"model_calls": 20, "tool_calls": 20, "tokens": 200_000}},
    )


class Paying(Told):
    """Moves money."""

    spec: ClassVar[AgentSpec] = _spec("paying", tools=(Look(), Pay()))


AGENTS = [
    f"tests.agents.{name}"
    for name in ("Told", "Promising", "Settling", "Brief", "Paid", "Bound", "Researching", "Parent", "Paying")
]
