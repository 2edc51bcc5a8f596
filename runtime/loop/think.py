"""Think: ask the model for one turn, and seal what it says."""

from typing import Any

from django.conf import settings

from accounts.keys import new_id
from receipts.selectors import open_turn, refused_in_the_same_way, sealed_turn, seconds_until
from receipts.services import attempt_find, attempt_lost, attempt_refused, model_call_failed
from receipts.states import AttemptOutcome
from runs.canonical import canonical, digest
from runs.faults import reach
from runs.live import hint_changed
from runs.services import budget_hold_unknown, budget_settle
from runs.statements import Purse, fence_params
from runtime.backoff import backoff, wait_for_retry
from runtime.cascade import children_end
from runtime.contracts import ModelRequest
from runtime.ending import fail, held_run
from runtime.hosts import Asking, try_model
from runtime.loop.budget import (
    MODEL_TIMEOUT_SECONDS,
    model_reserve,
    not_started,
    time_used,
)
from runtime.loop.compact import can_compact, compact
from runtime.loop.seal import seal
from runtime.loop.unsaved import decide_sealed
from runtime.registry import model_name
from runtime.session import Asked, Session
from runtime.statements import ASK_FIRST, ASK_RETRY, write
from runtime.tools.finish import FINISH
from runtime.tools.registry import tool_spec

# In how many turns the same may be proposed and refused, with nothing new in between, before the run has failed (F10).
REFUSED_OFTEN = 3


def think(session: Session) -> bool:
    """Ask the model, once, and seal what it says."""
    if session.asked is None:
        return _ask(session)
    asked, session.asked = session.asked, None
    session.trace("model_asked", turn=asked.turn_no, attempt=asked.attempt)
    reach("after_model_dispatch_commit")
    session.heartbeat.allow(MODEL_TIMEOUT_SECONDS)
    session.heartbeat.prove_held()
    session.sent.add((asked.id, asked.attempt))
    answer = try_model(session.gateway, request(session, asked.turn_no))
    session.turn_in_hand = (asked, answer)
    reach("after_model_response")
    going = _no_turn(session, asked, answer) if answer.turn is None else seal(session, asked, answer.turn, answer)
    session.turn_in_hand = None
    return going


def request(session: Session, turn_no: int) -> ModelRequest:
    """The request of one turn, built from the conversation."""
    spec = session.spec
    progress = spec.workspace_progress and session.run.workspace_id is not None
    return ModelRequest(
        agent=spec.key,
        model=model_name(spec),
        instructions=spec.instructions,
        goal=session.snapshot.contract.goal,
        turn_no=turn_no,
        inputs=tuple(sorted(session.inputs)),
        history=tuple(session.conversation.messages),
        tools=(*(tool_spec(tool, progress=progress) for tool in spec.tools), FINISH),
        timeout_seconds=MODEL_TIMEOUT_SECONDS,
        constraints=tuple(term.statement for term in session.snapshot.contract.constraints),
        assumptions=tuple(term.statement for term in session.snapshot.contract.assumptions),
        lapsed=session.lapsed,
    )


def request_digest(session: Session, turn_no: int) -> str:
    """The digest of a request: the pinned manifest, the contract, the turn and the conversation's running digest."""
    return digest(
        canonical(
            {
                "manifest": session.snapshot.manifest_digest,
                "goal": session.snapshot.contract.goal,
                "constraints": [term.statement for term in session.snapshot.contract.constraints],
                "assumptions": [term.statement for term in session.snapshot.contract.assumptions],
                "lapsed": sorted(session.lapsed),
                "turn": turn_no,
                "conversation": session.conversation.chain,
            }
        )
    )


def ask_params(session: Session, turn_no: int, *, revision: int) -> dict[str, Any]:
    """The parameters of a model call that is dispatched for the first time."""
    return {
        "ask_id": new_id(),
        "ask_turn": turn_no,
        "ask_revision": revision,
        "ask_model": model_name(session.spec),
        "ask_digest": request_digest(session, turn_no),
        "ask_timeout": MODEL_TIMEOUT_SECONDS,
    }


