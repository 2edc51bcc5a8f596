"""Go on from a run in a new one: continue what ended, or fork any revision. Each is an admission of its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from checkpoints.envelope import Snapshot, materials_of
from checkpoints.errors import Unreadable, unreadable_refusal
from checkpoints.selectors import access_checkpoint, checkpoint_of, first_intent
from checkpoints.services import (
    SaveRefused,
    checkpoint_first,
    contract_carry,
    head_lock,
    obligations_carry,
    revision_keep,
)
from checkpoints.states import Phase
from runs.canonical import canonical, digest
from runs.errors import AlreadyContinued, KeyReused, NothingToContinue, ScopeStopped, ThreadBusy
from runs.faults import reach
from runs.leases import lease_lock_any
from runs.live import hint_changed
from runs.selectors import (
    access_run,
    continuation_of,
    run_by_admission,
    run_input_names,
    run_inputs,
    source_of,
    tags_of,
    thread_live_run,
)
from runs.services import Descent, NewRun, message_append, run_admit, run_lock, tags_store
from runs.states import LIVE_RUN, Origin, can_continue
from runs.wakeups import hint_run
from runtime.contracts import Agent, AgentInputRefused
from runtime.descent import Preview, Taken, preview, taken_from
from runtime.registry import agents, pinned
from runtime.services.guards import GOAL_LIMIT, NAME_LIMIT, act_refusal, audit, audited, save_refusal, text_refusal
from runtime.services.scope import starts_stopped
from runtime.services.start import InputRefused, Started, UnknownAgent


@dataclass(frozen=True)
class SuccessorRequest:
    """What a person asks for when a run goes on in a new one. An empty goal or title is taken from the source.

    `key` makes a repeated request return the same run.
    """

    reason: str
    goal: str = ""
    title: str = ""
    key: str = field(default_factory=lambda: str(uuid4()))


def run_continue(*, actor: Actor, run_id: UUID, wanted: SuccessorRequest) -> Started | Refused:
    """Continue a run that ended without completing as a new run of its thread, with its own admission (A-076, T39).

    The new run has the pins of today, budgets and keys of its own, and the same lineage. It takes over conversation and
    results up to the head; promises that were open become CARRIED in the ended run and OPEN in the new one. Needs the
    permission to start. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    return _admitted(actor, "run.continue", run_id, wanted, lambda: _continue(actor, run_id, wanted))


def run_fork(*, actor: Actor, run_id: UUID, revision: int, wanted: SuccessorRequest) -> Started | Refused:
    """Fork any revision of a run into a new run beside it (D-017, X03). Nothing of the source is changed or locked.

    The fork has the pins of today, budgets and keys of its own, and the same lineage, so that an effect that happened is
    reused and not repeated. Promises stand as they stood at that revision. Needs the permission to start. Raises NotFound.
    """
    access_checkpoint(actor=actor, run_id=run_id, revision=revision)
    return _admitted(actor, "run.fork", run_id, wanted, lambda: _fork(actor, run_id, revision, wanted))


def fork_preview(*, actor: Actor, run_id: UUID, revision: int) -> Preview | Refused:
    """What a fork of this revision would reuse, and what it would do again. Needs the permission to read; raises NotFound."""
    return fork_preview_of(access_checkpoint(actor=actor, run_id=run_id, revision=revision))


def fork_preview_of(saved: Any) -> Preview | Refused:
    """The same of a revision that `access_checkpoint` has given out."""
    try:
        return preview(saved)
    except Unreadable as error:
        return unreadable_refusal(error)


def _admitted(
    actor: Actor, action: str, run_id: UUID, wanted: SuccessorRequest, admit: Callable[[], Started | Refused]
) -> Started | Refused:
    try:
        outcome = _request_refusal(actor, wanted) or _once(admit)
    except SaveRefused as refused:
        outcome = save_refusal(refused.outcome)
    except ScopeStopped as stopped:
        outcome = starts_stopped(stopped)
    if isinstance(outcome, Started) and outcome.new:
        reach("after_admit", action)
    return audited(outcome, actor, action, "run", run_id)


def _once(admit: Callable[[], Started | Refused]) -> Started | Refused:
    try:
        with transaction.atomic():
            return admit()
    except IntegrityError:
        # Another request with the same key, or for the same run or thread, was committed meanwhile; now it can be read.
        with transaction.atomic():
            return admit()


def _request_refusal(actor: Actor, wanted: SuccessorRequest) -> Refused | None:
    return (
        act_refusal(actor, Permission.START, wanted.reason)
        or text_refusal("goal", wanted.goal, GOAL_LIMIT)
        or text_refusal("title", wanted.title, NAME_LIMIT, one_line=True)
        or text_refusal("key", wanted.key, NAME_LIMIT, needed=True, one_line=True)
    )


def _continue(actor: Actor, run_id: UUID, wanted: SuccessorRequest) -> Started | Refused:
    lease_lock_any(run_id)
    source = run_lock(run_id)
    made = _made_before(source, Origin.CONTINUED, None, wanted)
    if made is not None:
        return made
    refused = _continue_refusal(source)
    if refused is not None:
        return refused
    head = head_lock(run_id)
    return _succeed(actor, source, Origin.CONTINUED, head.revision, wanted)


