"""`make bench`: our own figures beside the floor, in about two minutes."""

import subprocess
import sys

from bench.costs import growth, step_costs
from bench.payload import STEPS
from bench.rounds import ROOT, Entry, play
from bench.server import running_server
from bench.tables import line, title


def main() -> None:
    """Print the counts of a step, then rates and CPU beside the floor."""
    with running_server() as server:
        title("One step of a 20-step run, admission and end included (counts)")
        for name, value in step_costs(server, "costs").items():
            line(name, f"{value:,.2f}")
        weighed = growth(server, "costs")
        title(f"A run of {weighed.revisions} revisions (bytes a revision)")
        line("checkpoints", f"{weighed.checkpoint_bytes:,}")
        line("everything", f"{weighed.all_bytes:,}")
        title("Whole runs of 20 steps, one worker")
        runs = play(server, [Entry("floor20"), Entry("signalbox")], workers=1, rounds=3, seconds=3)
        for name in runs.loads:
            line(name, f"{runs.rate(name):8.1f} runs/s", f"{runs.ratio(name, 'floor20'):5.2f} of the floor")
            client, on_server = runs.client_ms(name) / STEPS, runs.server_ms(name) / STEPS
            line("", f"{client:8.2f} ms CPU a step here", f"{on_server:5.2f} ms on the server")
        title("Bare saves of 2 kB, one worker")
        saves = play(server, [Entry("raw_cte"), Entry("signalbox_save")], workers=1, rounds=3, seconds=2)
        for name in saves.loads:
            line(name, f"{saves.rate(name):8.1f} saves/s", f"{saves.ratio(name, 'raw_cte'):5.2f} of the floor")
    title("What people wait for: decision to dispatch, kill -9 to takeover")
    for what in ("decision", "takeover"):
        subprocess.run([sys.executable, "-m", "bench.waits", what], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
