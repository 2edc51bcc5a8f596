"""One round of one contender, in a process of its own: `python -m bench.contender NAME ACT --dsn D ...`; prints JSON.

A process for each round lets contenders live in different environments, and no one inherits another's connections.
"""

import argparse
import importlib
import json

from bench.closed_loop import closed_loop

# Name → module and which of its functions opens the operation.
CONTENDERS = {
    "floor20": ("floor", "agent"),
    "signalbox": ("ours", "agent"),
    "langgraph": ("langgraph_agent", "agent"),
    "dbos": ("dbos_agent", "agent"),
    "raw_cte": ("floor", "save"),
    "signalbox_save": ("ours", "save"),
    "langgraph_put": ("langgraph_agent", "save"),
}


def main() -> None:
    """Prepare a database, or run a round on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("act", choices=["prepare", "run"])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--postmaster", type=int, default=0)
    given = parser.parse_args()
    module_name, function = CONTENDERS[given.name]
    module = importlib.import_module(f"bench.contenders.{module_name}")
    if given.act == "prepare":
        module.prepare(given.dsn)
        return
    load = closed_loop(
        getattr(module, function),
        given.dsn,
        workers=given.workers,
        seconds=given.seconds,
        warm=given.warm,
        postmaster=given.postmaster,
    )
    print(json.dumps(vars(load)))


if __name__ == "__main__":
    main()
