"""One round of one contender, in a process of its own: `python -m bench.contender NAME ACT --dsn D ...`; prints JSON.

A process for each round lets contenders live in different environments, and no one inherits another's connections.
"""

import argparse
import importlib
import json
from types import ModuleType

from bench.closed_loop import Load, closed_loop

# Name → module and which of its functions opens the operation, or goes through the growth.
CONTENDERS = {
    "floor20": ("floor", "agent"),
    "signalbox": ("ours", "agent"),
    "langgraph": ("langgraph_agent", "agent"),
    "dbos": ("dbos_agent", "agent"),
    "raw_cte": ("floor", "save"),
    "signalbox_save": ("ours", "save"),
    "signalbox_save_full": ("ours", "save_in_full"),
    "langgraph_put": ("langgraph_agent", "put"),
    "langgraph_put_writes": ("langgraph_agent", "put_writes"),
    "raw_cte_large": ("floor", "save_large"),
    "signalbox_delta_large": ("ours", "save_large"),
    "signalbox_full_large": ("ours", "save_large_in_full"),
    "langgraph_put_large": ("langgraph_agent", "put_large"),
    "signalbox_growth": ("ours", "grow"),
    "langgraph_growth": ("langgraph_agent", "grow"),
    "langgraph_delta_growth": ("langgraph_agent", "grow_by_deltas"),
    "signalbox_decide": ("decisions", "signalbox"),
    "plain_decide": ("decisions", "plain"),
}


def main() -> None:
    """Prepare a database, run a round on it, or go through the growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("act", choices=["prepare", "run", "grow"])
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
    elif given.act == "grow":
        print(json.dumps(vars(getattr(module, function)(given.dsn))))
    else:
        print(json.dumps(vars(_round(module, function, given))))


def _round(module: ModuleType, function: str, given: argparse.Namespace) -> Load:
    return closed_loop(
        getattr(module, function),
        given.dsn,
        workers=given.workers,
        seconds=given.seconds,
        warm=given.warm,
        postmaster=given.postmaster,
    )


if __name__ == "__main__":
    main()
