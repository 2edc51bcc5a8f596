"""GET and POST /waits/<id>/: show one wait whole, decide it, say what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.html import format_html

from accounts.errors import Refused
from accounts.states import Actor
from approvals.models import Wait
from approvals.selectors import access_wait
from approvals.services import Decided, Seen, approval_decide
from approvals.states import DecisionVerdict, can_decide
from checkpoints.selectors import commitments_of
from console.pages.arguments import ArgumentRow
from console.pages.decision.evidence import contract_of, facts_of, last_like, model_words, report_preview
from console.pages.decision.state import Moved, WaitState, closed_notice, wait_url, what_happens, what_moved
from console.pages.notice import Notice, refusal_notice
from console.pages.room import page, panel_asked, respond
from console.pages.stored import Stored, stored_arguments
from console.pages.titles import call_title
from console.pages.tool_facts import tool_facts
from console.templatetags.signalbox import short_id

PANELS = {
    "wait-live": "pages/decision/live.html",
    "wait-facts": "pages/decision/facts.html",
    "wait-gates": "pages/decision/gates.html",
}
OUT_OF_DATE = frozenset({"STALE_REVISION", "ARGS_CHANGED"})


class NotShownInFull(Refused):
    """Nothing was decided. The stored arguments can't be read, so nobody can approve them; they can be rejected."""

    code = "NOT_SHOWN_IN_FULL"


class NotMarkedAsSeen(Refused):
    """Nothing was decided. Approve needs a mark that the odd characters were seen in: {paths}."""

    code = "NOT_MARKED_AS_SEEN"
    status = 400


class UnknownVerdict(Refused):
    """Nothing was decided. A decision is either approve or reject."""

    code = "UNKNOWN_VERDICT"
    status = 400


@dataclass(frozen=True)
class Typed:
    """What the person sent: kept on the page when the decision is refused."""

    verdict: str = ""
    reason: str = ""
    seen: Seen = field(default_factory=lambda: Seen(0, "", ""))
    marked: frozenset[str] = frozenset()

    @property
    def approve_reason(self) -> str:
        return self.reason if self.verdict == DecisionVerdict.APPROVE else ""

    @property
    def reject_reason(self) -> str:
        return self.reason if self.verdict == DecisionVerdict.REJECT else ""


@dataclass(frozen=True)
class OddRow:
    """An argument with odd characters. Its number, not its path, travels in the form."""

    number: str
    row: ArgumentRow
    marked: bool


@page
def wait_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """The page of a wait. A stored decision leads back to it; a refused one shows it again with what was typed."""
    wait = access_wait(actor=actor, id=id)
    arguments = stored_arguments(wait.tool_call)
    typed, refused = _typed(request), None
    if request.method == "POST":
        outcome = _decide(actor, wait, typed, arguments)
        if isinstance(outcome, Decided):
            return redirect(wait_url(wait))
        refused = outcome
        wait = access_wait(actor=actor, id=id)
    state = WaitState(wait, actor)
    context = _state_context(state, typed, refused)
    if not panel_asked(request, PANELS):
        context |= _evidence_context(state, arguments, typed)
    return respond(request, actor, "pages/decision/page.html", context, PANELS, refused.status if refused else 200)


# ── deciding ─────────────────────────────────────────────────────────────────


def _typed(request: HttpRequest) -> Typed:
    sent = request.POST
    revision = sent.get("revision", "")
    number = int(revision) if revision.isdecimal() and len(revision) < 10 else 0
    seen = Seen(number, sent.get("digest", "")[:64], sent.get("args_digest", "")[:64])
    reason = sent.get("reason", "").replace("\r\n", "\n")
    return Typed(sent.get("verdict", ""), reason, seen, frozenset(sent.getlist("marked")))


def _decide(actor: Actor, wait: Wait, typed: Typed, arguments: Stored | None) -> Decided | Refused:
    """Ask the service, after the gates that belong to the page: approving needs all that was to be seen."""
    if typed.verdict not in set(DecisionVerdict):
        return UnknownVerdict()
    verdict = DecisionVerdict(typed.verdict)
    if verdict == DecisionVerdict.APPROVE and can_decide(wait.status):
        gate = _gate(arguments, typed)
        if gate is not None:
            return gate
    return approval_decide(actor=actor, wait_id=wait.id, verdict=verdict, seen=typed.seen, reason=typed.reason)


def _gate(arguments: Stored | None, typed: Typed) -> Refused | None:
    if arguments is None:
        return NotShownInFull()
    missing = [odd.row.path for odd in _odd_rows(arguments, typed) if not odd.marked]
    return NotMarkedAsSeen({"paths": ", ".join(missing)}) if missing else None


def _odd_rows(arguments: Stored | None, typed: Typed) -> list[OddRow]:
    rows = enumerate(arguments.rows if arguments else [])
    return [OddRow(str(number), row, str(number) in typed.marked) for number, row in rows if row.odd]


# ── showing ──────────────────────────────────────────────────────────────────


def _state_context(state: WaitState, typed: Typed, refused: Refused | None) -> dict[str, Any]:
    """What the live panels show."""
    wait = state.wait
    return {
        "title": call_title(wait.tool_call, state.publication),
        "wait": wait,
        "run": wait.run,
        "call": wait.tool_call,
        "state": state,
        "refused": refused,  # a refusal stays until the reader acts, so the panel that holds it is not live
        "notice": _refused_notice(state, typed, refused) if refused else closed_notice(state),
        "moved": _moved(state, typed, refused),
        "happened": what_happens(state),
        "off": _off(state, refused),
        "topic": f"run:{wait.run_id}",
    }


def _refused_notice(state: WaitState, typed: Typed, refused: Refused) -> Notice:
    """The refusal, with the one link that leads on."""
    if refused.code not in OUT_OF_DATE:
        return refusal_notice(refused, form="#approve" if typed.verdict == DecisionVerdict.APPROVE else "#reject")
    current = state.newest or state.wait
    link = format_html("Open the current wait {}", short_id(current.id))
    said = refusal_notice(refused)
    return replace(said, say="What you typed is kept on this page.", url=wait_url(current), link=link)


def _moved(state: WaitState, typed: Typed, refused: Refused | None) -> list[Moved]:
    if refused is not None and refused.code in OUT_OF_DATE:
        return what_moved(state, typed.seen)
    if state.newest is None or state.decision is not None or state.open:
        return []
    wait = state.wait
    return what_moved(state, Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest))


def _off(state: WaitState, refused: Refused | None) -> str:
    """Why both buttons are off, or an empty text."""
    if refused is not None and refused.code in OUT_OF_DATE:
        return "Off: the page was out of date. Open the current wait."
    return state.not_yours if state.open else "Off: this wait is closed."


def _evidence_context(state: WaitState, arguments: Stored | None, typed: Typed) -> Mapping[str, Any]:
    """What does not change while one looks."""
    wait, call = state.wait, state.wait.tool_call
    intent, promises = contract_of(call)
    return {
        "arguments": arguments,
        "odd": _odd_rows(arguments, typed),
        "typed": typed,
        "tool": tool_facts(call, agent_key=wait.run.agent_version.agent.key),
        "like": last_like(wait, arguments) if arguments else None,
        "words": model_words(call),
        "intent": intent,
        "promises": promises,
        "commitments": commitments_of(wait.run_id),
        "facts": facts_of(run_id=wait.run_id, revision=wait.checkpoint_revision),
        "report": report_preview(state.publication),
    }
