"""Ask for a second effect of an intent that has happened: it would be reused otherwise, in every run of the lineage (T07)."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from checkpoints.errors import Unreadable, unreadable_refusal
from checkpoints.selectors import load_head
from checkpoints.services import head_lock
from receipts.errors import NothingToRepeat, RepeatGranted
from receipts.selectors import access_call
from receipts.services import call_lock, second_effect_grant, second_effect_of
from receipts.states import CallStatus, EffectClass
from runs.canonical import digest
from runs.errors import RunHeldByWorker
from runs.leases import lease_held, lease_lock_any
from runs.live import hint_changed
from runs.services import message_append, run_lock
from runs.states import ENDED_RUN
from runtime.services.guards import act_refusal, audit, audited


@dataclass(frozen=True)
class Repeatable:
    """The next proposal of this call's step and arguments, in any run of the lineage, is a new call."""

    call_id: UUID
    run_id: UUID


def effect_repeat(*, actor: Actor, call_id: UUID, reason: str) -> Repeatable | Refused:
    """Give leave for one effect more of what a call has done: the next proposal of it is a call of its own, which policy rules
    on like any other. Nothing is sent by this. A live run that nobody holds is told. Needs the permission to revise.

    Raises NotFound.
    """
    run_id = access_call(actor=actor, id=call_id).run_id
    with transaction.atomic():
        outcome = _repeat(actor, run_id, call_id, reason.strip())
    return audited(outcome, actor, "call.repeat", "call", call_id)


def _repeat(actor: Actor, run_id: UUID, call_id: UUID, reason: str) -> Repeatable | Refused:
    refused = act_refusal(actor, Permission.REVISE, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if lease.owner and lease_held(lease):
        return RunHeldByWorker()
    head_lock(run_id)
    call = call_lock(call_id)
    refused = _repeat_refusal(call, run.lineage_id)
    if refused is not None:
        return refused
    try:
        turn_no = load_head(run).snapshot.turn_no
    except Unreadable as error:
        return unreadable_refusal(error)
    second_effect_grant(call, lineage_id=run.lineage_id, actor=actor.label, reason=reason)
    if run.status not in ENDED_RUN:
        notice = f"A person wants {call.step_name} once more, with the same arguments. Reason: {reason}"
        message_append(run=run, role="notice", text=notice, after_turn=turn_no)
    hint_changed(tenant_id=run.tenant_id, run_id=run_id)
    audit(actor, "call.repeat", "call", call_id, {"run": str(run_id), "reason_digest": digest(reason.encode())})
    return Repeatable(call_id, run_id)


def _repeat_refusal(call: Any, lineage_id: UUID) -> Refused | None:
    if call.status != CallStatus.SUCCEEDED or call.effect_class == EffectClass.READ_ONLY:
        return NothingToRepeat({"step": call.step_name, "status": call.status})
    granted = second_effect_of(call, lineage_id=lineage_id)
    if granted is not None:
        by = granted.granted_by.partition(":")[2]
        return RepeatGranted({"by": by, "step": call.step_name, "at": f"{granted.at:%Y-%m-%d %H:%M:%S} UTC"})
    return None
