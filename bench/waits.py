"""One kind of wait, measured in a process of its own: `python -m bench.waits decision|takeover`."""

import argparse

from bench.latency import decision_latencies, summary, takeover_latencies
from bench.server import running_server
from bench.tables import line

MEASURES = {"decision": decision_latencies, "takeover": takeover_latencies}


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=MEASURES)
    what = parser.parse_args().what
    with running_server() as server:
        line(what, summary(MEASURES[what](server, what)))


if __name__ == "__main__":
    main()
