"""GET and POST /waits/<id>/ of a question: show it whole, take the answer or the reason for none, say what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.safestring import SafeString, mark_safe

from accounts.errors import Refused
from accounts.states import Actor
from approvals.errors import InvalidAnswer
from approvals.models import Wait
from approvals.questions import Question, question_of
from approvals.selectors import access_answer_file, access_wait
from approvals.services import (
    FILE_BYTES,
    Declined,
    FileGiven,
    FormGiven,
    Given,
    QuestionAnswered,
    Seen,
    TextGiven,
    question_answer,
    wait_looked,
)
from approvals.states import AnswerKind, DecisionVerdict
from console.api.view import file_response
from console.look import looks
from console.pages.decision.goal import beside_the_title
from console.pages.decision.state import WaitState, asks, more_answers, wait_url, what_moved
from console.pages.notice import Notice, refusal_notice
from console.pages.question.form import Shown, sent_fields, shown_fields
from console.pages.question.say import closed_notice, said_of, what_happens
from console.pages.room import page, panel_asked, respond
from console.pages.stored import stored_arguments
from console.pages.tool_facts import has_own_form
from console.templatetags.moments import short_id
from runtime.masking import Mask, Masks

PANELS = {"wait-live": "pages/question/live.html", "wait-facts": "pages/question/facts.html"}
CLOSED = mark_safe('Off: this question is closed. <a href="#wait-live">What came of it</a>')
OUT_OF_DATE = frozenset({"STALE_REVISION", "ARGS_CHANGED", "POLICY_CHANGED"})


@dataclass(frozen=True)
class Typed:
    """What the person sent, kept on the page when it is refused."""

    verdict: str = ""
    text: str = ""
    reason: str = ""


@page
def answer_file(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET /waits/<id>/answer/: the file that answered a question, to be saved."""
    given = access_answer_file(actor=actor, wait_id=id)
    return file_response(given.filename, given.data)


def question_page(request: HttpRequest, actor: Actor, wait: Wait) -> HttpResponseBase:
    """The page of a question. A stored answer leads back to it; a refused one shows it again with what was typed."""
    masks = Masks(actor)
    mask = masks.of(wait.tool_call, run=wait.run)
    asked = _asked(wait, mask)
    masks.tell()
    refused: Refused | None = None
    whole = not panel_asked(request, PANELS)
    if request.method == "POST" and asked is not None:
        outcome = _answer(request, actor, wait, asked)
        if not isinstance(outcome, Refused):
            return redirect(wait_url(wait))
        refused = outcome
        wait = access_wait(actor=actor, id=wait.id)
    elif whole and asked is not None and not mask.paths and looks(request):
        wait_looked(actor=actor, wait_id=wait.id)
    context = _context(request, WaitState(wait, actor), asked, refused)
    return respond(request, actor, "pages/question/page.html", context, PANELS, refused.status if refused else 200)


def _asked(wait: Wait, mask: Mask) -> Question | None:
    """The question as it is shown; None where its stored bytes are not those that were recorded, or how to answer is masked."""
    stored = stored_arguments(wait.tool_call, mask)
    if stored is None or not stored.intact or not {"question", "why"}.issuperset(mask.paths):
        return None
    return question_of(stored.text.encode())


# ── answering ────────────────────────────────────────────────────────────────


def _answer(request: HttpRequest, actor: Actor, wait: Wait, asked: Question) -> QuestionAnswered | Refused:
    sent = request.POST
    revision = sent.get("revision", "")
    number = int(revision) if revision.isdecimal() and len(revision) < 10 else 0
    seen = Seen(number, sent.get("digest", "")[:64], sent.get("args_digest", "")[:64])
    return question_answer(actor=actor, wait_id=wait.id, seen=seen, given=_given(request, asked))


def _given(request: HttpRequest, asked: Question) -> Given:
    typed = _typed(request.POST)
    if typed.verdict == DecisionVerdict.DECLINE:
        return Declined(typed.reason)
    if asked.form is not None:
        return FormGiven(sent_fields(asked.form, request.POST))
    if asked.kind == AnswerKind.TEXT:
        return TextGiven(typed.text)
    file = request.FILES.get("file")
    return FileGiven(file.name or "", file.read(FILE_BYTES + 1)) if file else FileGiven("", b"")


def _typed(sent: QueryDict) -> Typed:
    text, reason = (sent.get(name, "").replace("\r\n", "\n") for name in ("text", "reason"))
    return Typed(sent.get("verdict", ""), text, reason)


# ── showing ──────────────────────────────────────────────────────────────────


def _context(request: HttpRequest, state: WaitState, asked: Question | None, refused: Refused | None) -> dict[str, Any]:
    wait = state.wait
    faults: Mapping[str, str] = refused.facts.get("fields", {}) if refused else {}
    sent = request.POST if request.method == "POST" else None
    fields = shown_fields(asked.form, sent, faults) if asked and asked.form else []
    return {
        "wait": wait,
        "run": wait.run,
        "call": wait.tool_call,
        "state": state,
        "asked": asked,
        "fields": fields,
        "faults": faults,
        "typed": _typed(request.POST),
        "refused": refused,
        "notice": _refused_notice(state, refused, fields) if refused else closed_notice(state),
        "moved": _moved(state, refused),
        "more": more_answers(len(state.waiting)),
        "others": [(one, asks(one, after=wait)) for one in state.waiting],
        "happened": what_happens(state),
        "said": said_of(state, {one.name: one.label for one in fields}),
        "off": _off(state, asked, refused),
        "limit": FILE_BYTES // 1024,
        "proposer": "Usual, by the tool’s owner" if has_own_form(wait.tool_call) else "Proposed by the model",
        "topic": f"run:{wait.run_id}",
        **beside_the_title(state.since.intents[-1].goal),
    }


def _refused_notice(state: WaitState, refused: Refused, fields: Sequence[Shown]) -> Notice:
    if refused.code not in OUT_OF_DATE or state.newest is None:
        return refusal_notice(_titled(refused, fields), form="#answer")
    said = refusal_notice(refused)
    link = f"Open the current question {short_id(state.newest.id)}"
    return Notice(
        said.lamp,
        said.title,
        "What you typed is kept on this page.",
        said.code,
        wait_url(state.newest),
        link,
        alert=True,
    )


def _titled(refused: Refused, fields: Sequence[Shown]) -> Refused:
    """The same refusal, naming each field as the page does and not by its key."""
    faults: Mapping[str, str] = refused.facts.get("fields", {})
    titles = {one.name: f"{one.label}: " for one in fields}
    said = "; ".join(f"{titles.get(name, '')}{why.rstrip('.')}" for name, why in faults.items())
    return InvalidAnswer({"field": next(iter(faults)), "said": f"{said}.", "fields": faults}) if faults else refused


def _moved(state: WaitState, refused: Refused | None) -> list[Any]:
    if state.newest is None or state.decision is not None or state.open:
        return []
    wait = state.wait
    return what_moved(state, Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest))


def _off(state: WaitState, asked: Question | None, refused: Refused | None) -> SafeString | str:
    """Why both buttons are off, or an empty text."""
    if asked is None:
        return "Off: the stored question was changed. The run has to be stopped or asked again."
    if refused is not None and refused.code in OUT_OF_DATE:
        return "Off: the page was out of date. Open the current question."
    return state.not_yours if state.open else CLOSED
