"""Revise the goal of a run that no worker holds."""

from dataclasses import dataclass
from secrets import token_hex
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from approvals.services import waits_supersede
from checkpoints.errors import GoalMoved, GoalUnchanged, Unreadable, unreadable_refusal
from checkpoints.selectors import current_intent, load_head
from checkpoints.services import (
    NewCommitment,
    SaveRefused,
    commitments_accept,
    contract_now,
    goal_store,
    head_lock,
    prepare,
    proved,
    saved,
    snapshot_save,
)
from checkpoints.statements import Candidate
from checkpoints.states import Trigger
from runs.canonical import digest
from runs.errors import RunHeldByWorker
from runs.leases import lease_held, lease_lock_any, lease_pass
from runs.live import hint_changed
from runs.selectors import access_run
from runs.services import (
    message_append,
    run_lock,
    run_move,
)
from runs.states import (
    ENDED_RUN,
    RunStatus,
    WakeupCause,
    can_revise_goal,
)
from runs.wakeups import hint_run
from runtime.services.guards import (
    GOAL_LIMIT,
    act_refusal,
    audit,
    audited,
    run_ended,
    save_refusal,
    text_refusal,
)


@dataclass(frozen=True)
class GoalRevised:
    """The goal is at a new version, the head at a new revision; `superseded` waits will be asked again."""

    version: int
    revision: int
    superseded: int


def goal_revise(
    *, actor: Actor, run_id: UUID, goal: str, reason: str, version: int | None = None
) -> GoalRevised | Refused:
    """Revise the goal of a run that no worker holds (rulings 9 and 10).

    Live waits are superseded first, then the head moves with trigger INTENT in its phase; a worker opens the fresh wait at
    the new revision. `version`, where it is given, is that of the goal that the person was reading: a later one is not written over.
    Needs the permission to revise. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    outcome: GoalRevised | Refused
    try:
        with transaction.atomic():
            outcome = _revise(actor, run_id, goal.strip(), reason.strip(), version)
    except SaveRefused as refused:
        outcome = save_refusal(refused.outcome)
    return audited(outcome, actor, "run.revise_goal", "run", run_id)


def _revise(actor: Actor, run_id: UUID, goal: str, reason: str, seen: int | None) -> GoalRevised | Refused:
    refused = act_refusal(actor, Permission.REVISE, reason) or text_refusal("goal", goal, GOAL_LIMIT, needed=True)
    if refused is not None:
        return refused
    found = contract_lock(run_id)
    if isinstance(found, Refused):
        return found
    run, position = found
    if seen is not None and seen != position.snapshot.contract.version:
        return _goal_moved(run_id, seen)
    if position.snapshot.contract.goal == goal:
        return GoalUnchanged()
    notice = f"The goal was revised by a person. Reason: {reason}\nThe goal is now: {goal}"
    revised = contract_store(
        actor, run, position, Revision("GOAL_REVISED", "the goal was revised", goal, reason, notice)
    )
    detail = {
        "version": revised.version,
        "revision": revised.revision,
        "goal_digest": digest(goal.encode()),
        "reason_digest": digest(reason.encode()),
    }
    audit(actor, "run.revise_goal", "run", run.id, detail)
    return revised


def _goal_moved(run_id: UUID, seen: int) -> GoalMoved:
    now = current_intent(run_id)
    by, at = now.revised_by.partition(":")[2], f"{now.at:%Y-%m-%d %H:%M:%S} UTC"
    return GoalMoved({"seen": seen, "version": now.version, "by": by, "at": at})


def contract_lock(run_id: UUID) -> tuple[Any, Any] | Refused:
    """Lock a run that no worker holds for a revision of its contract: (run, position of the head), or why it can't be."""
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return run_ended(run)
    if not can_revise_goal(run.status) or (lease.owner and lease_held(lease)):
        return RunHeldByWorker()
    head_lock(run_id)
    try:
        return run, load_head(run)
    except Unreadable as error:
        return unreadable_refusal(error)


@dataclass(frozen=True)
class Revision:
    """What is revised in a contract: why waits are taken back, the goal from now on, what the model hears, what is added."""

    cause: str
    why: str
    goal: str
    reason: str
    notice: str
    commitments: tuple[NewCommitment, ...] = ()


def contract_store(actor: Actor, run: Any, position: Any, revised: Revision) -> GoalRevised:
    """Store the next version of a locked run's contract: waits superseded, then the head moves with trigger INTENT."""
    fence = lease_pass(run.id, actor.label)
    superseded = waits_supersede(run=run, cause=WakeupCause.INTENT, why=revised.why)
    version = position.snapshot.contract.version + 1
    goal_store(run=run, version=version, goal=revised.goal, actor=actor.label, reason=revised.reason)
    commitments_accept(run=run, commitments=revised.commitments, revision=position.revision + 1)
    turn_no = position.snapshot.turn_no
    message_seq = message_append(run=run, role="notice", text=revised.notice, after_turn=turn_no)
    snapshot = position.snapshot.model_copy(
        update={
            "revision": position.revision + 1,
            "parent_digest": position.digest,
            "contract": contract_now(run_id=run.id, goal=revised.goal, version=version),
            "message_seq": message_seq,
            "nonce": token_hex(16),
        }
    )
    prepared = proved(prepare(Candidate(snapshot, Trigger.INTENT, after=position.snapshot, base=position.parts)))
    saved(snapshot_save(prepared, fence=fence))
    if superseded and run.status == RunStatus.WAITING:
        run_move(run, RunStatus.QUEUED, cause=revised.cause, actor=actor.label)
        hint_run(run_id=run.id)
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    return GoalRevised(version, snapshot.revision, superseded)