def _ask(session: Session) -> bool:
    """Commit the dispatch of the next turn, or of another attempt at the open one, before anything is sent.

    Where the run was told something that this worker has not read, it reads that first; the next step asks.
    """
    asked_before = session.nothing_asked_after != session.position.revision
    session.nothing_asked_after = None
    sealed = sealed_turn(run_id=session.run.id, turn_no=session.snapshot.turn_no + 1) if asked_before else None
    if sealed is not None:
        return decide_sealed(session, sealed)
    if _proposes_in_vain(session):
        return False
    pending = open_turn(run_id=session.run.id) if asked_before else None
    turn_no = pending.turn_no if pending else session.snapshot.turn_no + 1
    over = _over(session, turn_no, pending)
    if over:
        _fail(session, over)
        return False
    early = seconds_until([pending.retry_at]) if pending and pending.retry_at else 0
    if early:
        return wait_for_retry(session, early)
    params = fence_params(session.holding) | ask_params(session, turn_no, revision=session.snapshot.revision)
    if pending is not None:
        params["ask_id"] = pending.id
    attempt = pending.attempts + 1 if pending else 1
    purse = Purse().reserve(params["ask_id"], attempt, model_reserve(session))
    reach("before_model_dispatch_commit")
    written = write(ASK_RETRY if pending else ASK_FIRST, params | purse.params() | {"news": session.news})
    if written.started is None:
        return session.hear(written.news) or not_started(session, written)
    session.asked = Asked(params["ask_id"], turn_no, written.started)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    return True


def _over(session: Session, turn_no: int, pending: Any) -> str:
    """Why this turn is not asked for any more; "" where it may be."""
    if not session.may_ask(turn_no):
        return f"no end after {session.spec.turn_limit} turns"
    if pending is not None and pending.attempts >= settings.MAX_ATTEMPTS + session.run.max_takeovers:
        return f"turn {turn_no} got no answer in {pending.attempts} attempts"
    return ""


def _proposes_in_vain(session: Session) -> bool:
    """End the run where the model was told often enough why something is refused, and goes on proposing it (F10)."""
    if session.snapshot.turn_no - int(session.run.inherited_turns) < REFUSED_OFTEN:
        return False
    repeated = refused_in_the_same_way(run_id=session.run.id, turns=REFUSED_OFTEN)
    if repeated is None:
        return False
    tool, why = repeated
    _fail(
        session,
        f"the model proposed {tool} in {REFUSED_OFTEN} turns, and was refused in the same way each time: {why}",
        cause="REFUSED_OFTEN",
    )
    return True


def _fail(session: Session, why: str, *, cause: str = "FAILED") -> None:
    """End the run as FAILED, and then its children."""
    fail(session.holding, why, cause=cause)
    children_end(session.run.id)


def _no_turn(session: Session, asked: Asked, answer: Asking) -> bool:
    """Record a try that gave no turn. A model call changes nothing outside, so it is asked again (F05)."""
    if answer.final_as == AttemptOutcome.CONTEXT_OVERFLOW and can_compact(session):
        return _shorter(session, asked, answer)
    used, delay = time_used(session, answer.took_ms), backoff(asked.attempt, asked=answer.retry_after)
    with held_run(session.holding) as (run, _):
        attempt = attempt_find(receipt_id=asked.id, attempt_no=asked.attempt)
        if answer.failed:
            model_call_failed(asked.id, attempt_no=asked.attempt, why=answer.failed, outcome=answer.final_as)
            budget_settle(run_id=run.id, receipt_id=asked.id, attempt_no=asked.attempt, used=used)
        elif answer.again:
            attempt_refused(attempt, why=answer.again, retry_in=delay)
            budget_settle(run_id=run.id, receipt_id=asked.id, attempt_no=asked.attempt, used=used)
        else:
            attempt_lost(attempt, why=answer.unknown)
            budget_hold_unknown(run_id=run.id, receipt_id=asked.id, attempt_no=asked.attempt)
    if answer.failed or asked.attempt >= settings.MAX_ATTEMPTS:
        why = answer.failed or answer.again or answer.unknown
        _fail(session, f"the model gave no turn {asked.turn_no} after {asked.attempt} attempts: {why}")
        return False
    return wait_for_retry(session, delay)


def _shorter(session: Session, asked: Asked, answer: Asking) -> bool:
    """The request was too long (A-135): the same turn is asked again after a compaction."""
    with held_run(session.holding) as (run, _):
        attempt = attempt_find(receipt_id=asked.id, attempt_no=asked.attempt)
        attempt_refused(attempt, why=answer.failed, retry_in=0, outcome=AttemptOutcome.CONTEXT_OVERFLOW)
        used = time_used(session, answer.took_ms)
        budget_settle(run_id=run.id, receipt_id=asked.id, attempt_no=asked.attempt, used=used)
    compact(session)
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
    return True
