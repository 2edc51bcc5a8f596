"""Settings of the processes of the matrix: the product's, with the store seam, addressed orders and the told agent."""

from console.settings import *  # noqa: F403
from console.settings import AGENTS, DATABASES, INSTALLED_APPS, MIDDLEWARE

DATABASES["default"]["ENGINE"] = "tests.matrix.store"
INSTALLED_APPS = [*INSTALLED_APPS, "tests.matrix.inside.Inside"]
MIDDLEWARE = ["tests.matrix.inside.Addressed", *MIDDLEWARE]
RETAIN_LATEST, RETAIN_DAILY = 1, False
AGENTS = [*AGENTS, "tests.matrix.agents.Matrix"]
