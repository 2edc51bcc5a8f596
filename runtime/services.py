"""The acts that span owners: start, stop, resume, reconcile, revise the goal, release an obligation.

Pages, the API and the command line call these and nothing else. A refusal is returned, never raised, and is audited in a
transaction of its own after the refused one has ended (ruling 14). Locks go in the order of DESIGN.md ruling 37.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, TypeVar
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction

from accounts.audit import audit_append, audit_refused
from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from approvals.services import waits_supersede
from checkpoints.envelope import Snapshot
from checkpoints.errors import GoalUnchanged, ObligationClosed, Unreadable
from checkpoints.selectors import access_obligation, load_head, obligations_of
from checkpoints.services import (
    checkpoint_first,
    checkpoint_save,
    contract_now,
    contract_open,
    goal_store,
    head_lock,
    obligation_close,
    obligation_fulfil,
    obligation_lock,
)
from checkpoints.statements import Candidate, prepare
from checkpoints.states import ObligationStatus, Phase, Trigger, can_release
from receipts.errors import AttemptsMoved, NotUncertain, RetryNeedsApprover, RetryOnEndedRun, VerdictGiven
from receipts.selectors import access_call, blocking_unknown, last_verdict
from receipts.services import VerdictGiven as GivenVerdict
from receipts.services import call_lock, verdict_store
from receipts.states import FollowUp, Verdict, can_reconcile
from runs.canonical import NotCanonical, canonical, check, digest
from runs.errors import KeyReused, NothingToResume, RunEnded, RunHeldByWorker, ThreadBusy
from runs.faults import reach
from runs.leases import lease_held, lease_lock_any, lease_pass
from runs.live import hint_changed
from runs.selectors import access_run, run_by_admission, run_input_digests, thread_live_run
from runs.services import (
    NewRun,
    budget_settle_held,
    message_append,
    run_admit,
    run_lock,
    run_move,
    stop_accept,
    takeover_limit_raise,
)
from runs.states import (
    ENDED_RUN,
    HOLDERLESS_RUN,
    HoldReason,
    RunStatus,
    WakeupCause,
    can_retry_resume,
    can_revise_goal,
)
from runs.wakeups import hint_run, wakeup_write
from runtime.contracts import AgentInputRefused
from runtime.ending import close_stopped
from runtime.registry import agents, manifest, model_name

T = TypeVar("T")

GOAL_LIMIT = 4000
REASON_LIMIT = 4000
NAME_LIMIT = 200


class UnknownAgent(Refused):
    """No run was started. There is no agent “{agent}” here. Known: {known}."""

    code = "UNKNOWN_AGENT"
    status = 400


class InputRefused(Refused):
    """No run was started. {reason}"""

    code = "INPUT_REFUSED"
    status = 400


class RunUnreadable(Refused):
    """Nothing was changed. The run's head can't be read: {found}."""

    code = "RUN_UNREADABLE"


@dataclass(frozen=True)
class Upload:
    """One named input file as it was given."""

    filename: str
    data: bytes


@dataclass(frozen=True)
class Started:
    """A run exists and is queued. `new` is False when an earlier request with the same key had made it."""

    run_id: UUID
    new: bool


@dataclass(frozen=True)
class StartRequest:
    """What a person asks for. `key` makes a repeated request return the same run."""

    agent: str
    inputs: Mapping[str, Upload]
    goal: str = ""
    title: str = ""
    thread: str = ""
    key: str = field(default_factory=lambda: str(uuid4()))


# ── start ────────────────────────────────────────────────────────────────────


def run_start(*, actor: Actor, wanted: StartRequest) -> Started | Refused:
    """Check the inputs, then admit a run with its contract and revision 1 in one transaction (T40).

    Needs the permission to start. A file that the agent can't read is refused with its line before anything is stored.
    """
    checked = _start_refusal(actor, wanted)
    if isinstance(checked, Refused):
        return _audited(checked, actor, "run.start", "tenant", actor.tenant_id)
    try:
        outcome = _start(actor, wanted, checked)
    except IntegrityError:
        # A start with the same key or in the same thread was committed meanwhile; now it is there to be read.
        outcome = _start(actor, wanted, checked)
    if isinstance(outcome, Started) and outcome.new:
        reach("after_admit", wanted.agent)
    return _audited(outcome, actor, "run.start", "tenant", actor.tenant_id)


def _start(actor: Actor, wanted: StartRequest, title: str) -> Started | Refused:
    with transaction.atomic():
        existing = run_by_admission(tenant_id=actor.tenant_id, admission_key=wanted.key)
        if existing is not None:
            return _started_before(existing, wanted)
        new = _new_run(actor, wanted, title)
        busy = thread_live_run(tenant_id=actor.tenant_id, agent_key=new.agent_key, thread_key=new.thread_key)
        if busy is not None:
            return ThreadBusy({"thread": new.thread_key, "run": busy})
        return Started(_admit(actor, new, wanted), new=True)


def _started_before(run: Any, wanted: StartRequest) -> Started | Refused:
    """The run that the key made, if it was made from the same agent and the same files."""
    given = {name: digest(upload.data) for name, upload in wanted.inputs.items()}
    if (run.agent_version.agent.key, run_input_digests(run)) != (wanted.agent, given):
        return KeyReused({"key": wanted.key, "run": run.id})
    return Started(run.id, new=False)


def _start_refusal(actor: Actor, wanted: StartRequest) -> str | Refused:
    """The title that the agent gives the run, or why it is not started."""
    if not actor.may(Permission.START):
        return NotAllowed({"permission": "start", "actor": actor.name})
    agent = agents().get(wanted.agent)
    if agent is None:
        return UnknownAgent({"agent": wanted.agent[:100], "known": ", ".join(sorted(agents()))})
    limits = (("goal", wanted.goal, GOAL_LIMIT), ("title", wanted.title, NAME_LIMIT))
    for name, text, limit in (*limits, ("thread", wanted.thread, NAME_LIMIT), ("key", wanted.key, NAME_LIMIT)):
        refused = _text_refusal(name, text, limit, needed=name == "key")
        if refused is not None:
            return refused
    try:
        return agent.check_inputs({name: upload.data for name, upload in wanted.inputs.items()})
    except AgentInputRefused as error:
        return InputRefused({"reason": str(error)})


def _new_run(actor: Actor, wanted: StartRequest, title: str) -> NewRun:
    spec = agents()[wanted.agent].spec
    pinned = manifest(spec)
    return NewRun(
        tenant_id=actor.tenant_id,
        agent_key=spec.key,
        agent_version=spec.version,
        model=model_name(spec),
        gateway=str(pinned["gateway"]),
        manifest=pinned,
        thread_key=wanted.thread or f"run-{wanted.key}"[:NAME_LIMIT],
        title=(wanted.title or title)[:NAME_LIMIT],
        recovery_policy=spec.recovery_policy,
        max_takeovers=spec.max_takeovers,
        admission_key=wanted.key,
        created_by=actor.label,
        caps=spec.caps,
        inputs={name: (upload.filename[:255], upload.data) for name, upload in wanted.inputs.items()},
    )


def _admit(actor: Actor, new: NewRun, wanted: StartRequest) -> UUID:
    spec = agents()[wanted.agent].spec
    goal = wanted.goal.strip() or spec.default_goal
    run = run_admit(new)
    contract = contract_open(
        run=run,
        goal=goal,
        obligations={promise.step_name: promise.statement for promise in spec.obligations},
        actor=actor.label,
    )
    message_seq = message_append(run=run, role="user", text=goal, after_turn=0)
    checkpoint_first(
        Snapshot(
            tenant=run.tenant_id,
            thread=run.thread_id,
            run=run.id,
            revision=1,
            parent_digest=None,
            manifest_digest=digest(canonical(new.manifest)),
            phase=Phase.READY_TO_DECIDE,
            next_node="think",
            turn_no=0,
            message_seq=message_seq,
            contract=contract,
            barrier=(),
            results=(),
            nonce=token_hex(16),
        )
    )
    inputs = {name: digest(upload.data) for name, upload in wanted.inputs.items()}
    _audit(actor, "run.start", "run", run.id, {"agent": new.agent_key, "inputs": inputs})
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    hint_run(run_id=run.id)
    run_id: UUID = run.id
    return run_id


# ── stop ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StopState:
    """A stop was accepted, now or before. `status` is ACCEPTED, ADOPTED or SETTLED."""

    request_id: UUID
    status: str
    new: bool


def run_stop(*, actor: Actor, run_id: UUID, reason: str) -> StopState | Refused:
    """Accept a stop. From the commit on nothing new is dispatched; a run that nobody holds is closed in it (ruling 23).

    Needs the permission to stop. Asking again returns the open request. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _stop(actor, run_id, reason.strip())
    return _audited(outcome, actor, "run.stop", "run", run_id)


