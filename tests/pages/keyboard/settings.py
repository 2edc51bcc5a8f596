"""Settings of the web server of the journeys: the product's, and an agent of the tests whose calls can be asked about by key."""

from console.settings import *  # noqa: F403
from console.settings import AGENTS as PRODUCTS

AGENTS = [*PRODUCTS, "tests.agents.Told"]
