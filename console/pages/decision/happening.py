"""What became of a decided call, step by step, and what the run still waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from approvals.states import DecisionVerdict, WaitStatus
from console.pages.decision.state import WaitState, asks, more_answers, wait_url
from console.pages.text import exact
from receipts.models import Attempt


@dataclass(frozen=True)
class Happening:
    """One step of what became of a decided call. `due` has not happened yet."""

    lamp: str
    icon: str
    text: SafeString | str
    why: SafeString | str = ""
    at: datetime | None = None
    due: bool = False


def came_of_it(state: WaitState) -> str:
    """What a decision came to, in place of the name of a state that only says that it was used; else nothing."""
    if state.wait.status != WaitStatus.CONSUMED or state.decision is None:
        return ""
    if state.decision.verdict == DecisionVerdict.APPROVE:
        return "APPROVED AND SENT" if state.attempts else "APPROVED AND USED"
    return "REJECTED AND TOLD"


def what_happens(state: WaitState) -> Sequence[Happening]:
    """What has happened since the decision and what comes next; nothing for a wait that nobody decided."""
    decision = state.decision
    if decision is None or state.wait.status in (WaitStatus.INVALIDATED, WaitStatus.CANCELLED):
        return []
    approved = decision.verdict == DecisionVerdict.APPROVE
    return [*(_approved(state) if approved else _rejected(state)), *_waiting(state)]


def _waiting(state: WaitState) -> list[Happening]:
    """What the run still asks people, each with its link."""
    if not state.waiting:
        return []
    links = format_html_join(
        ", ", '<a href="{}">{}</a>', ((wait_url(one), asks(one, after=state.wait)) for one in state.waiting)
    )
    text = format_html("{}: {}", more_answers(len(state.waiting)), links)
    return [Happening("caution", "caution", text, "It goes on once each of them is decided.")]


def _approved(state: WaitState) -> list[Happening]:
    if state.wait.status == WaitStatus.APPROVED:
        why = "It takes a new lease and checks everything again. If anything moved, nothing is sent and you are asked anew."
        return [
            Happening("neutral", "queued", "A worker takes the run", why, due=True),
            Happening("neutral", "sent", "The call is sent once", due=True),
        ]
    tries = [_tried(attempt) for attempt in state.attempts]
    return [*tries, *_now(state)]


def _tried(attempt: Attempt) -> Happening:
    text = f"Attempt {attempt.attempt_no} was sent, fence {attempt.fence}"
    if attempt.outcome is None:
        return Happening("clear", "sent", text, "No answer yet.", attempt.dispatched_at)
    words = {
        "OK": ("clear", "done", "Answered, and the answer is stored."),
        "ERROR_RETRYABLE": ("caution", "retry", "Answered: not now. The same call is sent again later."),
        "ERROR_FINAL": ("stop", "failed", "Answered: no."),
        "NO_RESPONSE": ("unknown", "unknown", "No answer was stored. It may have happened or not."),
    }
    lamp, icon, why = words[attempt.outcome]
    error = format_html(" {}", exact(attempt.error)) if attempt.error else ""
    return Happening(lamp, icon, text, format_html("{}{}", why, error), attempt.dispatched_at)


def _rejected(state: WaitState) -> list[Happening]:
    if state.wait.status == WaitStatus.REJECTED:
        why = "The call ends as REJECTED with no attempt, and the model is told the reason."
        return [Happening("neutral", "queued", "A worker takes the run", why, due=True)]
    ended = Happening("neutral", "rejected", "The call ended as REJECTED, with no attempt", "The model was told why.")
    return [ended, *_now(state)]


def _now(state: WaitState) -> list[Happening]:
    call, run = state.wait.tool_call, state.wait.run
    link = reverse("call", args=[call.id])
    about = format_html('The call is <a href="{}">{}</a>, its run {}.', link, call.status, run.status)
    there = format_html("There: {}", exact(call.external_ref, one_line=True)) if call.external_ref else ""
    return [Happening("neutral", "flag", about, there)]
