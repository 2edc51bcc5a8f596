"""The gateway that needs no model: it asks the agent's own deterministic planner."""

from collections.abc import Sequence
from typing import ClassVar

from django.utils.module_loading import import_string

from runtime.contracts import Agent, ModelFailed, ModelRequest, ModelTurn


class ScriptedGateway:
    """Finds the agent of a request among the given classes and returns what its plan says. Uses no tokens."""

    key: ClassVar[str] = "scripted"

    def __init__(self, agents: Sequence[str]) -> None:
        """`agents` are dotted paths of agent classes, as in the AGENTS setting."""
        self._agents = tuple(agents)

    def ask(self, request: ModelRequest) -> ModelTurn:
        """The turn that the agent's plan gives. Raises ModelFailed for an agent that isn't registered."""
        for path in self._agents:
            agent: type[Agent] = import_string(path)
            if agent.spec.key == request.agent:
                return agent.plan(request)
        raise ModelFailed(f"No registered agent is named {request.agent!r}, so there is no script to follow.")
