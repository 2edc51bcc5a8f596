"""What the server says about a call: its title, the sentence under it, and the strip of facts."""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.pages import signs
from console.pages.call.facts import CallFacts
from console.pages.titles import call_question, call_title
from console.pages.units import NAMES, amount
from console.templatetags.moments import age, to_go, when
from console.templatetags.signalbox import effect, exact, person, state_chip
from receipts.models import Result
from receipts.states import CallStatus
from runs.states import BudgetEntryKind, BudgetUnit

MOVED = {
    BudgetEntryKind.RESERVE: "reserved",
    BudgetEntryKind.HOLD_UNKNOWN: "held back",
    BudgetEntryKind.SETTLE: "spent",
    BudgetEntryKind.RELEASE: "given back",
    BudgetEntryKind.OVERRUN: "beyond what was reserved",
}


@dataclass(frozen=True)
class Shown:
    """One fact of the strip."""

    label: str
    value: SafeString | str
    then: SafeString | str = ""


def title_of(facts: CallFacts) -> str:
    """What the call is; for one of unknown outcome, the question that somebody has to answer."""
    return (call_question if facts.uncertain else call_title)(facts.call, facts.publication)


def lead_of(facts: CallFacts) -> SafeString | str:
    """One or two sentences: what is known, and what happens with it."""
    call = facts.call
    if facts.uncertain:
        return _unknown(facts)
    if facts.never_sent:
        return format_html("Never sent: {}.", exact(call.error or "no reason was stored", "line"))
    if call.status == CallStatus.AWAITING_APPROVAL and facts.open_wait:
        link = reverse("wait", args=[facts.open_wait.id])
        waits = 'Nothing is sent. It <a href="{}">waits for a decision</a>, {}.'
        return format_html(waits, link, to_go(facts.open_wait.deadline, "its time is up"))
    if call.status == CallStatus.AWAITING_INPUT and facts.open_wait:
        link = reverse("wait", args=[facts.open_wait.id])
        waits = 'A question. It <a href="{}">waits for an answer</a>, {}.'
        return format_html(waits, link, to_go(facts.open_wait.deadline, "its time is up"))
    if facts.result is not None:
        return _known(facts, facts.result)
    return _on_its_way(facts)


def _unknown(facts: CallFacts) -> SafeString:
    sent = when(facts.last.dispatched_at) if facts.last else "before"
    lead = format_html("It was sent {} and no answer was stored. It may have happened or not.", sent)
    if facts.said_finally:
        return format_html("{} A verdict stands, evidence speaks against it, and the run went on without it.", lead)
    if facts.gone_on is not None:
        said = "{} {} said {}: still unknown, go on without it. Nothing waits for it. It will not be sent again; whoever learns more can still say so below."
        return format_html(said, lead, person(facts.gone_on.actor), when(facts.gone_on.at))
    if not facts.call.blocking:
        return format_html(
            "{} The run went on without it. It will not be sent again; a verdict can still be given.", lead
        )
    if facts.call.run.status == "HELD" or facts.ended:
        return format_html("{} It will not be sent again until a person says what is known.", lead)
    return format_html("{} {}.", lead, signs.EFFECT[facts.call.effect_class].no_answer)


def _known(facts: CallFacts, result: Result) -> SafeString:
    verdict = result.reconciliation
    if result.source == "HUMAN" and verdict is not None:
        said = "it happened" if result.ok else "it did not happen"
        return format_html(
            "{} says that {}. Nobody observed it here. It is never sent again.", person(verdict.actor), said
        )
    if result.source == "PROBE":
        said = "it happened" if result.ok else "it did not happen"
        return format_html("The other side was asked by its key {} and says that {}.", when(result.at), said)
    if result.answered_wait_id is not None:
        link = reverse("wait", args=[result.answered_wait_id])
        said = 'A question. <a href="{}">A person answered it</a>, {}; the answer is that person’s word.'
        return format_html(said, link, when(result.at))
    if not result.ok:
        return format_html("Known not to have worked, {}: {}.", when(result.at), exact(facts.call.error, "line"))
    return format_html("Answered {}. The answer is stored, so it is never sent again.", when(result.at))


def _on_its_way(facts: CallFacts) -> SafeString | str:
    last = facts.last
    if facts.call.contradicted:
        return "Evidence speaks against what was accepted. It is not sent while the flag is open."
    if facts.call.status == CallStatus.DISPATCHED and last is not None:
        return format_html("Attempt {} was sent {} ago and has not answered.", last.attempt_no, age(last.dispatched_at))
    if facts.call.status == CallStatus.RETRY_WAIT and facts.call.retry_at:
        return format_html("It is sent again {}, with the same key.", when(facts.call.retry_at))
    return f"{signs.CALL[facts.call.status].means}."


def strip_of(facts: CallFacts) -> list[Shown]:
    """At most six facts; the first is what has been open longest."""
    call, run = facts.call, facts.call.run
    proposer = person(call.author) if call.author else f"turn {call.turn_no}"
    shown = [Shown("Written anew" if call.author else "Proposed", when(call.created_at), proposer)]
    if facts.uncertain and facts.last:
        shown = [Shown("Open for", age(facts.last.dispatched_at))]
    blocks = facts.uncertain and call.blocking and not facts.ended
    return [
        *shown,
        Shown("Effect class", effect(call.effect_class)),
        Shown("Attempts", str(call.attempts), _last_outcome(facts)),
        Shown("Blocks" if blocks else "Its run", state_chip("run", run.status), "its run" if blocks else ""),
        Shown("Budget", *_budget(facts)),
        Shown("Verdicts", str(len(facts.verdicts)) if facts.verdicts else "none"),
    ]


def _last_outcome(facts: CallFacts) -> str:
    if facts.last is None:
        return "never sent"
    return {None: "no answer yet", "OK": "answered", "NO_RESPONSE": "no answer"}.get(facts.last.outcome, "refused")


def _budget(facts: CallFacts) -> tuple[str, str]:
    """What the newest attempt has of the run's budget: reserved, held back, spent or given back."""
    moved = [
        (entry.amounts[BudgetUnit.TOOL_CALLS], entry.kind)
        for entry in facts.budget
        if entry.attempt_no == facts.call.attempts and BudgetUnit.TOOL_CALLS in entry.amounts
    ]
    if not moved:
        return "nothing", ""
    count, kind = moved[-1]
    return _amount(BudgetUnit.TOOL_CALLS, count), MOVED[BudgetEntryKind(kind)]


def _amount(unit: str, moved: int) -> str:
    if unit in (BudgetUnit.USD_MICROS, BudgetUnit.WALL_MS):
        return amount(unit, moved)
    name = NAMES[BudgetUnit(unit)]
    return f"{moved} {name.removesuffix('s') if moved == 1 else name}"


def budget_lines(facts: CallFacts) -> list[tuple[datetime, str]]:
    """Every movement of the run's budget for this call, in order."""
    return [
        (entry.at, f"attempt {entry.attempt_no}: {_amount(unit, moved)} {MOVED[BudgetEntryKind(entry.kind)]}")
        for entry in facts.budget
        for unit, moved in entry.amounts.items()
    ]
