"""What is declared about the tool of a call, as far as this installation still has the tool that the call was bound to."""

from dataclasses import dataclass

from django.conf import settings

from receipts.models import ToolCall
from receipts.states import EffectClass
from runtime.contracts import Tool
from runtime.registry import agents, tool_of
from runtime.tools.ask import AskPerson
from runtime.tools.registry import definition_hash


@dataclass(frozen=True)
class Place:
    """Where a person can look outside, and what for."""

    what: str
    url: str


@dataclass(frozen=True)
class ToolFacts:
    """Words for the page. `places` is empty for a tool whose owner names none; `says` is what its owner says that it does."""

    leaves: str
    leaves_where: str
    timeout: str
    places: list[Place]
    says: str = ""


def tool_facts(call: ToolCall, *, agent_key: str) -> ToolFacts:
    """The facts of a call's tool. A tool that was changed or taken away since says so instead of guessing."""
    agent = agents().get(agent_key)
    tool = tool_of(agent.spec, call.tool) if agent else None
    if tool is None or definition_hash(tool) != call.tool_hash:
        return ToolFacts("not known", "the tool is not here as it was bound", "not known", [])
    leaves, where = _leaves(tool)
    return ToolFacts(leaves, where, f"{tool.timeout_seconds:g} s", _places(tool, call), tool.description)


def places_of(call: ToolCall) -> list[Place]:
    """Where to look for a call outside, as its tool names it; nothing for a tool that was changed or taken away since."""
    return tool_facts(call, agent_key=call.run.agent_version.agent.key).places


def has_own_form(call: ToolCall) -> bool:
    """Whether the form of a question is that of its tool, as its owner wrote it, and none that a model proposed."""
    named = (tool for agent in agents().values() for tool in agent.spec.tools if tool.key == call.tool)
    forms = (tool for tool in named if isinstance(tool, AskPerson) and tool.form is not None)
    return any(definition_hash(tool) == call.tool_hash for tool in forms)


def _leaves(tool: Tool) -> tuple[str, str]:
    if tool.local:
        return "no", "rows of this console only"
    if tool.effect_class == EffectClass.READ_ONLY:
        return "no", "it only reads"
    return "yes", f"to the {tool.publishes}" if tool.publishes else "to another system"


def _places(tool: Tool, call: ToolCall) -> list[Place]:
    base = settings.OUTSIDE_URL.rstrip("/")
    if not base:
        return []
    return [Place(what, base + path.format(key=call.idempotency_key)) for what, path in tool.look]
