"""What a worker does next with a run that it holds: one pure rule, decided again before every step (A-141, B-006).

Read from top to bottom; the first line that holds decides.

| What is known | Next |
|---|---|
| the lease is lost | GIVE_UP: nothing more is written |
| a stop was seen, and nothing waits to be sent | STOP |
| the worker drains, and nothing waits to be sent or asked | GIVE_BACK |
| a result is stored whose revision is not, and the next step needs one | UNBOUND: held, unless it can be saved by now |
| otherwise | what the phase of the head says |
"""

from dataclasses import dataclass
from enum import StrEnum

from checkpoints.states import Phase


class Next(StrEnum):
    """What is done next."""

    GIVE_UP = "GIVE_UP"
    STOP = "STOP"
    GIVE_BACK = "GIVE_BACK"
    UNBOUND = "UNBOUND"
    THINK = "THINK"
    ROUTE = "ROUTE"
    WAKE = "WAKE"
    HEAR = "HEAR"
    AWAIT_RESULT = "AWAIT_RESULT"
    VERIFY = "VERIFY"


BY_PHASE: dict[str, Next] = {
    Phase.READY_TO_DECIDE: Next.THINK,
    Phase.DECISION_RECORDED: Next.ROUTE,
    Phase.AWAITING_APPROVAL: Next.WAKE,
    Phase.AWAITING_INPUT: Next.HEAR,
    Phase.AWAITING_TOOL_RESULT: Next.AWAIT_RESULT,
    Phase.TOOL_RESULT_RECORDED: Next.ROUTE,
    Phase.READY_TO_VERIFY: Next.VERIFY,
}

# What may be done on a result whose revision could not be saved: the model is asked, and reads go on.
_NEEDS_NO_REVISION = frozenset({Phase.READY_TO_DECIDE, Phase.AWAITING_TOOL_RESULT, Phase.TOOL_RESULT_RECORDED})


@dataclass(frozen=True)
class Known:
    """What decides. `phase` is that of the state to go on from. `to_send`: calls are dispatched by this worker and not sent
    yet; `asked`: the same of a model call. `unsaved`: that state is ahead of the head.
    """

    phase: str
    lost: bool = False
    stop_seen: bool = False
    draining: bool = False
    to_send: bool = False
    asked: bool = False
    unsaved: bool = False


def decide_next(known: Known) -> Next:
    """What is done next. What was dispatched is sent or asked first: it would be unknown otherwise. Raises KeyError for a
    run that has ended.
    """
    if known.lost:
        return Next.GIVE_UP
    if known.stop_seen and not known.to_send:
        return Next.STOP
    on_its_way = known.to_send or known.asked
    if known.draining and not on_its_way:
        return Next.GIVE_BACK
    if known.unsaved and not on_its_way and known.phase not in _NEEDS_NO_REVISION:
        return Next.UNBOUND
    return BY_PHASE[known.phase]
