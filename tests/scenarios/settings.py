"""Settings of the processes of the scenarios: the product's, with an agent that has children."""

from console.settings import *  # noqa: F403
from console.settings import AGENTS

AGENTS = [*AGENTS, "tests.scenarios.agents.Family"]
