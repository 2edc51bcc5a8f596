"""GET and POST /calls/<id>/: show one call whole; take a verdict on it when nobody knows its outcome."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.errors import Invalid, Refused
from accounts.states import Actor
from console.api.calls import attachment_response
from console.pages.call.facts import CallFacts
from console.pages.call.say import budget_lines, lead_of, strip_of, title_of
from console.pages.notice import refusal_notice
from console.pages.room import page, respond
from console.pages.tool_facts import tool_facts
from receipts.models import ToolCall
from receipts.selectors import access_attachment, access_call
from receipts.states import ATTACHMENT_BYTES, FollowUp, Found, Verdict
from runtime.services import (
    Attached,
    Probed,
    Reconciled,
    Upload,
    VerdictRequest,
    call_attach,
    call_probe,
    call_reconcile,
    can_probe,
)

PANELS = {"call-live": "pages/call/live.html"}
STORED = {
    Verdict.EXECUTED: "Stored: it happened, on your word. Nothing is sent.",
    Verdict.NOT_EXECUTED: "Stored: it did not happen, on your word.",
    Verdict.PROCEED_UNKNOWN: "Stored: still unknown. The run goes on without it.",
}
FOUND = {
    Found.THERE: "The other side was asked, and the key is there.",
    Found.NOT_THERE: "The other side was asked, and the key is not there.",
    Found.UNTOLD: "The other side was asked, and can't tell.",
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
        outcome = _done(request, actor, call, typed)
        if not isinstance(outcome, Refused):
            say, lamp = _stored(outcome)
            messages.success(request, say, extra_tags=lamp)
            return redirect(request.get_full_path())
        refused = outcome
        call = access_call(actor=actor, id=id)
    facts = CallFacts(call, actor)
    if asks_for_decision(request) and facts.open_wait is not None:
        return _led_to(request, reverse("wait", args=[facts.open_wait.id]))
    context = {
        **_context(facts),
        "typed": typed,
        "led": asks_for_decision(request) and not facts.attempts and not facts.ended,
        "refused": refusal_notice(refused, form="#verdict") if refused else None,
    }
    facts.masks.tell()
    return respond(request, actor, "pages/call/page.html", context, PANELS, refused.status if refused else 200)


def asks_for_decision(request: HttpRequest) -> bool:
    """Whether somebody who has just written a call anew waits here for its decision to be opened."""
    return request.method == "GET" and request.GET.get("then") == "decision"


def _led_to(request: HttpRequest, url: str) -> HttpResponseBase:
    """Go on to another page: also from a panel that asked for itself, which takes the whole page with it."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Redirect": url})
    return redirect(url)


@page
def call_attachment(request: HttpRequest, actor: Actor, id: UUID, attachment: UUID) -> HttpResponseBase:
    """GET /calls/<id>/attachments/<attachment>/: a file beside a call, to be saved."""
    return attachment_response(access_attachment(actor=actor, call_id=id, id=attachment))


def _done(
    request: HttpRequest, actor: Actor, call: ToolCall, typed: TypedVerdict
) -> Probed | Attached | Reconciled | Refused:
    """Do what was sent: have somebody asked, put a file beside the call, or store the verdict."""
    how = request.POST.get("how")
    if how == "probe":
        return _probe(actor, call, typed)
    if how == "attach":
        file = request.FILES.get("file")
        given = Upload(file.name or "", file.read(ATTACHMENT_BYTES + 1)) if file else Upload("", b"")
        return call_attach(actor=actor, call_id=call.id, file=given, note=request.POST.get("note", ""))
    return _reconcile(actor, call, typed)


def _probe(actor: Actor, call: ToolCall, typed: TypedVerdict) -> Probed | Refused:
    """Have somebody asked once. It stores evidence and no verdict."""
    return call_probe(actor=actor, call_id=call.id, attempts=_attempt(typed))


def _stored(outcome: Probed | Attached | Reconciled) -> tuple[str, str]:
    """What is said after an act, and how it is lit."""
    if isinstance(outcome, Attached):
        return f"The file is beside the call, under its digest {outcome.sha256[:12]}.", "is-clear"
    if isinstance(outcome, Reconciled) and not outcome.settled:
        return "Your word is stored, and settles nothing yet: a second person has to say the same.", "is-caution"
    if isinstance(outcome, Reconciled):
        return STORED[Verdict(outcome.verdict)], "is-clear"
    return f"{FOUND[outcome.found]} It is evidence below, and no verdict was given.", "is-unknown"


def _attempt(typed: TypedVerdict) -> int:
    return int(typed.attempts) if typed.attempts.isdecimal() and len(typed.attempts) < 6 else 0


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
            return Invalid({"field": "then", "reason": "choose whether it is sent again."})
        follow_up = FollowUp(typed.then)
    said = VerdictRequest(
        verdict=verdict,
        evidence=typed.evidence,
        external_ref=typed.external_ref if verdict == Verdict.EXECUTED else "",
        follow_up=follow_up,
        seen_attempts=_attempt(typed),
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
        "askable": can_probe(call),
        "tool": tool_facts(call, agent_key=call.run.agent_version.agent.key),
    }
