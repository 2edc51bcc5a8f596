"""What one step costs, in counts that do not depend on the machine: statements, commits, fsyncs, WAL bytes."""

from bench.contenders import ours
from bench.payload import STEPS
from bench.server import Counts, Server

_RUNS = 20


def step_costs(server: Server, name: str) -> dict[str, float]:
    """Counts for each step of whole runs, admission and end included."""
    dsn = server.fresh(name)
    ours.prepare(dsn)
    run = ours.agent(dsn)
    run()
    ours.tell_counts()
    before = server.counts(name)
    for _ in range(_RUNS):
        run()
    ours.tell_counts()
    after = server.counts(name)
    steps = _RUNS * STEPS
    return {field: (getattr(after, field) - getattr(before, field)) / steps for field in Counts.__dataclass_fields__}
