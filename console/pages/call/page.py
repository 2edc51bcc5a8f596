"""GET and POST /calls/<id>/: show one call whole; take a verdict on it when nobody knows its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from accounts.errors import Invalid, Refused
from accounts.states import Actor
from console.pages.call.facts import CallFacts
from console.pages.call.say import budget_lines, lead_of, strip_of, title_of
from console.pages.notice import refusal_notice
from console.pages.room import page, panel_asked, respond
from console.pages.tool_facts import tool_facts
from receipts.models import ToolCall
from receipts.selectors import access_call
from receipts.states import FollowUp, Verdict
from runtime.services import Reconciled, VerdictRequest, call_reconcile

PANELS = {"call-live": "pages/call/live.html"}
STORED = {
    Verdict.EXECUTED: "Stored: it happened, on your word. Nothing is sent.",
    Verdict.NOT_EXECUTED: "Stored: it did not happen, on your word.",
    Verdict.PROCEED_UNKNOWN: "Stored: still unknown. The run goes on without it.",
}


@dataclass(frozen=True)
class TypedVerdict:
    """What the person sent: kept on the page when the verdict is refused."""

    verdict: str
    then: str
    external_ref: str
    evidence: str
    attempts: str


@page
def call_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """The page of a call. A stored verdict leads back to it; a refused one shows it again with what was typed."""
    call = access_call(actor=actor, id=id)
    typed, refused = _typed(request), None
    if request.method == "POST":
        outcome = _reconcile(actor, call, typed)
        if isinstance(outcome, Reconciled):
            messages.success(request, STORED[Verdict(outcome.verdict)], extra_tags="is-clear")
            return redirect("call", id=id)
        refused = outcome
        call = access_call(actor=actor, id=id)
    facts = CallFacts(call, actor)
    context = {
        **_context(facts),
        "typed": typed,
        "refused": refusal_notice(refused, form="#verdict") if refused else None,
    }
    if not panel_asked(request, PANELS):
        context |= _around(facts)
    return respond(request, actor, "pages/call/page.html", context, PANELS, refused.status if refused else 200)


def _typed(request: HttpRequest) -> TypedVerdict:
    sent = request.POST
    return TypedVerdict(
        verdict=sent.get("verdict", ""),
        then=sent.get("then", ""),
        external_ref=sent.get("external_ref", ""),
        evidence=sent.get("evidence", "").replace("\r\n", "\n"),
        attempts=sent.get("attempts", ""),
    )


def _reconcile(actor: Actor, call: ToolCall, typed: TypedVerdict) -> Reconciled | Refused:
    """Ask the service. What belongs to a verdict that was not chosen is left out."""
    if typed.verdict not in set(Verdict):
        return Invalid({"field": "verdict", "reason": "choose one of the three; none is chosen for you."})
    verdict = Verdict(typed.verdict)
    follow_up = FollowUp.NONE
    if verdict == Verdict.NOT_EXECUTED:
        if typed.then not in {FollowUp.RETRY, FollowUp.FAIL}:
            return Invalid({"field": "and then", "reason": "choose whether it is sent again."})
        follow_up = FollowUp(typed.then)
    said = VerdictRequest(
        verdict=verdict,
        evidence=typed.evidence,
        external_ref=typed.external_ref if verdict == Verdict.EXECUTED else "",
        follow_up=follow_up,
        seen_attempts=int(typed.attempts) if typed.attempts.isdecimal() and len(typed.attempts) < 6 else 0,
    )
    return call_reconcile(actor=actor, call_id=call.id, said=said)


def _context(facts: CallFacts) -> dict[str, Any]:
    """What the live panel shows."""
    call = facts.call
    return {
        "facts": strip_of(facts),
        "budget": budget_lines(facts),
        "shown": facts,
        "call": call,
        "run": call.run,
        "title": title_of(facts),
        "lead": lead_of(facts),
        "topic": f"run:{call.run_id}",
    }


def _around(facts: CallFacts) -> Mapping[str, Any]:
    """What only the whole page shows."""
    return {"tool": tool_facts(facts.call, agent_key=facts.call.run.agent_version.agent.key)}
