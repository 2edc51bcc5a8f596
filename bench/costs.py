"""What one step costs, in counts that do not depend on the machine: statements, commits, fsyncs, WAL bytes; and storage."""

from dataclasses import dataclass

from bench.contenders import ours
from bench.payload import STEPS
from bench.server import Counts, Server

_RUNS = 20
_GROWTH_PAIRS = 300


@dataclass(frozen=True)
class Growth:
    """How a long run's storage grows: bytes for each revision, and how the last steps compare with the first."""

    revisions: int
    checkpoint_bytes: int
    all_bytes: int


def step_costs(server: Server, name: str) -> dict[str, float]:
    """Counts for each step of whole runs, admission and end included."""
    dsn = server.fresh(name)
    ours.prepare(dsn)
    run = ours.agent(dsn)
    run()
    before = server.counts(name)
    for _ in range(_RUNS):
        run()
    after = server.counts(name)
    steps = _RUNS * STEPS
    return {field: (getattr(after, field) - getattr(before, field)) / steps for field in Counts.__dataclass_fields__}


def growth(server: Server, name: str) -> Growth:
    """Run one long run in a database of its own (after `step_costs`, whose database it continues) and weigh it."""
    from checkpoints.selectors import head_of
    from runs.selectors import run_now
    from runtime.loop import drive

    before = server.size(name, "checkpoints_checkpoint%"), server.size(name)
    run_id = ours.started(goal=str(_GROWTH_PAIRS))
    drive(run_id)
    if run_now(run_id).status != "COMPLETED":
        raise RuntimeError(f"the long run is {run_now(run_id).status}")
    revisions = head_of(run_id).revision
    after = server.size(name, "checkpoints_checkpoint%"), server.size(name)
    return Growth(revisions, (after[0] - before[0]) // revisions, (after[1] - before[1]) // revisions)
