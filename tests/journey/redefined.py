"""Settings of workers after a deploy that changed a tool: the publication has another version, so another definition."""

from console.settings import *  # noqa: F403
from console.settings import AGENTS

AGENTS = ["tests.journey.agents.Redefined", *AGENTS[1:]]
