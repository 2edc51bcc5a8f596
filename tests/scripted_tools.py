"""Tools that do what a test has told them."""

from collections.abc import Collection, Sequence
from datetime import date, timedelta
from typing import Annotated, ClassVar
from uuid import UUID

from receipts.states import EffectClass
from runtime.contracts import (
    Arguments,
    PriorResult,
    ReportDraft,
    SecretRef,
    Sensitive,
    ToolContext,
    ToolOutcome,
)
from runtime.tools.answer import AnswerPart, AnswerPartArguments
from runtime.tools.base import PlainTool, expect
from runtime.tools.http import refuse_unless_done, send
from runtime.tools.prepared import PreparedArguments, PreparedTool
from tests.scripted import SCRIPT


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
