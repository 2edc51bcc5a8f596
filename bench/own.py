"""`make bench`: our own figures beside the floor, in about two minutes."""

import subprocess
import sys

from bench.costs import step_costs
from bench.growth import OURS, print_growth
from bench.payload import STEPS
from bench.rounds import ROOT, Entry, play
from bench.server import Server, running_server
from bench.tables import line, title


def main() -> None:
    """Print the counts of a step, then rates and CPU beside the floor."""
    with running_server() as server:
        title("One step of a 20-step run, admission and end included (counts)")
        for name, value in step_costs(server, "costs").items():
            line(name, f"{value:,.2f}")
        print_growth(server, [OURS])
        title("Whole runs of 20 steps, one worker")
        runs = play(server, [Entry("floor20"), Entry("signalbox")], workers=1, rounds=3, seconds=2)
        for name in runs.loads:
            line(name, f"{runs.rate(name):8.1f} runs/s", f"{runs.ratio(name, 'floor20'):5.2f} of the floor")
            client, on_server = runs.client_ms(name) / STEPS, runs.server_ms(name) / STEPS
            line("", f"{client:8.2f} ms CPU a step here", f"{on_server:5.2f} ms on the server")
        _saves(server, "2 kB", "raw_cte", "signalbox_save")
        _saves(server, "500 kB", "raw_cte_large", "signalbox_delta_large", "signalbox_full_large")
    title("What people wait for: decision to dispatch, kill -9 to takeover")
    for what in ("decision", "takeover"):
        subprocess.run([sys.executable, "-m", "bench.waits", what], cwd=ROOT, check=True)


def _saves(server: Server, size: str, floor: str, *ours: str) -> None:
    title(f"Bare saves of {size}, one worker")
    saves = play(server, [Entry(name) for name in (floor, *ours)], workers=1, rounds=3, seconds=1)
    for name in saves.loads:
        line(name, f"{saves.rate(name):8.1f} saves/s", f"{saves.ratio(name, floor):5.2f} of the floor")


if __name__ == "__main__":
    main()