def _stop(actor: Actor, run_id: UUID, reason: str) -> StopState | Refused:
    refused = _act_refusal(actor, Permission.STOP, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return _ended(run)
    request, new = stop_accept(run=run, reason=reason, actor=actor.label)
    status = str(request.status)
    if run.status in HOLDERLESS_RUN and not (lease.owner and lease_held(lease)):
        close_stopped(run, fence=None, actor=actor.label, save=False)
        status = "SETTLED"
    elif new:
        hint_run(run_id=run_id)
    if new:
        _audit(
            actor,
            "run.stop",
            "run",
            run_id,
            {"request": str(request.id), "reason_digest": digest(reason.encode()), "status": status},
        )
    return StopState(request.id, status, new)


# ── resume ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Resumed:
    """The run is queued again."""

    run_id: UUID


def run_resume(*, actor: Actor, run_id: UUID, reason: str) -> Resumed | Refused:
    """Try a held run again: after a refused resume, or with as many takeovers as it had. Raises NotFound."""
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _resume(actor, run_id, reason.strip())
    return _audited(outcome, actor, "run.resume", "run", run_id)


def _resume(actor: Actor, run_id: UUID, reason: str) -> Resumed | Refused:
    refused = _act_refusal(actor, Permission.RESUME, reason)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if not can_retry_resume(run.status, run.hold_reason):
        return NothingToResume({"status": run.status})
    if run.hold_reason == HoldReason.TAKEOVER_LIMIT:
        takeover_limit_raise(run=run)
    _wake(run, WakeupCause.RESUME, f"resume:{run.id}:{lease.fence}")
    run_move(run, RunStatus.QUEUED, cause="RESUMED", actor=actor.label, detail=reason)
    hint_run(run_id=run.id)
    _audit(actor, "run.resume", "run", run_id, {"reason_digest": digest(reason.encode())})
    return Resumed(run.id)


# ── reconcile ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class VerdictRequest:
    """What a person says about a call of unknown outcome, and on what evidence.

    `seen_attempts`, where it is given, is the attempt that the person was looking at: a later one needs another look.
    """

    verdict: Verdict
    evidence: str
    external_ref: str = ""
    follow_up: FollowUp = FollowUp.NONE
    seen_attempts: int | None = None


@dataclass(frozen=True)
class Reconciled:
    """The verdict and its facts are stored. `status` is what the call is now."""

    call_id: UUID
    verdict: str
    status: str


def call_reconcile(*, actor: Actor, call_id: UUID, said: VerdictRequest) -> Reconciled | Refused:
    """Store a person's verdict on a call of unknown outcome, with its facts at once (ruling 28).

    Needs the permission to reconcile; a RETRY needs approver too (ruling 5). On an ended run the obligation is settled
    here as well and RETRY is refused. The run, if this call held it, is queued. Raises NotFound.
    """
    run_id = access_call(actor=actor, id=call_id).run_id
    with transaction.atomic():
        outcome = _reconcile(actor, run_id, call_id, said)
    return _audited(outcome, actor, "call.reconcile", "call", call_id)


def _reconcile(actor: Actor, run_id: UUID, call_id: UUID, said: VerdictRequest) -> Reconciled | Refused:
    refused = _verdict_refusal(actor, said)
    if refused is not None:
        return refused
    lease_lock_any(run_id)
    run = run_lock(run_id)
    head_lock(run_id)
    call = call_lock(call_id)
    refused = _verdict_too_late(call, run, said)
    if refused is not None:
        return refused
    given = GivenVerdict(
        said.verdict, said.follow_up, "HUMAN", said.evidence.strip(), said.external_ref.strip() or None, actor.label
    )
    row = verdict_store(call, given)
    if said.verdict != Verdict.PROCEED_UNKNOWN:
        happened = said.verdict == Verdict.EXECUTED
        budget_settle_held(run_id=run_id, receipt_id=call_id, attempt_no=call.attempts, spent=happened)
    # A later verdict on a call that the run went on without moves no head, so its obligation is settled here (ruling 33).
    if said.verdict == Verdict.EXECUTED and (run.status in ENDED_RUN or not call.blocking):
        obligation_fulfil(run_id=run_id, step_name=call.step_name, call_id=call_id)
    _wake_reconciled(run, call_id, row)
    _audit(actor, "call.reconcile", "call", call_id, _verdict_detail(said, run_id, call.attempts))
    call.refresh_from_db(fields=["status"])
    return Reconciled(call_id, str(said.verdict), str(call.status))


def _verdict_detail(said: VerdictRequest, run_id: UUID, attempts: int) -> dict[str, Any]:
    return {
        "verdict": str(said.verdict),
        "then": str(said.follow_up),
        "evidence_digest": digest(said.evidence.strip().encode()),
        "run": str(run_id),
        "seen_attempts": attempts,
    }


def _wake_reconciled(run: Any, call_id: UUID, row: Any) -> None:
    if run.status in ENDED_RUN:
        hint_changed(tenant_id=run.tenant_id, run_id=run.id)
        return
    _wake(run, WakeupCause.RECONCILED, f"recon:{call_id}:{row.id}")
    held_by_call = run.status == RunStatus.HELD and run.hold_reason == HoldReason.UNCERTAIN_CALL
    if held_by_call and blocking_unknown(run_id=run.id) is None:
        run_move(run, RunStatus.QUEUED, cause="RECONCILED", actor=row.actor)
        hint_run(run_id=run.id)


def _verdict_refusal(actor: Actor, said: VerdictRequest) -> Refused | None:
    if not actor.may(Permission.RECONCILE):
        return NotAllowed({"permission": "reconcile", "actor": actor.name})
    refused = _text_refusal("evidence", said.evidence, REASON_LIMIT, needed=True)
    refused = refused or _text_refusal("external_ref", said.external_ref, 500)
    if refused is not None:
        return refused
    not_executed = said.verdict == Verdict.NOT_EXECUTED
    if not_executed == (said.follow_up == FollowUp.NONE):
        why = "NOT_EXECUTED needs RETRY or FAIL." if not_executed else "only NOT_EXECUTED takes a follow-up."
        return Invalid({"field": "then", "reason": why})
    if said.follow_up == FollowUp.RETRY and not actor.may(Permission.DECIDE):
        return RetryNeedsApprover()
    return None


def _verdict_too_late(call: Any, run: Any, said: VerdictRequest) -> Refused | None:
    if not can_reconcile(call.status):
        before = last_verdict(call)
        if before is not None and before.seen_attempts == call.attempts:
            by = before.actor.partition(":")[2]
            return VerdictGiven({"by": by, "verdict": before.verdict, "at": f"{before.at:%Y-%m-%d %H:%M:%S} UTC"})
        return NotUncertain({"status": call.status})
    if said.seen_attempts not in (None, call.attempts):
        return AttemptsMoved({"seen": said.seen_attempts, "attempts": call.attempts})
    if said.follow_up == FollowUp.RETRY and (run.status in ENDED_RUN or not call.blocking):
        return RetryOnEndedRun()
    return None


# ── goal and obligations ─────────────────────────────────────────────────────


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
    with transaction.atomic():
        outcome = _revise(actor, run_id, goal.strip(), reason.strip())
    return _audited(outcome, actor, "run.revise_goal", "run", run_id)


def _revise(actor: Actor, run_id: UUID, goal: str, reason: str) -> GoalRevised | Refused:
    refused = _act_refusal(actor, Permission.REVISE, reason) or _text_refusal("goal", goal, GOAL_LIMIT, needed=True)
    if refused is not None:
        return refused
    lease = lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return _ended(run)
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
    if not checkpoint_save(prepare(Candidate(snapshot, Trigger.INTENT)), fence=fence):
        raise RuntimeError(f"the locked head of run {run.id} moved")
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
    _audit(actor, "run.revise_goal", "run", run.id, detail)
    return GoalRevised(version, snapshot.revision, superseded)


@dataclass(frozen=True)
class Released:
    """The obligation is released."""

    obligation_id: UUID
    run_id: UUID


def obligation_release(*, actor: Actor, obligation_id: UUID, reason: str) -> Released | Refused:
    """Release a promise of a run, so that it can complete without it (ruling 11). Needs reconciler or approver."""
    run_id = access_obligation(actor=actor, id=obligation_id).run_id
    with transaction.atomic():
        outcome = _release(actor, run_id, obligation_id, reason.strip())
    return _audited(outcome, actor, "obligation.release", "obligation", obligation_id)


def _release(actor: Actor, run_id: UUID, obligation_id: UUID, reason: str) -> Released | Refused:
    refused = _act_refusal(actor, Permission.RELEASE, reason)
    if refused is not None:
        return refused
    lease_lock_any(run_id)
    run = run_lock(run_id)
    head_lock(run_id)
    obligation = obligation_lock(obligation_id)
    if not can_release(obligation.status):
        return ObligationClosed({"status": obligation.status})
    obligation_close(obligation, actor=actor.label, reason=reason)
    if run.status not in ENDED_RUN:
        _wake(run, WakeupCause.RESUME, f"obligation:{obligation_id}")
        _queue_if_nothing_is_open(run, actor)
    _audit(
        actor,
        "obligation.release",
        "obligation",
        obligation_id,
        {"run": str(run_id), "reason_digest": digest(reason.encode())},
    )
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    return Released(obligation_id, run_id)


def _queue_if_nothing_is_open(run: Any, actor: Actor) -> None:
    held = run.status == RunStatus.HELD and run.hold_reason == HoldReason.OBLIGATION_OPEN
    still_open = any(row.status == ObligationStatus.OPEN for row in obligations_of(run.id))
    if held and not still_open:
        run_move(run, RunStatus.QUEUED, cause="OBLIGATION_RELEASED", actor=actor.label)
        hint_run(run_id=run.id)


# ── shared ───────────────────────────────────────────────────────────────────


def _act_refusal(actor: Actor, permission: Permission, reason: str) -> Refused | None:
    if not actor.may(permission):
        return NotAllowed({"permission": str(permission), "actor": actor.name})
    return _text_refusal("reason", reason, REASON_LIMIT, needed=True)


def _text_refusal(name: str, text: str, limit: int, *, needed: bool = False) -> Refused | None:
    if needed and not text.strip():
        return Invalid({"field": name, "reason": "it is empty; write it in words."})
    if len(text) > limit:
        return Invalid({"field": name, "reason": f"{len(text)} characters, at most {limit}."})
    try:
        check(text)
    except NotCanonical as error:
        return Invalid({"field": name, "reason": str(error)})
    return None


def _ended(run: Any) -> RunEnded:
    return RunEnded({"status": run.status, "at": f"{run.ended_at:%Y-%m-%d %H:%M:%S} UTC"})


def _wake(run: Any, cause: WakeupCause, key: str) -> None:
    wakeup_write(tenant_id=run.tenant_id, run_id=run.id, cause=cause, dedupe_key=key)


def _audit(actor: Actor, action: str, object_type: str, object_id: UUID, detail: dict[str, Any]) -> None:
    audit_append(actor=actor, action=action, object_type=object_type, object_id=object_id, detail=detail)


def _audited(outcome: T | Refused, actor: Actor, action: str, object_type: str, object_id: UUID) -> T | Refused:
    if isinstance(outcome, Refused):
        audit_refused(actor=actor, action=action, object_type=object_type, object_id=object_id, refused=outcome)
    return outcome
