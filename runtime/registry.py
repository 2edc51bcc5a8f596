"""The registered agents, and the manifest that a run is pinned to."""

from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from runtime.contracts import Agent, AgentSpec, Price, Tool
from runtime.tools.registry import definition_hash, misdeclared, tool_marks


@cache
def agents() -> dict[str, type[Agent]]:
    """The agent classes named by the AGENTS setting, by key. Raises ImproperlyConfigured for a tool that declares what it
    can't keep.
    """
    classes: list[type[Agent]] = [import_string(path) for path in settings.AGENTS]
    for agent in classes:
        for tool in agent.spec.tools:
            why = misdeclared(tool, agent.spec.tools)
            if why is not None:
                raise ImproperlyConfigured(f"{agent.spec.key}, tool {tool.key}: {why}.")
    return {agent.spec.key: agent for agent in classes}


def manifest(spec: AgentSpec) -> dict[str, Any]:
    """Everything of an agent's version that a run depends on. A change of any of it is another version (guard 7)."""
    return {
        "agent": spec.key,
        "version": spec.version,
        "instructions": spec.instructions,
        "gateway": settings.MODEL_GATEWAY,
        "model": model_name(spec),
        "tools": [_described(tool) for tool in spec.tools],
        **({"children": {key: dict(caps) for key, caps in spec.children.items()}} if spec.children else {}),
    }


def _described(tool: Tool) -> dict[str, Any]:
    """A tool in a manifest. What it marks as sensitive stays masked in the runs of that version, whatever is installed later."""
    marked = [{"path": ".".join(mark.path), "audited": mark.audited} for mark in tool_marks(tool)]
    described = {"key": tool.key, "version": tool.version, "hash": definition_hash(tool)}
    return {**described, "sensitive": marked} if marked else described


def pinned(spec: AgentSpec) -> dict[str, Any]:
    """What a run is pinned to and limited by at its admission, as the fields of NewRun: the agent as it is installed now."""
    described = manifest(spec)
    return {
        "agent_key": spec.key,
        "agent_version": spec.version,
        "model": model_name(spec),
        "gateway": str(described["gateway"]),
        "manifest": described,
        "tool_texts": {tool.key: tool.description for tool in spec.tools},
        "recovery_policy": spec.recovery_policy,
        "max_takeovers": spec.max_takeovers,
        "caps": spec.caps,
    }


def model_name(spec: AgentSpec) -> str:
    """The model that a run of this agent asks: the configured one, or the agent's own."""
    return settings.MODEL_NAME or spec.model


def price_of(spec: AgentSpec) -> Price | None:
    """What the model of this agent costs: the agent's own price, or the installation's; None where nobody has said."""
    if spec.price is not None:
        return spec.price
    known = settings.MODEL_PRICES.get(model_name(spec))
    return Price(known.input, known.output) if known else None


def tool_of(spec: AgentSpec, key: str) -> Tool | None:
    """The agent's tool with this key."""
    return next((tool for tool in spec.tools if tool.key == key), None)
