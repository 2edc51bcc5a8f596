"""What became of a question: who answered what, and what follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.html import format_html

from accounts.codec import BodyChanged
from approvals.models import Answer
from approvals.selectors import answer_of, answer_value
from approvals.states import AnswerKind, DecisionVerdict, WaitStatus
from console.pages.decision.happening import Happening
from console.pages.decision.state import WaitState
from console.pages.decision.state import closed_notice as closed_wait_notice
from console.pages.notice import Notice
from console.templatetags.moments import when
from console.templatetags.signalbox import exact, person


@dataclass(frozen=True)
class Said:
    """What a person has answered. `value` is None where the stored bytes were changed. `by` is the person's label."""

    by: str
    at: datetime
    kind: str
    digest: str
    value: Any
    size: int
    labels: Mapping[str, str]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The fields of a form that were answered, as text, each under the label that it had in the form."""
        if not isinstance(self.value, dict):
            return []
        return [(self.labels.get(name, name), _text(value)) for name, value in self.value.items()]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)


def said_of(state: WaitState, labels: Mapping[str, str]) -> Said | None:
    """What was answered, or None. `labels` are those of the form's fields, by their keys."""
    answer, decision = answer_of(state.wait.id), state.decision
    if answer is None or decision is None:
        return None
    return Said(decision.actor, decision.at, answer.kind, answer.digest, _value(answer), answer.size, labels)


def _value(answer: Answer) -> Any:
    try:
        return answer_value(answer)
    except BodyChanged:
        return None


def closed_notice(state: WaitState) -> Notice | None:
    """What to say instead of the lead sentence once the question is closed. None while it can be answered."""
    wait, decision = state.wait, state.decision
    if state.open:
        return None
    if wait.status in (WaitStatus.SUPERSEDED, WaitStatus.INVALIDATED):
        return closed_wait_notice(state)
    if wait.status == WaitStatus.CANCELLED:
        title = format_html("Closed {}: {}.", when(wait.closed_at), exact(wait.status_reason, "line"))
        return Notice("neutral", title, "The model was given no answer.", "CANCELLED")
    if decision is None:
        title = format_html("Nobody answered in time. The time to answer ended {}.", when(wait.deadline))
        return Notice("neutral", title, "The model is told so. Nothing is made up in place of an answer.", "EXPIRED")
    if decision.verdict == DecisionVerdict.DECLINE:
        title = format_html("{} declined to answer, {}.", person(decision.actor), when(decision.at))
        return Notice("neutral", title, format_html("“{}”", exact(decision.reason)))
    title = format_html("{} answered, {}.", person(decision.actor), when(decision.at))
    return Notice("clear", title, "The answer is that person’s word. It allows nothing by itself.")


def what_happens(state: WaitState) -> Sequence[Happening]:
    """What follows from an answer, or from none; nothing while the question is open or was taken back."""
    wait, decision = state.wait, state.decision
    if state.open or wait.status in (WaitStatus.INVALIDATED, WaitStatus.CANCELLED, WaitStatus.SUPERSEDED):
        return []
    answered = decision is not None and decision.verdict == DecisionVerdict.ANSWER
    if wait.status in (WaitStatus.ANSWERED, WaitStatus.REJECTED):
        why = (
            "The model reads it as the result of its question." if answered else "The model is told why there is none."
        )
        return [Happening("neutral", "queued", "A worker takes the run", why, due=True)]
    call, run = wait.tool_call, wait.run
    about = format_html(
        'The question is <a href="{}">{}</a>, its run {}.', reverse("call", args=[call.id]), call.status, run.status
    )
    return [Happening("clear" if answered else "neutral", "flag", about)]


def is_file(said: Said | None) -> bool:
    """Whether the answer is a file that can be saved."""
    return said is not None and said.kind == AnswerKind.FILE and said.value is not None
