"""Revise the goal of a run that no worker holds."""

from dataclasses import dataclass
from secrets import token_hex
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from approvals.services import waits_supersede
from checkpoints.errors import GoalUnchanged, Unreadable
from checkpoints.selectors import load_head
from checkpoints.services import (
    SaveRefused,
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


class RunUnreadable(Refused):
    """Nothing was changed. The run's head can't be read: {found}."""

    code = "RUN_UNREADABLE"


@dataclass(frozen=True)
class GoalRevised:
    """The goal is at a new version, the head at a new revision; `superseded` waits will be asked again."""

    version: int
    revision: int
    superseded: int


def goal_revise(*, actor: Actor, run_id: UUID, goal: str, reason: str) -> GoalRevised | Refused:
    """Revise the goal of a run that no worker holds (rulings 9 and 10).

    Live waits are superseded first, then the head moves with trigger INTENT in its phase; a worker opens the fresh wait at
    the new revision. Needs the permission to revise. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    outcome: GoalRevised | Refused
    try:
        with transaction.atomic():
            outcome = _revise(actor, run_id, goal.strip(), reason.strip())
    except SaveRefused as refused:
        outcome = save_refusal(refused.outcome)
    return audited(outcome, actor, "run.revise_goal", "run", run_id)


def _revise(actor: Actor, run_id: UUID, goal: str, reason: str) -> GoalRevised | Refused:
    refused = act_refusal(actor, Permission.REVISE, reason) or text_refusal("goal", goal, GOAL_LIMIT, needed=True)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return run_ended(run)
    if not can_revise_goal(run.status) or (lease.owner and lease_held(lease)):
        return RunHeldByWorker()
    head_lock(run_id)
    try:
        position = load_head(run)
    except Unreadable as error:
        return RunUnreadable({"found": error.found})
    if position.snapshot.contract.goal == goal:
        return GoalUnchanged()
    return _store_goal(actor, run, position, goal, reason)


def _store_goal(actor: Actor, run: Any, position: Any, goal: str, reason: str) -> GoalRevised:
    fence = lease_pass(run.id, actor.label)
    superseded = waits_supersede(run=run, cause=WakeupCause.INTENT, why="the goal was revised")
    version = position.snapshot.contract.version + 1
    goal_store(run=run, version=version, goal=goal, actor=actor.label, reason=reason)
    notice = f"The goal was revised by a person. Reason: {reason}\nThe goal is now: {goal}"
    turn_no = position.snapshot.turn_no
    message_seq = message_append(run=run, role="notice", text=notice, after_turn=turn_no)
    snapshot = position.snapshot.model_copy(
        update={
            "revision": position.revision + 1,
            "parent_digest": position.digest,
            "contract": contract_now(run_id=run.id, goal=goal, version=version),
            "message_seq": message_seq,
            "nonce": token_hex(16),
        }
    )
    prepared = proved(prepare(Candidate(snapshot, Trigger.INTENT, after=position.snapshot, base=position.parts)))
    saved(snapshot_save(prepared, fence=fence))
    if superseded and run.status == RunStatus.WAITING:
        run_move(run, RunStatus.QUEUED, cause="GOAL_REVISED", actor=actor.label)
        hint_run(run_id=run.id)
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    detail = {
        "version": version,
        "revision": snapshot.revision,
        "goal_digest": digest(goal.encode()),
        "reason_digest": digest(reason.encode()),
    }
    audit(actor, "run.revise_goal", "run", run.id, detail)
    return GoalRevised(version, snapshot.revision, superseded)
