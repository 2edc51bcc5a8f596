"""t4: the first draft, published on the console at once. Its only effect is rows of this database."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from receipts.states import EffectClass
from runtime.contracts import Arguments, ArgumentsRefused, PriorResult, ReportDraft, ToolContext, ToolOutcome
from runtime.tools import report
from runtime.tools.base import PlainTool, expect

SLUG = "overlap"
COMPLETED = {"readOnly": True}

Title = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^\S[^\x00-\x1f\x7f]*$",
        description="One line. No numbers but those in the funds' names and days.",
    ),
]
Summary = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2000,
        pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$",
        description="Your own words about the result, without any digits. Shown as the model's text.",
    ),
    AfterValidator(report.refuse_own_numbers),
]
Body = Annotated[
    str,
    Field(max_length=500_000, description="Filled in from stored results. Leave it out.", json_schema_extra=COMPLETED),
]


class SendAnswerPartArguments(Arguments):
    version: Literal[1] = Field(description="The version of the report. The first draft is 1.")
    title: Title
    summary: Summary
    body: Body = ""


class SendAnswerPart(PlainTool):
    """Writes report version 1. Committed together with its result, so a missing result means that it did not happen."""

    key: ClassVar[str] = "send_answer_part"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = (
        "Publish the first draft of the report on the console, before the missing material is there."
    )
    effect_class: ClassVar[EffectClass] = EffectClass.QUERYABLE
    timeout_seconds: ClassVar[float] = 10.0
    arguments: ClassVar[type[Arguments]] = SendAnswerPartArguments
    local: ClassVar[bool] = True

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Fill in the body, which links each number to its receipt. Refuses a body of the model's own."""
        draft = expect(args, SendAnswerPartArguments)
        report.check_title(draft.title, results)
        body = report.body(results, draft.summary, cite=report.linked, reference=False)
        return draft.model_copy(update={"body": filled(draft.body, body)})

    def step_label(self, args: Arguments) -> str:
        return f"v{expect(args, SendAnswerPartArguments).version}"

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """The report version to be stored."""
        draft = expect(args, SendAnswerPartArguments)
        version = ReportDraft(SLUG, draft.title, draft.body, report.source_calls(draft.body))
        value = {"slug": SLUG, "version": draft.version, "title": draft.title}
        return ToolOutcome(value, target=f"report:{SLUG}", report=version)

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        """Its rows are committed with its result: no result, no rows."""
        return False


def filled(given: str, computed: str) -> str:
    """The computed body. Raises ArgumentsRefused if another one was given."""
    if given and given != computed:
        raise ArgumentsRefused("body is filled in from stored results. Leave it out.")
    return computed
