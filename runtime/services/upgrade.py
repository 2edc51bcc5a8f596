"""After a deploy: migrate the format of a run's head, or pin the run to its agent as it is installed now.

Both are acts of an operator, with a reason and a revision of their own (T03, T25). A worker never does either.
"""

from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from approvals.services import waits_supersede
from checkpoints.envelope import FORMAT_VERSION, Snapshot
from checkpoints.errors import NothingToMigrate, Unreadable, unreadable_refusal
from checkpoints.selectors import Position, head_format, load_head, load_older_head
from checkpoints.services import SaveRefused, head_lock, prepare, proved, saved, snapshot_save
from checkpoints.statements import Candidate
from checkpoints.states import Trigger
from receipts.selectors import calls_of
from receipts.services import call_refuse
from receipts.states import CallStatus, holds_intent
from runs.canonical import canonical, digest
from runs.errors import AgentMissing, NothingToPin, RunHeldByWorker, SentUnderOldPin
from runs.leases import lease_held, lease_lock_any, lease_pass
from runs.live import hint_changed
from runs.selectors import access_run
from runs.services import message_append, run_lock, run_move, run_pin, version_store
from runs.states import ENDED_RUN, HoldReason, RunStatus, WakeupCause, can_revise_goal
from runs.wakeups import hint_run
from runtime.contracts import AgentSpec
from runtime.registry import agents, pinned, tool_of
from runtime.services.guards import act_refusal, audit, audited, run_ended, save_refusal, wake
from runtime.tools.registry import definition_hash


@dataclass(frozen=True)
class Upgraded:
    """The head is at a new revision in the same phase; `superseded` waits are asked again there."""

    run_id: UUID
    revision: int
    superseded: int


def checkpoint_migrate(*, actor: Actor, run_id: UUID, reason: str) -> Upgraded | Refused:
    """Bring the head of a run that no worker holds from an older format to the one of today (T03, F19).

    By registered steps only; the contract stays as it is byte for byte, or nothing is changed. The original revision is
    kept. Live waits are superseded and asked again. Needs the permission to revise. Raises NotFound.
    """
    return _upgrade(actor, run_id, reason, "run.migrate", _migrate)


def run_repin(*, actor: Actor, run_id: UUID, reason: str) -> Upgraded | Refused:
    """Pin a run that no worker holds to its agent as it is installed here now (T25).

    Calls that were not sent and whose tool is another one now are cancelled; the model proposes again. Refused while such
    a call was sent and has no known outcome. Live waits are superseded. Needs the permission to revise. Raises NotFound.
    """
    return _upgrade(actor, run_id, reason, "run.repin", _repin)


Change = Callable[[Actor, Any, str], Upgraded | Refused]


def _upgrade(actor: Actor, run_id: UUID, reason: str, action: str, change: Change) -> Upgraded | Refused:
    access_run(actor=actor, id=run_id)
    outcome: Upgraded | Refused
    try:
        with transaction.atomic():
            outcome = _held_by_nobody(actor, run_id, reason.strip(), change)
    except SaveRefused as refused:
        outcome = save_refusal(refused.outcome)
    return audited(outcome, actor, action, "run", run_id)


def _held_by_nobody(actor: Actor, run_id: UUID, reason: str, change: Change) -> Upgraded | Refused:
    refused = act_refusal(actor, Permission.REVISE, reason)
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
        return change(actor, run, reason)
    except Unreadable as error:
        return unreadable_refusal(error)


def _migrate(actor: Actor, run: Any, reason: str) -> Upgraded | Refused:
    found = head_format(run)
    if found == FORMAT_VERSION:
        return NothingToMigrate({"format": found})
    position = load_older_head(run)
    detail = {"from_format": found, "to_format": FORMAT_VERSION}
    return _move_head(actor, run, position, position.snapshot, Trigger.MIGRATION, detail, reason)


