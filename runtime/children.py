"""Children of a run: admitted with the result of the call that asks for one, within a budget carved out of the parent's.

A child has a lease, a thread and a head of its own. Its end is a row that wakes the parent; the two are never locked in one
transaction (ruling 13).
"""

from dataclasses import replace
from secrets import token_hex
from uuid import UUID

from checkpoints.envelope import Snapshot, materials_of, secret_in
from checkpoints.selectors import commitments_of
from checkpoints.services import NewCommitment, checkpoint_first, contract_open
from checkpoints.states import CommitmentKind, CommitmentStatus, Phase, SourceKind
from runs.canonical import bounded, canonical, digest
from runs.faults import reach
from runs.selectors import budget_rooms, run_input_names
from runs.services import Descent, NewRun, budget_reserve, message_append, run_admit
from runs.states import Origin
from runs.wakeups import hint_run
from runtime.contracts import AgentInputRefused, AgentSpec, ChildDraft
from runtime.hosts import Tried
from runtime.registry import agents, pinned
from runtime.session import Sending, Session


def with_child_checked(session: Session, tried: Tried) -> Tried:
    """The outcome, or a failure where the child that it asks for can't be admitted. Only this worker reserves from the run's
    budget, so what is found here still holds in the commit.
    """
    draft = tried.outcome.child if tried.outcome is not None else None
    if draft is None:
        return tried
    why = _refusal(session, draft)
    return replace(tried, outcome=None, value=b"", failed=why) if why else tried


def _refusal(session: Session, draft: ChildDraft) -> str:
    agent, found = agents().get(draft.agent), secret_in(draft.goal)
    if found:
        return f"the child's goal looks like a {found}, which may not be stored; say it without"
    if draft.agent not in session.spec.children or agent is None:
        known = ", ".join(sorted(session.spec.children)) or "none"
        return f"this agent has no child agent {draft.agent[:100]}; it has {known}"
    rooms = budget_rooms(session.run.id)
    for unit, cap in sorted(session.spec.children[draft.agent].items()):
        room = rooms.get(unit, 0)
        if room is not None and room < cap:
            return f"the budget has no room for this child: {cap} {unit} wanted, {max(room, 0)} left"
    try:
        agent.check_inputs(_inputs(session, agent.spec))
    except AgentInputRefused as error:
        return f"the child can't use this run's inputs: {error}"
    return ""


def _inputs(session: Session, spec: AgentSpec) -> dict[str, bytes]:
    return {name: data for name, data in session.inputs.items() if name in spec.input_names}


def child_admit(session: Session, sending: Sending, draft: ChildDraft) -> None:
    """Admit a child in the transaction of the result, with the parent's lease locked: run, lease, thread, budgets, contract
    and revision 1 of its own; its caps are reserved in the parent's budget until it ends (A-163).
    """
    parent, spec = session.run, agents()[draft.agent].spec
    caps = session.spec.children[draft.agent]
    short = budget_reserve(run_id=parent.id, receipt_id=draft.run_id, amounts=caps)
    if short:
        raise RuntimeError(f"run {parent.id} reserved its budget twice")
    new = _new_child(session, sending, draft, spec)
    run = run_admit(new)
    contract = contract_open(
        run=run,
        goal=draft.goal,
        obligations={promise.step_name: promise.statement for promise in spec.obligations},
        actor=parent.created_by,
        commitments=_commitments(parent.id, spec),
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
            turn_no=0,
            message_seq=message_append(run=run, role="user", text=draft.goal, after_turn=0),
            contract=contract,
            materials=materials_of(new.inputs),
            barrier=(),
            results=(),
            nonce=token_hex(16),
        )
    )
    hint_run(run_id=run.id)
    reach("inside_admit_tx", new.agent_key)


def _new_child(session: Session, sending: Sending, draft: ChildDraft, spec: AgentSpec) -> NewRun:
    parent = session.run
    label = sending.step_name.partition("/")[2]
    files = run_input_names(parent)
    return NewRun(
        **(pinned(spec) | {"caps": session.spec.children[draft.agent]}),
        id=draft.run_id,
        tenant_id=parent.tenant_id,
        thread_key=f"child-{draft.run_id}",
        title=bounded(f"{spec.title}: {label}", 200),  # not the goal, which is encrypted where it is stored
        admission_key=f"child:{sending.call_id}",
        created_by=parent.created_by,
        inputs={name: (files[name], data) for name, data in _inputs(session, spec).items()},
        descent=Descent(Origin.CHILD, parent),
        workspace_id=parent.workspace_id,
    )


def _commitments(parent_id: UUID, spec: AgentSpec) -> list[NewCommitment]:
    """What the child commits to: what its agent declares, and what its parent has committed to and still holds."""
    constraint, assumption, by = CommitmentKind.CONSTRAINT, CommitmentKind.ASSUMPTION, SourceKind.AGENT
    declared = [
        *(NewCommitment(constraint, c.statement, by, spec.key, spec.version, c.denies) for c in spec.constraints),
        *(NewCommitment(assumption, statement, by, spec.key, spec.version) for statement in spec.assumptions),
    ]
    inherited = [
        NewCommitment(
            CommitmentKind(row.kind),
            row.statement,
            SourceKind(row.source_kind),
            row.source_ref,
            row.source_version,
            tuple(row.denies),
        )
        for row in commitments_of(parent_id)
        if row.status == CommitmentStatus.LIVE
    ]
    return [*declared, *inherited]
