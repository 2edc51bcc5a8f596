"""GET and POST /waits/<id>/: show one wait whole, decide it, say what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.sessions.backends.base import SessionBase, UpdateError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from accounts.errors import Refused, SessionOver
from accounts.selectors import CONFIRMED
from accounts.services import actor_confirm
from accounts.states import Actor, Permission
from approvals.errors import UnknownVerdict
from approvals.models import Wait
from approvals.selectors import access_wait
from approvals.services import Decided, Seen, Voted, wait_looked
from approvals.states import DecisionVerdict, WaitKind
from checkpoints.states import CommitmentStatus
from console.look import looks
from console.pages.arguments import ArgumentRow
from console.pages.decision.claims import claim_points
from console.pages.decision.compared import as_read, compared_points, compared_with
from console.pages.decision.earlier import Earlier, earlier_of
from console.pages.decision.evidence import (
    Ground,
    facts_of,
    ground_of,
    last_like,
    model_words,
    promises_of,
    report_preview,
)
from console.pages.decision.goal import beside_the_title, goal_points
from console.pages.decision.happening import came_of_it, what_happens
from console.pages.decision.lapsing import held_facts, lapsed_point, relied_on
from console.pages.decision.points import Point, points_of
from console.pages.decision.redefined import redefined
from console.pages.decision.reread import readings_of, reread_points
from console.pages.decision.state import Moved, WaitState, asks, closed_notice, more_answers, wait_url, what_moved
from console.pages.notice import Notice, refusal_notice
from console.pages.question.page import question_page
from console.pages.room import page, panel_asked, respond
from console.pages.stored import Stored, stored_arguments
from console.pages.titles import call_title
from console.pages.tool_facts import tool_facts
from console.templatetags.moments import short_id
from runs.states import can_stop
from runtime.masking import Masks
from runtime.services import wait_decide

PANELS = {
    "wait-live": "pages/decision/live.html",
    "wait-facts": "pages/decision/facts.html",
    "wait-gates": "pages/decision/gates.html",
}
CLOSED = mark_safe('Off: this wait is closed. <a href="#wait-live">What came of it</a>')
OUT_OF_DATE = frozenset({"STALE_REVISION", "ARGS_CHANGED"})


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
    """The page of a wait; a question has one of its own. A stored decision leads back to it; a refused one shows it again with what was typed."""
    wait = access_wait(actor=actor, id=id)
    if wait.kind == WaitKind.QUESTION:
        return question_page(request, actor, wait)
    state = WaitState(wait, actor)
    masks = Masks(actor, policy=state.found.policy)
    arguments = stored_arguments(wait.tool_call, masks.of(wait.tool_call, run=wait.run))
    typed, refused = _typed(request), None
    whole = not panel_asked(request, PANELS)
    if request.method == "POST":
        outcome = _decide_confirmed(request, actor, wait, typed, arguments)
        if not isinstance(outcome, Refused):
            if isinstance(outcome, Voted):
                messages.success(request, _voted(outcome), extra_tags="is-clear")
            return redirect(request.get_full_path())
        refused = outcome
        wait = access_wait(actor=actor, id=id)
        state = WaitState(wait, actor)
    elif whole and arguments is not None and not arguments.masked and looks(request):
        wait_looked(actor=actor, wait_id=wait.id)
    context = _state_context(state, typed, refused)
    if whole:
        context |= _evidence_context(state, arguments, typed)
        masks.tell()
    return respond(request, actor, "pages/decision/page.html", context, PANELS, refused.status if refused else 200)


# ── deciding ─────────────────────────────────────────────────────────────────


def _typed(request: HttpRequest) -> Typed:
    sent = request.POST
    revision = sent.get("revision", "")
    number = int(revision) if revision.isdecimal() and len(revision) < 10 else 0
    seen = Seen(number, sent.get("digest", "")[:64], sent.get("args_digest", "")[:64])
    reason = sent.get("reason", "").replace("\r\n", "\n")
    return Typed(sent.get("verdict", ""), reason, seen, frozenset(sent.getlist("marked")))


def _decide_confirmed(
    request: HttpRequest, actor: Actor, wait: Wait, typed: Typed, arguments: Stored | None
) -> Decided | Voted | Refused:
    """Decide, with the password that was given in the form where one was asked for; the session keeps when that was."""
    password = request.POST.get("password", "")
    if not password or not wait.step_up:
        return _decide(actor, wait, typed, arguments)
    confirmed = actor_confirm(actor=actor, password=password)
    if isinstance(confirmed, Refused):
        return confirmed
    if confirmed.confirmed_at is not None and not _kept(request.session, confirmed.confirmed_at):
        return SessionOver()
    return _decide(confirmed, wait, typed, arguments)


def _kept(session: SessionBase, confirmed_at: datetime) -> bool:
    """Keep when the password was given, before anything is decided: a session that ends meanwhile can't be saved at the end of
    the request, and the answer would say that nothing was stored. False where it has ended.
    """
    session[CONFIRMED] = confirmed_at.isoformat()
    try:
        session.save()
    except UpdateError:
        return False
    finally:
        session.modified = False
    return True


def _decide(actor: Actor, wait: Wait, typed: Typed, arguments: Stored | None) -> Decided | Voted | Refused:
    """Ask the service, and say to it what this page did not show whole, or what was not marked as seen on it."""
    if typed.verdict not in set(DecisionVerdict):
        return UnknownVerdict()
    seen = replace(typed.seen, not_shown=_not_shown(arguments, typed))
    return wait_decide(
        actor=actor, wait_id=wait.id, verdict=DecisionVerdict(typed.verdict), seen=seen, reason=typed.reason
    )


def _voted(vote: Voted) -> str:
    """What a person is told whose approval is stored and was not the last one needed."""
    left = vote.quorum - vote.given
    more = "one more person has" if left == 1 else f"{left} more people have"
    return f"Your approval is stored. Nothing is sent yet: {more} to approve. Until then you can take it back."


def _not_shown(arguments: Stored | None, typed: Typed) -> tuple[str, ...]:
    """The paths of the arguments that can't be read, are masked, or hold odd characters that nobody has marked as seen."""
    if arguments is None:
        return ("$",)
    return (*arguments.masked, *(odd.row.path for odd in _odd_rows(arguments, typed) if not odd.marked))


