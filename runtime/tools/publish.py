"""t6: publication on the outside wiki. What is sent is exactly the canonical arguments that were approved."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import Field

from receipts.states import EffectClass
from runs.canonical import canonical
from runtime.contracts import (
    Arguments,
    ArgumentsRefused,
    PriorResult,
    ReportDraft,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolRetryable,
    ToolUnknown,
)
from runtime.tools import report, stored
from runtime.tools.answer import SLUG, Body, Summary, Title, filled
from runtime.tools.base import PlainTool, expect
from runtime.tools.http import Answer, refuse_unless_done, says_not_executed, send


class PublishReportArguments(Arguments):
    channel: Literal["wiki"] = Field(description="Where to publish.")
    report_version: Literal[2] = Field(description="The version of the report. The one with the reference sheet is 2.")
    title: Title
    summary: Summary
    body: Body = ""


class PublishReport(PlainTool):
    """Posts report version 2 to the wiki, which may post it again if it is asked again."""

    key: ClassVar[str] = "publish_report"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = (
        "Publish the report, with what the reference sheet says, on the outside wiki. A person may have to approve it."
    )
    effect_class: ClassVar[EffectClass] = EffectClass.NON_IDEMPOTENT
    timeout_seconds: ClassVar[float] = 15.0
    arguments: ClassVar[type[Arguments]] = PublishReportArguments
    publishes: ClassVar[str] = "wiki"
    look: ClassVar[tuple[tuple[str, str], ...]] = (
        ("The wiki's own counts and posts: is this key there, how often, and since when?", "/"),
        ("The wiki asked for this key. It answers only while its look-up is switched on.", "/wiki/posts?key={key}"),
    )

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Fill in the body, so that whoever approves sees every byte that will be sent. Refuses a body of the model's
        own, and a publication before the first draft.
        """
        post = expect(args, PublishReportArguments)
        if stored.newest(results, "send_answer_part") is None:
            raise ArgumentsRefused("There is no first draft. Call send_answer_part first.")
        report.check_title(post.title, results)
        body = report.body(results, post.summary, cite=report.unlinked, reference=True)
        return post.model_copy(update={"body": filled(post.body, body)})

    def step_label(self, args: Arguments) -> str:
        return f"{SLUG}-v{expect(args, PublishReportArguments).report_version}"

    def draft(self, args: Arguments, results: Sequence[PriorResult]) -> ReportDraft | None:
        """The same report for the console, where each number links to its receipt."""
        post = expect(args, PublishReportArguments)
        body = report.body(results, post.summary, cite=report.linked, reference=True)
        return ReportDraft(SLUG, post.title, body, report.source_calls(body))

    def rests_on(self, args: Arguments, results: Sequence[PriorResult]) -> Collection[UUID]:
        """The calls that its numbers link to."""
        draft = self.draft(args, results)
        return draft.source_calls if draft else ()

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """Post once."""
        post = expect(args, PublishReportArguments)
        answer = send(context, "POST", "/wiki/posts", body=canonical(post.model_dump()))
        refuse_unless_done(answer, reading=False, not_done=says_not_executed)
        return _published(answer)


class PublishReportOnce(PublishReport):
    """The same for a wiki that executes a key once, however often it is asked."""

    key: ClassVar[str] = "publish_report_idempotent"
    effect_class: ClassVar[EffectClass] = EffectClass.IDEMPOTENT
    window_seconds: ClassVar[float] = 3600.0


class PublishReportQueryable(PublishReport):
    """The same for a wiki that can say whether it executed a key."""

    key: ClassVar[str] = "publish_report_queryable"
    effect_class: ClassVar[EffectClass] = EffectClass.QUERYABLE

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        """Look the key up. None where the wiki offers no look-up or gives no usable answer."""
        try:
            answer = send(context, "GET", "/wiki/posts", params={"key": context.idempotency_key})
            refuse_unless_done(answer, reading=True)
            executions = answer.object().get("executions")
            if executions == 0:
                return False
            return _published(answer)
        except (ToolFailed, ToolRetryable, ToolUnknown):
            return None


def _published(answer: Answer) -> ToolOutcome:
    """What the wiki says it did. Raises ToolUnknown if its answer lacks the post's id, page or count."""
    value = answer.object()
    post, page, executions = value.get("id"), value.get("page"), value.get("executions")
    if not (isinstance(post, str) and post and isinstance(page, str) and page and isinstance(executions, int)):
        raise ToolUnknown("The wiki answered, but not with the id and page of a post.")
    return ToolOutcome(
        {"post": post, "page": page, "executions": executions},
        external_ref=post[:200],
        target=f"wiki:{page}"[:200],
        remark=f"The wiki says that it executed this key {executions} times." if executions > 1 else "",
    )
