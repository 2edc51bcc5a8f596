"""One kind of wait, measured in a process of its own: `python -m bench.waits decision|takeover`."""

import argparse

from bench.latency import COMMIT_TIMES, decision_latencies, takeover_latencies
from bench.server import running_server
from bench.tables import line

MEASURES = {"decision": decision_latencies, "takeover": takeover_latencies}


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=MEASURES)
    what = parser.parse_args().what
    with running_server(COMMIT_TIMES) as server:
        for name, found in MEASURES[what](server, what):
            line(name, found)


if __name__ == "__main__":
    main()
