"""How long the facts hold that a call rests on: each for the half-life that its tool declares, by the database's clock."""

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils.html import format_html, format_html_join

from checkpoints.models import Lapse
from console.pages.decision.evidence import Facts
from console.pages.decision.points import Point
from console.pages.resting import RestingFact
from console.pages.stored import Stored
from console.pages.text import exact
from console.templatetags.signalbox import seconds
from receipts.models import ToolCall
from receipts.selectors import observed_before_half_life
from runtime.contracts import ArgumentsRefused, PriorResult
from runtime.registry import agents, tool_of
from runtime.tools.registry import definition_hash

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Held:
    """One fact, the seconds for which it holds, and whether they are over. None: it does not change. `gone`: the run has let go
    of it already, so that nothing rests on it any more.
    """

    fact: RestingFact
    half_life: float | None
    lapsed: bool
    gone: bool = False


def held_facts(facts: Sequence[RestingFact], *, agent_key: str, let_go: Sequence[Lapse]) -> list[Held]:
    """The facts with how long they hold. One query where any of them holds for some time only."""
    agent = agents().get(agent_key)
    half_lives = {}
    for fact in facts:
        tool = tool_of(agent.spec, fact.call.tool) if agent and fact.call and fact.ref.ok else None
        if tool is not None and tool.half_life_seconds is not None:
            half_lives[fact.ref.call] = tool.half_life_seconds
    over = observed_before_half_life(half_lives) if half_lives else {}
    gone = {lapse.tool_call_id for lapse in let_go}
    return [Held(fact, half_lives.get(id), id in over, id in gone) for fact in facts for id in (fact.ref.call,)]


def relied_on(call: ToolCall, arguments: Stored | None, facts: Facts, *, agent_key: str) -> Collection[UUID] | None:
    """The facts that a call rests on, as its tool says. None where that can't be told: the tool is not here as it was bound, or
    not every fact is at hand.
    """
    agent = agents().get(agent_key)
    tool = tool_of(agent.spec, call.tool) if agent else None
    known = [_prior(fact) for fact in reversed(facts.facts)]
    results = [one for one in known if one is not None]
    if tool is None or definition_hash(tool) != call.tool_hash or facts.unreadable or len(results) < facts.total:
        return None
    if arguments is None or not arguments.intact:
        return None
    try:
        return set(tool.rests_on(tool.arguments.model_validate_json(arguments.plain), results))
    except ArgumentsRefused:  # it would be refused as it stands, so it rests on nothing that can be told
        return None
    except Exception:  # the owner's code, on whatever is stored: a page is shown all the same
        logger.exception("%s does not say what call %s rests on", call.tool, call.id)
        return None


def _prior(fact: RestingFact) -> PriorResult | None:
    if fact.call is None or fact.stored is None or not fact.matches:
        return None
    return PriorResult(fact.ref.call, fact.call.tool, fact.ref.step_name, fact.ref.ok, json.loads(fact.stored.plain))


def lapsed_point(held: Sequence[Held], relied: Collection[UUID] | None) -> list[Point]:
    """That facts which the call rests on do not hold any more, as a point of the page; nothing where all hold. `relied`: those
    on which it rests; None where nobody knows, so that each may be one.
    """
    over = [one for one in held if one.lapsed and not one.gone and (relied is None or one.fact.ref.call in relied)]
    if not over:
        return []
    named = format_html_join(
        ", ",
        "<code>{}</code>, which holds for {}",
        ((exact(one.fact.ref.step_name, one_line=True), seconds(one.half_life)) for one in over),
    )
    text = format_html("{} too old: {}", "A fact is" if len(over) == 1 else "Facts are", named)
    it, says, is_ = ("it", "it says", "it is") if len(over) == 1 else ("them", "they say", "they are")
    rests = f"If the call rests on {it}, an" if relied is None else f"The call rests on {it}: an"
    why = f"{rests} approval sends nothing: {is_} read again first, and you are asked anew with what {says} then."
    return [Point("stop", "clock", text, why)]
