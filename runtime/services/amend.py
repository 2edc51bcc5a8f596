"""Put another call in the place of one that waits: reject it, and write it anew (T42). Nothing is edited in place.

The person's call is a call like any other. It is bound to the pinned tool, policy rules on it, and where it needs an
approval it gets a wait of its own at a new revision. The model's proposal is answered by what comes of it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from approvals.selectors import access_wait
from approvals.services import Seen, voice_to_decide, wait_locked, wait_reject_for_another, waits_supersede
from approvals.states import DecisionVerdict
from checkpoints.errors import Unreadable, unreadable_refusal
from checkpoints.selectors import Position, lapses_of, load_head
from checkpoints.services import SaveRefused, head_lock, prepare, proved, saved, snapshot_save
from checkpoints.statements import Candidate
from checkpoints.states import Trigger
from receipts.errors import ArgumentsUnusable, NothingAmended
from receipts.selectors import run_keys
from receipts.services import call_author, call_lock, call_refuse
from receipts.statements import NewCall
from receipts.states import CallStatus
from runs.canonical import bounded, digest
from runs.errors import RunHeldByWorker
from runs.leases import lease_held, lease_lock_any, lease_pass
from runs.live import hint_changed
from runs.selectors import pin_of
from runs.services import message_append, run_lock, run_move
from runs.states import RunStatus, WakeupCause, can_revise_goal
from runs.wakeups import hint_run
from runtime.contracts import ProposedCall
from runtime.hosts import Bound, bind_written
from runtime.masking import Masks
from runtime.recovery import pinned_spec, prior_results
from runtime.services.guards import act_refusal, audit, audited, save_refusal, wake


@dataclass(frozen=True)
class Written:
    """What a person writes in the place of a call that waits: its arguments without what the tool fills in, and why.

    `seen` is what they were shown of the wait.
    """

    arguments: Mapping[str, Any]
    seen: Seen
    reason: str


@dataclass(frozen=True)
class Amended:
    """The call of the wait is REJECTED, and `call_id` stands in its place at this revision."""

    call_id: UUID
    run_id: UUID
    revision: int


def call_amend(*, actor: Actor, wait_id: UUID, written: Written) -> Amended | Refused:
    """Reject the call of a wait and put one with other arguments in its place, as a decision with all its guards.

    One transaction: decision, call REJECTED, the person's call, siblings that wait superseded, head at a new revision, run
    queued. Its author may approve it only where the tenant lets people decide about what they asked for. Needs the
    permission to decide, and a run that no worker holds. Raises NotFound.
    """
    wait = access_wait(actor=actor, id=wait_id)
    outcome: Amended | Refused
    try:
        with transaction.atomic():
            outcome = _amend(actor, wait, written)
    except SaveRefused as refused:
        outcome = save_refusal(refused.outcome)
    return audited(outcome, actor, "wait.amend", "wait", wait_id)


def _amend(actor: Actor, found: Any, written: Written) -> Amended | Refused:
    reason = written.reason.strip()
    refused = act_refusal(actor, Permission.DECIDE, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(found.run_id)
    run = run_lock(found.run_id)
    head_lock(run.id)
    call = call_lock(found.tool_call_id)
    locked = wait_locked(run, found.id)
    voice = voice_to_decide(actor, locked, DecisionVerdict.REJECT, written.seen, reason)
    if isinstance(voice, Refused):
        return voice
    if not can_revise_goal(run.status) or (lease.owner and lease_held(lease)):
        return RunHeldByWorker()
    try:
        position = load_head(run)
        bound = _bound(run, position, call, written.arguments)
    except Unreadable as error:
        return unreadable_refusal(error)
    if bound.call is None:
        return _not_another(bound, call)
    fence = lease_pass(run.id, actor.label)
    wait_reject_for_another(locked, actor=actor, voice=voice, seen=written.seen, reason=reason, fence=fence)
    return _put_in_place(actor, run, position, call, bound.call, reason, fence)


def _bound(run: Any, position: Position, call: Any, arguments: Mapping[str, Any]) -> Bound:
    """Bind what was written to the tool of the call, on the results that the head rests on. Raises Unreadable."""
    spec = pinned_spec(pin_of(run), position)
    results = prior_results(run, position)
    lapses = lapses_of([result.call_id for result in results])
    return bind_written(
        ProposedCall(call.tool, dict(arguments)),
        spec=spec,
        run_id=run.id,
        results=[result for result in results if result.call_id not in lapses],
        keys=run_keys(run_id=run.id, results=[result.call_id for result in results]),
        marks=lambda tool: Masks().marks(run, tool.key),
        epochs=Counter(lapses.values()),
    )


def _not_another(bound: Bound, call: Any) -> Refused:
    known = bound.proposal.call
    if known is None:
        return ArgumentsUnusable({"field": "arguments", "reason": bound.proposal.refusal})
    return NothingAmended({"call": known, "which": "this very call" if known == call.id else f"call {known}"})


def _put_in_place(
    actor: Actor, run: Any, position: Position, call: Any, new: NewCall, reason: str, fence: int
) -> Amended:
    """Close the rejected call, record the new one, and move the head with it in the barrier, in the phase that it is in."""
    why = bounded(f"by a person, who put another call in its place: {reason}", 500)
    call_refuse(call, to=CallStatus.REJECTED, why=why)
    waits_supersede(run=run, cause=WakeupCause.INTENT, why="a call beside it was replaced by a person")
    revision = position.revision + 1
    call_author(new, instead_of=call, author=actor.label, revision=revision)
    notice = f"A person put {new.step_name} with other arguments in the place of {call.step_name}. Reason: {reason}"
    now = position.snapshot
    snapshot = now.model_copy(
        update={
            "revision": revision,
            "parent_digest": position.digest,
            "barrier": tuple(new.id if id == call.id else id for id in now.barrier),
            "message_seq": message_append(run=run, role="notice", text=notice, after_turn=now.turn_no),
            "nonce": token_hex(16),
        }
    )
    prepared = proved(prepare(Candidate(snapshot, Trigger.INTENT, after=now, base=position.parts)))
    saved(snapshot_save(prepared, fence=fence))
    wake(run, WakeupCause.INTENT, f"call:{new.id}:INTENT")
    if run.status == RunStatus.WAITING:
        run_move(run, RunStatus.QUEUED, cause="AMENDED", actor=actor.label)
        hint_run(run_id=run.id)
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    _audit(actor, run, call, new, reason, revision)
    return Amended(new.id, run.id, revision)


def _audit(actor: Actor, run: Any, call: Any, new: NewCall, reason: str, revision: int) -> None:
    detail = {
        "run": str(run.id),
        "rejected": str(call.id),
        "rejected_args_digest": call.args_digest,
        "args_digest": new.args_digest,
        "revision": revision,
        "reason_digest": digest(reason.encode()),
        "started_by_same_person": run.created_by == actor.label,
    }
    audit(actor, "wait.amend", "call", new.id, detail)
