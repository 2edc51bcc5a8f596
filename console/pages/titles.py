"""What a call would do or did, as a title: in the inbox, on its own page and on the page of its wait."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from receipts.models import Publication, ToolCall


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


def publications_of(calls: Iterable[UUID]) -> Mapping[UUID, Publication]:
    """The publications that calls make, by call, in one query. The caller has taken the calls from an access selector."""
    made = Publication.objects.select_related("report_version").filter(tool_call__in=list(calls))
    return {publication.tool_call_id: publication for publication in made if publication.tool_call_id}
