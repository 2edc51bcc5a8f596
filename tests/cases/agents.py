"""The agents of the prepared cases. What each of their turns says stands in a file, by the goal of the run, so that every
process that continues a run hears the same.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from runs.canonical import digest
from runtime.contracts import AgentSpec, ModelRequest, ModelTurn, ObligationSpec, ProposedCall, Tool
from runtime.tools.ask import AskPerson
from tests.cases.tools import (
    BuyCurrency,
    DeleteFile,
    DeleteFileAnew,
    FileDocument,
    GrantAccess,
    Pay,
    PostNotice,
    ReadInvoice,
    ReadRate,
    SendFax,
    SendMail,
    SetLimit,
)

FOLDER = "SIGNALBOX_CASES_FOLDER"  # in the environment: where the turns are, and what people asked for
TOOLS: tuple[Tool, ...] = (
    *(Pay(), SendMail(), PostNotice(), DeleteFile(), SetLimit(), GrantAccess()),
    *(FileDocument(), SendFax(), ReadInvoice(), ReadRate(), BuyCurrency(), AskPerson()),
)

Turn = tuple[str, Sequence[tuple[str, Mapping[str, Any]]]]


def tell(goal: str, turns: Sequence[Turn]) -> None:
    """Say what a run with this goal hears turn by turn: what the model says, and what it proposes."""
    told = [{"text": text, "calls": [[tool, arguments] for tool, arguments in calls]} for text, calls in turns]
    _file(goal).parent.mkdir(exist_ok=True)
    _file(goal).write_text(json.dumps(told))


def _file(goal: str) -> Path:
    return Path(os.environ[FOLDER]) / "turns" / f"{digest(goal.encode())[:32]}.json"


class Desk:
    """Does what its run was told, turn by turn, and finishes."""

    spec: ClassVar[AgentSpec] = AgentSpec(
        key="desk",
        version="1",
        title="The desk",
        instructions="Do the work of the desk.",
        default_goal="Do the work of the desk.",
        model="scripted",
        tools=TOOLS,
        obligations=(),
        input_names=(),
        caps={"model_calls": 50, "tool_calls": 50, "tokens": 1_000_000},
    )

    @staticmethod
    def check_inputs(inputs: Mapping[str, bytes]) -> str:
        return "Work of the desk" + (f" with {len(inputs)} files" if inputs else "")

    @staticmethod
    def plan(request: ModelRequest) -> ModelTurn:
        """What the file of the run's goal says of this turn; after its last one the work is at its end."""
        told: list[dict[str, Any]] = json.loads(_file(request.goal).read_text())
        over: dict[str, Any] = {"text": "", "calls": [["finish", {"summary": "The work is at its end."}]]}
        turn = told[request.turn_no - 1] if request.turn_no <= len(told) else over
        proposed = tuple(ProposedCall(tool, arguments) for tool, arguments in turn["calls"])
        return ModelTurn(turn["text"], proposed, 100, 20, response_id=f"told-{request.turn_no}")


class Frugal(Desk):
    """May call two tools."""

    spec: ClassVar[AgentSpec] = replace(
        Desk.spec, key="frugal", title="The frugal desk", caps={**Desk.spec.caps, "tool_calls": 2}
    )


class Promising(Desk):
    """Promises a note."""

    spec: ClassVar[AgentSpec] = replace(
        Desk.spec,
        key="promising",
        title="The promising desk",
        obligations=(ObligationSpec("A closing note is filed.", "file_document/closing-note"),),
    )


class Sweeping(Desk):
    """Clears folders."""

    spec: ClassVar[AgentSpec] = replace(Desk.spec, key="sweeping", title="The clearing desk")


class SweepingAnew(Sweeping):
    """The same after a deploy that changed what one of its tools does."""

    spec: ClassVar[AgentSpec] = replace(
        Sweeping.spec, tools=tuple(DeleteFileAnew() if type(tool) is DeleteFile else tool for tool in TOOLS)
    )


BEFORE = [f"tests.cases.agents.{name}" for name in ("Desk", "Frugal", "Promising", "Sweeping")]
NOW = [*BEFORE[:3], "tests.cases.agents.SweepingAnew"]
