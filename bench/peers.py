"""`make bench-peers`: our whole runs, saves and growth beside LangGraph, DBOS and raw SQL, in turn on one durable server."""

import argparse
from pathlib import Path

from bench.growth import OURS, print_growth
from bench.payload import STEPS
from bench.rounds import Entry, Rounds, play
from bench.server import Server, running_server
from bench.tables import line, title

ROUNDS = 3
SECONDS = 3.0


def main() -> None:
    """Print one table of ratios a group, with one and with eight workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", type=Path, required=True, help="the Python of the environment that the peers are in"
    )
    peers = str(parser.parse_args().python.absolute())
    runs = [Entry("floor20"), Entry("signalbox"), Entry("langgraph", peers), Entry("dbos", peers)]
    saves = [
        *(Entry("raw_cte"), Entry("signalbox_save"), Entry("signalbox_save_full")),
        *(Entry("langgraph_put", peers), Entry("langgraph_put_writes", peers)),
    ]
    large = [
        *(Entry("raw_cte_large"), Entry("signalbox_delta_large"), Entry("signalbox_full_large")),
        Entry("langgraph_put_large", peers),
    ]
    growing = [OURS, Entry("langgraph_delta_growth", peers), Entry("langgraph_growth", peers)]
    with running_server() as server:
        for workers in (1, 8):
            _table(server, f"Whole runs of {STEPS} steps, {workers} workers", runs, workers, "floor20", "signalbox")
            _table(server, f"Saves of 2 kB, {workers} workers", saves, workers, "raw_cte", "signalbox_save")
        _table(server, "Saves of 500 kB, 1 worker", large, 1, "raw_cte_large", "signalbox_delta_large")
        print_growth(server, growing)


def _table(server: Server, name: str, entries: list[Entry], workers: int, floor: str, ours: str) -> None:
    played: Rounds = play(server, entries, workers=workers, rounds=ROUNDS, seconds=SECONDS)
    title(name)
    line("", "a second", "of the floor", "ours against it", "CPU ms here / on the server")
    for entry in entries:
        line(
            entry.name,
            f"{played.rate(entry.name):,.1f}",
            f"{played.ratio(entry.name, floor):.2f}",
            f"{played.ratio(ours, entry.name):.2f}",
            f"{played.client_ms(entry.name):.2f} / {played.server_ms(entry.name):.2f}",
        )


if __name__ == "__main__":
    main()