def _continue_refusal(source: Any) -> Refused | None:
    if not can_continue(source.status):
        instead = "Stop it first, or let it go on." if source.status in LIVE_RUN else "Start a new one in its thread."
        return NothingToContinue({"status": source.status, "instead": instead})
    continued = continuation_of(source.id)
    if continued is not None:
        return AlreadyContinued({"run": continued})
    thread = source.thread
    busy = thread_live_run(tenant_id=source.tenant_id, agent_key=thread.agent.key, thread_key=thread.key)
    return ThreadBusy({"thread": thread.key, "run": busy}) if busy else None


def _fork(actor: Actor, run_id: UUID, revision: int, wanted: SuccessorRequest) -> Started | Refused:
    source = access_run(actor=actor, id=run_id)
    return _made_before(source, Origin.FORKED, revision, wanted) or _succeed(
        actor, source, Origin.FORKED, revision, wanted
    )


def _made_before(
    source: Any, origin: Origin, revision: int | None, wanted: SuccessorRequest
) -> Started | Refused | None:
    """The run that the same key made, if it was made from the same source and goal; None where there is none yet."""
    made = run_by_admission(tenant_id=source.tenant_id, admission_key=wanted.key)
    if made is None:
        return None
    from_here = source_of(made) == source and (made.origin, made.forked_from_revision) == (origin, revision)
    if not from_here or wanted.goal.strip() not in ("", first_intent(made.id).goal):
        return KeyReused({"key": wanted.key, "run": made.id})
    return Started(made.id, new=False)


def _succeed(actor: Actor, source: Any, origin: Origin, revision: int, wanted: SuccessorRequest) -> Started | Refused:
    revision_keep(run_id=source.id, revision=revision)
    try:
        taken = taken_from(checkpoint_of(run_id=source.id, revision=revision))
    except Unreadable as error:
        return unreadable_refusal(error)
    key = source.agent_version.agent.key
    agent = agents().get(key)
    if agent is None:
        return UnknownAgent({"field": "agent", "agent": key, "known": ", ".join(sorted(agents()))})
    try:
        agent.check_inputs(run_inputs(source))
    except AgentInputRefused as error:
        return InputRefused({"field": error.field, "reason": str(error)})
    descent = Descent(origin, source, revision, taken.turn_no, taken.snapshot.message_seq)
    return Started(_admit(actor, agent, descent, taken, wanted), new=True)


def _admit(actor: Actor, agent: type[Agent], descent: Descent, taken: Taken, wanted: SuccessorRequest) -> UUID:
    source, snapshot = descent.source, taken.snapshot
    new = _new_run(actor, agent, descent, wanted)
    run = run_admit(new)
    tags_store(run=run, tags=tags_of(source.id))  # it is found where its source is
    goal = wanted.goal.strip() or snapshot.contract.goal
    carried = obligations_carry(source.id) if descent.origin == Origin.CONTINUED else snapshot.contract.obligations
    contract = contract_carry(
        run=run,
        source_id=source.id,
        revision=descent.revision or 1,
        promises=carried,
        goal=goal,
        actor=actor.label,
        reason=wanted.reason.strip(),
    )
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
            turn_no=taken.turn_no,
            compacted_through=min(snapshot.compacted_through, taken.turn_no),
            message_seq=message_append(
                run=run, role="notice", text=_notice(descent, goal, wanted), after_turn=taken.turn_no
            ),
            contract=contract,
            materials=materials_of(new.inputs),
            barrier=(),
            results=snapshot.results,
            nonce=token_hex(16),
        )
    )
    detail = {"source": str(source.id), "revision": descent.revision, "goal_digest": digest(goal.encode())}
    audit(
        actor, f"run.{_VERB[descent.origin]}", "run", run.id, detail | {"reason_digest": digest(wanted.reason.encode())}
    )
    for id in (run.id, source.id):
        hint_changed(tenant_id=run.tenant_id, run_id=id)
    hint_run(run_id=run.id)
    reach("inside_admit_tx", new.agent_key)
    run_id: UUID = run.id
    return run_id


_VERB = {Origin.CONTINUED: "continue", Origin.FORKED: "fork"}


def _new_run(actor: Actor, agent: type[Agent], descent: Descent, wanted: SuccessorRequest) -> NewRun:
    source = descent.source
    files = run_input_names(source)
    return NewRun(
        **pinned(agent.spec),
        tenant_id=source.tenant_id,
        thread_key=source.thread.key,
        title=wanted.title or source.title,
        admission_key=wanted.key,
        created_by=actor.label,
        inputs={name: (files[name], data) for name, data in run_inputs(source).items()},
        workspace_id=source.workspace_id,
        descent=descent,
    )


def _notice(descent: Descent, goal: str, wanted: SuccessorRequest) -> str:
    """What the model is told about where it begins."""
    source = descent.source
    if descent.origin == Origin.CONTINUED:
        said = f"This run continues run {source.id}, which ended as {source.status}. What it did stands."
    else:
        said = f"This run begins at revision {descent.revision} of run {source.id}. What that run did later stands too."
    return f"{said} A person asked for it. Reason: {wanted.reason.strip()}\nThe goal is: {goal}"
