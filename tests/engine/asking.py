"""An agent that asks people, and what they answer, in engine tests."""

from typing import Any

from accounts.errors import Refused
from approvals.models import Wait
from approvals.services import (
    Given,
    Seen,
    TextGiven,
    question_answer,
)
from tests.engine.engine import (
    Engine,
    shown,
)
from tests.scripted import SCRIPT

ASKS = {"question": "Which of the two lines is the bond?", "why": "The sheet names both."}
ROUNDS = 10


def asked(**differently: Any) -> tuple[str, dict[str, Any]]:
    """A proposal that asks."""
    return "ask_person", ASKS | differently


def answered(engine: Engine, wait: Wait, given: Given | str, by: str = "ann", seen: Seen | None = None) -> Any:
    said = TextGiven(given) if isinstance(given, str) else given
    return question_answer(actor=engine.person(by), wait_id=wait.id, seen=seen or shown(wait), given=said)


def code_of(outcome: object) -> str:
    """The code of a refusal."""
    assert isinstance(outcome, Refused), outcome
    return outcome.code


def told(turn: int) -> list[dict[str, Any]]:
    """What the model was told of its calls in the request of a turn."""
    request = next(request for request in SCRIPT.requests if request.turn_no == turn)
    return [message for message in request.history if message["role"] == "tool"]
