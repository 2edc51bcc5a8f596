"""t4: a report, published on the console at once. Its only effect is rows of this database."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, JsonValue

from receipts.states import EffectClass
from runtime.contracts import Arguments, ArgumentsRefused, PriorResult, ReportDraft, ToolContext, ToolOutcome
from runtime.progress import Proposed
from runtime.tools import report
from runtime.tools.base import PlainTool, expect

SLUG = "overlap"
COMPLETED = {"readOnly": True}

TitleText = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^\S[^\x00-\x1f\x7f]*$")]
Title = Annotated[TitleText, Field(description="One line. No numbers but those in the funds' names and days.")]
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

# Of any shape, so that one that can't be used is answered beside the report instead of taking the report with it.
Progress = Annotated[
    JsonValue | None,
    Field(
        description=(
            'Optional: how far the research got, as {"summary", "questions": [{"id", "text", "status": "OPEN" | "ANSWERED" | '
            '"DROPPED"}], "bodies": [ids of earlier report versions it rests on]}.'
        )
    ),
]


class AnswerPartArguments(Arguments):
    version: Literal[1] = Field(description="The version of the report. The first one is 1.")
    title: TitleText
    summary: Summary
    body: Body = ""
    workspaceCheckpoint: Progress = None  # noqa: N815 - the name that the model is offered


class AnswerPart(PlainTool):
    """Writes report version 1. Committed together with its result, so a missing result means that it did not happen.

    A subclass says what the report is called (`slug`) and what stands in it (`compose`).
    """

    key: ClassVar[str] = "send_answer_part"
    version: ClassVar[str] = "2"
    effect_class: ClassVar[EffectClass] = EffectClass.QUERYABLE
    timeout_seconds: ClassVar[float] = 10.0
    local: ClassVar[bool] = True
    slug: ClassVar[str]

    def compose(self, part: AnswerPartArguments, results: Sequence[PriorResult]) -> str:
        """The body in Markdown, with a link from each number to its receipt. Deterministic in the stored results.

        Raises ArgumentsRefused for a result that is missing or a title that can't stand.
        """
        raise NotImplementedError

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Fill in the body. Refuses a body of the model's own."""
        part = expect(args, AnswerPartArguments)
        return part.model_copy(update={"body": filled(part.body, self.compose(part, results))})

    def step_label(self, args: Arguments) -> str:
        return f"v{expect(args, AnswerPartArguments).version}"

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """The report version to be stored."""
        part = expect(args, AnswerPartArguments)
        version = ReportDraft(self.slug, part.title, part.body, report.source_calls(part.body))
        value = {"slug": self.slug, "version": part.version, "title": part.title}
        said = part.workspaceCheckpoint
        progress = None if said is None else Proposed(said)
        return ToolOutcome(value, target=f"report:{self.slug}", report=version, progress=progress)


class SendAnswerPartArguments(AnswerPartArguments):
    title: Title


class SendAnswerPart(AnswerPart):
    """The first draft of a fund comparison."""

    description: ClassVar[str] = (
        "Publish the first draft of the report on the console, before the missing material is there."
    )
    arguments: ClassVar[type[Arguments]] = SendAnswerPartArguments
    slug: ClassVar[str] = SLUG

    def compose(self, part: AnswerPartArguments, results: Sequence[PriorResult]) -> str:
        report.check_title(part.title, results)
        return report.body(results, part.summary, cite=report.linked, reference=False)


def filled(given: str, computed: str) -> str:
    """The computed body. Raises ArgumentsRefused if another one was given."""
    if given and given != computed:
        raise ArgumentsRefused("body is filled in from stored results. Leave it out.")
    return computed
