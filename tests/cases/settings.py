"""Settings of the processes that serve the prepared cases: the product's, with the agents of the cases, and requests noted."""

from console.settings import *  # noqa: F403
from console.settings import MIDDLEWARE as PRODUCTS
from tests.cases.agents import NOW

AGENTS = NOW
MIDDLEWARE = [*PRODUCTS, "tests.cases.requests.noted"]
