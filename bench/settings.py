"""The product's settings, with the stub agents."""

from console.settings import *  # noqa: F403

AGENTS = ["bench.stub.Stub", "bench.stub_slow.Asker", "bench.stub_slow.Lingerer", "bench.stub_growing.Grower"]
