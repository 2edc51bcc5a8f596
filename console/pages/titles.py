"""What a call would do or did, as a title: in the inbox, on its own page and on the page of its wait."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from approvals.models import Wait
from approvals.states import WaitKind
from console.pages.stored import stored_arguments
from receipts.models import Publication, ToolCall
from runtime.masking import Masks

QUESTION_CHARACTERS = 120


def call_title(call: ToolCall, publication: Publication | None) -> str:
    """What a call does. One that publishes nothing is called by its step."""
    if publication is None:
        return call.step_name
    return f"Publish report v{publication.report_version.version_no} on the {publication.channel}"


def call_question(call: ToolCall, publication: Publication | None) -> str:
    """What somebody has to find out of a call of unknown outcome."""
    if publication is None:
        return f"Did {call.step_name} happen?"
    return f"Was report v{publication.report_version.version_no} published on the {publication.channel}?"


def question_titles(waits: Iterable[Wait], masks: Masks) -> Mapping[UUID, str]:
    """What each of these waits asks people, in the model's own words and shortened, by its call, in one query. Not there for what is no
    question, and for one whose stored bytes are not its own any more.
    """
    asked = {wait.tool_call_id for wait in waits if wait.kind == WaitKind.QUESTION}
    calls = ToolCall.objects.filter(id__in=asked).select_related("run") if asked else []
    stored = {call.id: stored_arguments(call, masks.of(call)) for call in calls}
    return {id: _shortened(one.value["question"]) for id, one in stored.items() if one is not None and one.intact}


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line}”" if len(line) <= QUESTION_CHARACTERS else f"“{line[:QUESTION_CHARACTERS]}…”"


def publications_of(calls: Iterable[UUID]) -> Mapping[UUID, Publication]:
    """The publications that calls make, by call, in one query. The caller has taken the calls from an access selector."""
    made = Publication.objects.select_related("report_version").filter(tool_call__in=list(calls))
    made = made.only("channel", "tool_call", "report_version__version_no")
    return {publication.tool_call_id: publication for publication in made if publication.tool_call_id}