def _odd_rows(arguments: Stored | None, typed: Typed) -> list[OddRow]:
    rows = enumerate(arguments.rows if arguments else [])
    return [OddRow(str(number), row, str(number) in typed.marked) for number, row in rows if row.odd]


# ── showing ──────────────────────────────────────────────────────────────────


def _state_context(state: WaitState, typed: Typed, refused: Refused | None) -> dict[str, Any]:
    """What the live panels show."""
    wait, goal = state.wait, state.since.intents[-1].goal
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
        **beside_the_title(goal),
        "came_of_it": came_of_it(state),
        "more": more_answers(len(state.waiting)),
        "others": [(one, asks(one, after=wait)) for one in state.waiting],
        "may_stop": state.actor.may(Permission.STOP) and can_stop(wait.run.status, False),
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


def _off(state: WaitState, refused: Refused | None) -> SafeString | str:
    """Why both buttons are off, or an empty text."""
    if refused is not None and refused.code in OUT_OF_DATE:
        return "Off: the page was out of date. Open the current wait."
    if state.open and state.redefined:
        return "Off: the tool was defined anew after this was asked. The run asks again once it is pinned to it."
    return state.not_yours if state.open else CLOSED


def _evidence_context(state: WaitState, arguments: Stored | None, typed: Typed) -> Mapping[str, Any]:
    """What does not change while one looks."""
    wait, call = state.wait, state.wait.tool_call
    ground = ground_of(wait)
    masks = Masks(policy=state.found.policy)
    agent = wait.run.agent_version.agent.key
    facts = facts_of(state.found.checkpoint, masks)
    held = held_facts(facts.facts, agent_key=agent, let_go=state.lapsed)
    shown = _shown_to_anybody(wait, arguments, masks)
    compared = compared_with(shown, held)
    words = model_words(wait.run, ground, masks)
    readings = readings_of(state.lapsed, held)
    earlier = earlier_of(ground.asked, masks)
    tool = tool_facts(call, agent_key=agent)
    found = (
        reread_points(readings),
        lapsed_point(held, relied_on(call, arguments, facts, agent_key=agent)),
        compared_points(compared),
        goal_points(state.since.intents[-1].goal, _terms(ground), shown),
        claim_points(words[1] if words else "", shown, by_person=bool(call.author)),
        _points(wait, arguments, shown, earlier, as_read(compared)),
    )
    return {
        "arguments": arguments,
        "points": [point for points in found for point in points] if state.open else [],
        "held": held,
        "compared": compared,
        "readings": readings,
        "odd": _odd_rows(arguments, typed),
        "typed": typed,
        "tool": tool,
        "redefined": redefined(call, earlier, tool.says) if state.open else None,
        "like": last_like(wait, ground, masks) if arguments else None,
        "words": words,
        "intent": state.since.intents[-1],
        "promises": promises_of(call, ground),
        "commitments": ground.commitments,
        "facts": facts,
        "report": report_preview(state.publication, ground),
    }


def _shown_to_anybody(wait: Wait, arguments: Stored | None, masks: Masks) -> Stored | None:
    """What anybody may be shown of the arguments, where they are the recorded ones. `masks`: those of nobody."""
    if arguments is None or not arguments.intact:
        return None
    return stored_arguments(wait.tool_call, masks.of(wait.tool_call, run=wait.run))


def _terms(ground: Ground) -> list[str]:
    """The constraints and assumptions that hold."""
    return [term.statement for term in ground.commitments if term.status == CommitmentStatus.LIVE]


def _points(
    wait: Wait, arguments: Stored | None, shown: Stored | None, earlier: Sequence[Earlier], read: Mapping[str, str]
) -> list[Point]:
    """What stands out against what people have decided before."""
    if arguments is None or shown is None:
        return []
    return points_of(wait.tool_call, arguments.rows, shown, earlier, read)
