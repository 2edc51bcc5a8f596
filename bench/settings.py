"""The product's settings, with the stub agent."""

from console.settings import *  # noqa: F403

AGENTS = ["bench.stub.Stub"]
