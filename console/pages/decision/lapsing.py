"""How long the facts hold that a call rests on: each for the half-life that its tool declares, by the database's clock."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join

from console.pages.decision.points import Point
from console.pages.resting import RestingFact
from console.pages.text import exact
from console.templatetags.signalbox import seconds
from receipts.selectors import observed_before_half_life
from runtime.registry import agents, tool_of


@dataclass(frozen=True)
class Held:
    """One fact, the seconds for which it holds, and whether they are over. None: it does not change."""

    fact: RestingFact
    half_life: float | None
    lapsed: bool


def held_facts(facts: Sequence[RestingFact], *, agent_key: str) -> list[Held]:
    """The facts with how long they hold. One query where any of them holds for some time only."""
    agent = agents().get(agent_key)
    half_lives = {}
    for fact in facts:
        tool = tool_of(agent.spec, fact.call.tool) if agent and fact.call and fact.ref.ok else None
        if tool is not None and tool.half_life_seconds is not None:
            half_lives[fact.ref.call] = tool.half_life_seconds
    over = observed_before_half_life(half_lives) if half_lives else {}
    return [Held(fact, half_lives.get(fact.ref.call), fact.ref.call in over) for fact in facts]


def lapsed_point(held: Sequence[Held]) -> list[Point]:
    """That some facts do not hold any more, as a point of the page; nothing where all hold."""
    over = [one for one in held if one.lapsed]
    if not over:
        return []
    named = format_html_join(
        ", ",
        "<code>{}</code>, which holds for {}",
        ((exact(one.fact.ref.step_name, one_line=True), seconds(one.half_life)) for one in over),
    )
    text = format_html("{} too old: {}", "A fact is" if len(over) == 1 else "Facts are", named)
    why = "If the call rests on it, an approval sends nothing: it is read again first, and you are asked anew with what it says then."
    return [Point("stop", "clock", text, why)]
