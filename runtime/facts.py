"""What a run was told, and how long that holds: observations lapse after their half-life (guard 12).

An observation is the result of a tool that declares a half-life; its age is that of the attempt that made it, by the database's
clock. Nothing is stored while it holds. Once a run is about to rest on one that has lapsed, that is a row of its own, the calls
that rest on it are not sent, and the model is told to read again.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from approvals.services import call_waits_invalidate, decided_waits_invalidate
from checkpoints.errors import Unreadable
from checkpoints.services import lapses_record
from checkpoints.states import Lapsed
from receipts.selectors import call_arguments, calls_of, observed_before_half_life
from receipts.services import call_refuse
from receipts.states import CallStatus, EffectClass
from runs.leases import lease_news, lease_tell
from runs.services import message_append, refusal_record
from runs.states import RefusalKind
from runtime.contracts import Arguments, Tool
from runtime.conversation import answers_of
from runtime.ending import held_run
from runtime.hosts import base_step
from runtime.recorded import moved_of
from runtime.registry import tool_of
from runtime.session import Session

LAPSED = "it rests on facts that have passed their half-life"
_UNSENT = (CallStatus.PROPOSED, CallStatus.AWAITING_APPROVAL)


def bound_tool(session: Session, call: Any) -> tuple[Tool, Arguments]:
    """The pinned tool of a stored call, and its arguments read back from the stored canonical bytes.

    Raises Unreadable where the call is not as it was recorded.
    """
    moved, tool = moved_of(call, session.spec), tool_of(session.spec, call.tool)
    if moved or tool is None:
        raise Unreadable("DIGEST_MISMATCH", f"call {call.id}: {moved}")
    return tool, tool.arguments.model_validate_json(call_arguments(call))


def lapsed_under(session: Session, call: Any) -> list[UUID]:
    """The observations that this call rests on and that have lapsed by now."""
    if not _half_lives(session):
        return []
    tool, args = bound_tool(session, call)
    relied = set(tool.rests_on(args, session.results))
    return [id for id in observed_before_half_life(_half_lives(session)) if id in relied]


def _half_lives(session: Session) -> dict[UUID, float]:
    """The results that tools may still build on and that hold for some time only, with how long."""
    half_lives = {tool.key: tool.half_life_seconds for tool in session.spec.tools if tool.half_life_seconds is not None}
    return {one.call_id: half_lives[one.tool] for one in session.results if one.ok and one.tool in half_lives}


def refresh(session: Session) -> bool:
    """Let go of what has lapsed: one commit with a row for each observation, the calls that rest on one CANCELLED and their
    waits INVALIDATED, the decided siblings asked afresh (ruling 31), and a notice for the model. True if something had.
    """
    half_lives = _half_lives(session)
    observed = observed_before_half_life(half_lives) if half_lives else {}
    if not observed:
        return False
    calls = calls_of(ids=[*observed, *session.snapshot.barrier])
    lapsed = [Lapsed(id, _base(session, calls[id]), at, half_lives[id]) for id, at in observed.items()]
    resting = [calls[id] for id in session.snapshot.barrier if _rests(session, calls[id], observed)]
    with held_run(session.holding) as (run, _):
        lapses_record(run=run, lapsed=lapsed)
        for call in resting:
            call_refuse(call, to=CallStatus.CANCELLED, why=LAPSED)
        if resting:
            call_waits_invalidate(call_ids=[call.id for call in resting], why=LAPSED)
            decided_waits_invalidate(run_id=run.id, why=LAPSED)
        message_append(run=run, role="notice", text=_notice(lapsed, resting), after_turn=session.snapshot.turn_no)
        lease_tell(run.id)
    _record(session, lapsed, resting)
    session.lapse({one.tool_call_id: one.step_name for one in lapsed}, answers_of(observed))
    session.hear(lease_news(session.run.id))
    return True


def _rests(session: Session, call: Any, observed: Collection[UUID]) -> bool:
    if call.status not in _UNSENT or call.effect_class == EffectClass.READ_ONLY:
        return False  # what only reads is sent all the same
    tool, args = bound_tool(session, call)
    return any(id in observed for id in tool.rests_on(args, session.results))


def _base(session: Session, call: Any) -> str:
    tool, args = bound_tool(session, call)
    return base_step(tool, args, session.marks(tool))


def _notice(lapsed: list[Lapsed], resting: list[Any]) -> str:
    """What the model is told: what does not hold any more, and what was not sent because of it."""
    facts = "; ".join(f"{one.step_name}, observed {one.observed_at:%Y-%m-%d %H:%M:%S} UTC" for one in lapsed)
    unsent = ", ".join(call.step_name for call in resting)
    said = f"These facts have passed their half-life and do not hold any more: {facts}. Read again what you need."
    return f"{said} Not sent, since it rests on them: {unsent}. Propose it again afterwards." if unsent else said


def _record(session: Session, lapsed: list[Lapsed], resting: list[Any]) -> None:
    refusal_record(
        tenant_id=session.run.tenant_id,
        run_id=session.run.id,
        kind=RefusalKind.STALE_FACTS,
        fence=session.holding.fence,
        subject_id=(resting[0].id if resting else lapsed[0].tool_call_id),
        detail={"observations": [str(one.tool_call_id) for one in lapsed], "calls": [str(call.id) for call in resting]},
    )