def _repin(actor: Actor, run: Any, reason: str) -> Upgraded | Refused:
    position = load_head(run)
    key = run.agent_version.agent.key
    agent = agents().get(key)
    if agent is None:
        return AgentMissing({"agent": key, "known": ", ".join(sorted(agents()))})
    pins = pinned(agent.spec)
    manifest_digest = digest(canonical(pins["manifest"]))
    if manifest_digest == run.agent_version.manifest_digest:
        return NothingToPin({"agent": key, "version": agent.spec.version})
    replaced = _replaced_calls(position, agent.spec)
    sent = next((call for call in replaced if call.status not in _UNSENT), None)
    if sent is not None:
        return SentUnderOldPin({"step": sent.step_name})
    for call in replaced:
        call_refuse(call, to=CallStatus.CANCELLED, why="its tool is another one since the run was pinned anew")
    superseded = waits_supersede(run=run, cause=WakeupCause.SUPERSEDED, why=_WHY[Trigger.REPIN])
    names = {"version": pins["agent_version"], "model": pins["model"], "gateway": pins["gateway"]}
    before = run.agent_version
    run_pin(run, version_store(agent=before.agent, manifest=pins["manifest"], tool_texts=pins["tool_texts"], **names))
    notice = f"A person pinned this run to version {agent.spec.version} of its agent. Reason: {reason}"
    snapshot = position.snapshot.model_copy(
        update={
            "manifest_digest": manifest_digest,
            "message_seq": message_append(run=run, role="notice", text=notice, after_turn=position.snapshot.turn_no),
        }
    )
    detail = {"from": before.manifest_digest, "to": manifest_digest}
    return _move_head(actor, run, position, snapshot, Trigger.REPIN, detail, reason, superseded)


_UNSENT = (CallStatus.PROPOSED, CallStatus.AWAITING_APPROVAL, CallStatus.AWAITING_INPUT)


def _replaced_calls(position: Position, spec: AgentSpec) -> list[Any]:
    """The open calls of the turn in hand whose tool is not the same any more."""
    calls = calls_of(ids=list(position.snapshot.barrier)).values()
    return [call for call in calls if holds_intent(call.status, call.blocking) and not _same_tool(call, spec)]


def _same_tool(call: Any, spec: AgentSpec) -> bool:
    tool = tool_of(spec, call.tool)
    return tool is not None and definition_hash(tool) == call.tool_hash


def _move_head(
    actor: Actor,
    run: Any,
    position: Position,
    changed: Snapshot,
    trigger: Trigger,
    detail: dict[str, Any],
    reason: str,
    superseded: int = 0,
) -> Upgraded:
    """Supersede what is asked, move the head by one in its phase, and queue the run if this was what it was held for."""
    superseded += waits_supersede(run=run, cause=WakeupCause.SUPERSEDED, why=_WHY[trigger])
    fence = lease_pass(run.id, actor.label)
    snapshot = changed.model_copy(
        update={"revision": position.revision + 1, "parent_digest": position.digest, "nonce": token_hex(16)}
    )
    prepared = proved(prepare(Candidate(snapshot, trigger, after=position.snapshot)))
    saved(snapshot_save(prepared, fence=fence))
    held_for_it = run.status == RunStatus.HELD and run.hold_reason == HoldReason.RESUME_REFUSED
    if held_for_it:
        wake(run, WakeupCause.RESUME, f"{trigger}:{run.id}:{snapshot.revision}")
    if held_for_it or (superseded and run.status == RunStatus.WAITING):
        run_move(run, RunStatus.QUEUED, cause=str(trigger), actor=actor.label)
        hint_run(run_id=run.id)
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    audit(actor, _ACTION[trigger], "run", run.id, {"revision": snapshot.revision} | detail, reason=reason)
    return Upgraded(run.id, snapshot.revision, superseded)


_WHY = {Trigger.MIGRATION: "the checkpoint format was migrated", Trigger.REPIN: "the run was pinned anew"}
_ACTION = {Trigger.MIGRATION: "run.migrate", Trigger.REPIN: "run.repin"}
