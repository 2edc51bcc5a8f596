"""DBOS: the same run as a workflow of 20 steps, called directly. Runs in the peers' environment."""

import logging
import os
from typing import Any

from dbos import DBOS

from bench.closed_loop import Operation
from bench.payload import MODEL_TEXT, PAIRS, TOOL_TEXT


def prepare(dsn: str) -> None:
    """Its own migrations, by a first run."""
    agent(dsn)()
    DBOS.destroy()


def agent(dsn: str) -> Operation:
    """dbos: one workflow, whose steps return at once."""
    logging.getLogger("dbos").setLevel(logging.ERROR)
    config: Any = {
        "name": "bench",
        "system_database_url": dsn,
        "executor_id": f"w{os.getpid()}",
        "application_version": "1",
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    def model(number: int) -> dict[str, Any]:
        return {"content": MODEL_TEXT, "number": number}

    @DBOS.step()
    def tool(number: int) -> dict[str, Any]:
        return {"content": TOOL_TEXT, "number": number}

    @DBOS.workflow()
    def whole() -> int:
        return sum(len([model(number), tool(number)]) for number in range(PAIRS))

    DBOS.launch()

    def run() -> None:
        if whole() != 2 * PAIRS:
            raise RuntimeError("the workflow did not run to its end")

    return run
