"""The growth test (P6): what a checkpoint takes and a step costs while the state grows, and how long its last state loads."""

from bench.growing import STEPS, WINDOW
from bench.rounds import Entry, Weighed, weigh
from bench.server import Server
from bench.tables import line, title

OURS = Entry("signalbox_growth")
TRACE = "runs_traceevent"
# Of our tables those that hold what a state is made of, as the others' do: revisions, and the texts of turns and results.
STATE = ("checkpoints_", "receipts_result", "runs_artifact")


def print_growth(server: Server, entries: list[Entry]) -> None:
    """Let each contender go through the growth, ours first, and print what was found and how ours compares."""
    title(f"{STEPS:,} steps whose state grows from 100 messages of 500 bytes by one a step")
    line("", "bytes a checkpoint", "ours against it: all, state", f"ms/step, first and last {WINDOW}", "load, ms")
    found = {entry.name: weigh(server, entry) for entry in entries}
    ours = found[OURS.name]
    for name, weighed in found.items():
        grown, each = weighed.grown, _all(weighed)
        line(
            name,
            f"{each:,.0f}",
            f"{_all(ours) / each:.3f}, {ours.bytes_each(*STATE) / each:.3f}",
            f"{grown.first_ms:.2f} → {grown.last_ms:.2f} ({grown.last_ms / grown.first_ms:.2f})",
            f"{grown.load_ms:.1f}",
        )
    line("  of ours, revisions", f"{ours.bytes_each('checkpoints_'):,.0f}")
    line("  the state", f"{ours.bytes_each(*STATE):,.0f}")
    line("  the trace, not in the above", f"{ours.bytes_each(TRACE):,.0f}")
    line("  the head without its texts", "", "", "", f"{ours.grown.head_ms:.1f}")


def _all(weighed: Weighed) -> float:
    """Everything that is written for a checkpoint but for the trace, which no other contender keeps."""
    return weighed.bytes_each() - weighed.bytes_each(TRACE)
