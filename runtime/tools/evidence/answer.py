"""The report of an evidence search, published on the console."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from runtime.contracts import Arguments, PriorResult
from runtime.tools.answer import AnswerPart, AnswerPartArguments, TitleText
from runtime.tools.evidence import report
from runtime.tools.report import refuse_own_numbers


class SendEvidenceArguments(AnswerPartArguments):
    title: Annotated[TitleText, Field(description="One line, without any digits."), AfterValidator(refuse_own_numbers)]


class SendEvidence(AnswerPart):
    """Writes the report: every claim with its id, its verdict and its passages."""

    description: ClassVar[str] = "Publish the report on the console: every claim with its verdict and its passages."
    arguments: ClassVar[type[Arguments]] = SendEvidenceArguments
    slug: ClassVar[str] = "evidence"

    def compose(self, part: AnswerPartArguments, results: Sequence[PriorResult]) -> str:
        return report.body(results, part.summary)
