"""How engine tests bring a call to evidence that speaks against it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from accounts.errors import Refused
from receipts.models import Contradiction, ToolCall
from receipts.states import Closing, Verdict
from runtime.contracts import ToolContext, ToolOutcome, ToolUnknown
from runtime.loop import drive
from runtime.services import EvidenceGiven, Flagged, call_contradict, contradiction_settle
from tests.engine.engine import Engine, expire_lease
from tests.scripted import SCRIPT, calls, went_well

TOKEN = "ghp_" + "a1B2" * 10
UNKNOWN = ToolUnknown("no answer")


def approved(engine: Engine, tool: str = "once", *turns: Any) -> UUID:
    """A run whose call `a` was approved and is driven as far as it goes."""
    run_id = engine.run(calls((tool, "a")), *turns)
    engine.approve(run_id)
    drive(run_id)
    return run_id


def while_sending(do: Callable[[], None], outcome: Any) -> Callable[[ToolContext], ToolOutcome]:
    """An attempt in the middle of which something happens, before its answer comes."""

    def run(context: ToolContext) -> ToolOutcome:
        do()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    return run


def late(engine: Engine, outcome: Any, then: Callable[[UUID], None], tool: str = "once") -> UUID:
    """A run whose worker loses its lease while call `a` is out; `then` happens before the answer comes."""
    run_id = engine.run(calls((tool, "a")))
    engine.approve(run_id)

    def meanwhile() -> None:
        expire_lease(run_id)
        drive(run_id)  # the next worker takes over
        then(run_id)

    SCRIPT.do("a", while_sending(meanwhile, outcome), went_well("a"))
    drive(run_id)
    return run_id


def nothing(run_id: UUID) -> None:
    """Nobody says anything meanwhile."""


def settle(engine: Engine, closing: Closing, by: str = "rolf", flag: Contradiction | None = None) -> Flagged | Refused:
    flag = flag or Contradiction.objects.latest("raised_at")
    return contradiction_settle(
        actor=engine.person(by), contradiction_id=flag.id, closing=closing, reason="I looked again"
    )


def say(engine: Engine, call: ToolCall, says: Verdict, by: str = "rita") -> Flagged | Refused:
    return call_contradict(actor=engine.person(by), call_id=call.id, said=EvidenceGiven(says, "I saw it", "post-9"))
