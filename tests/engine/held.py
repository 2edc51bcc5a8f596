"""A worker that is held where it is about to send one of the statements of its steps."""

from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from runs.statements import run_statement
from runtime import statements as steps
from runtime.contracts import ModelUnknown, ToolUnknown
from runtime.loop import drive
from tests.engine.engine import Engine
from tests.engine.races import Aside, Gate, gate_at
from tests.scripted import SCRIPT, calls, went_well

# In the order in which the worker below comes to them.
STATEMENTS = [
    "ASK_FIRST",
    "ASK_RETRY",
    "SEAL_AND_SEND",
    "DISPATCH_AGAIN",
    "RECORD_READ",
    "SEAL_TURN",
    "DISPATCH_CALLS",
]


def unchanged(statement: str) -> str:
    return statement


def held_worker(
    engine: Engine, name: str, patch: pytest.MonkeyPatch, change: Callable[[str], str] = unchanged
) -> tuple[UUID, Gate, Aside]:
    """A run, the gate, and the worker that waits there before it sends a statement for the first time.

    `change` rewrites every statement, to show what one of its conditions is for. The first dispatch of a recorded call
    locks the lease in a statement of its own before: there the worker is held before that one.
    """
    SCRIPT.tell([ModelUnknown("no answer"), calls(("look", "a"))], calls(("note", "b")), calls(("look", "c")))
    SCRIPT.do("a", ToolUnknown("no answer"), went_well("a"))
    run_id = engine.start()
    gate, wanted = Gate(), getattr(steps, name)

    def held(sent: str, params: dict[str, Any]) -> tuple[Any, ...]:
        if sent == wanted and name != "DISPATCH_CALLS":
            gate()
        return run_statement(change(sent), params)

    patch.setattr(steps, "run_statement", held)
    if name == "DISPATCH_CALLS":
        gate = gate_at(patch, import_module("runtime.guards"), "kept")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    return run_id, gate, worker
