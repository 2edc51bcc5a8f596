"""Writes of the contract and of revisions outside the hot path, in the caller's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from accounts.models import ClockTimestamp
from accounts.selectors import current_data_key
from checkpoints.envelope import Contract, Promise, Snapshot, Term
from checkpoints.models import Checkpoint, Commitment, Head, Intent, Obligation
from checkpoints.selectors import commitments_of, obligations_of
from checkpoints.statements import Candidate, Prepared, prepare, save_params
from checkpoints.states import CommitmentKind, CommitmentStatus, ObligationStatus, Phase, SourceKind, Trigger
from runs.canonical import digest
from runs.models import Run


@dataclass(frozen=True)
class NewCommitment:
    """A constraint or an assumption before it is stored, with its source: who asserted it, and which version of that."""

    kind: CommitmentKind
    statement: str
    source_kind: SourceKind
    source_ref: str
    source_version: str
    denies: tuple[str, ...] = ()


def contract_open(
    *, run: Run, goal: str, obligations: Mapping[str, str], actor: str, commitments: Sequence[NewCommitment] = ()
) -> Contract:
    """Store version 1 of the goal, the obligations (step name to statement) and the commitments of a new run."""
    Intent.objects.create(
        run=run, version=1, goal=goal, revised_by=actor, reason="goal at start", digest=digest(goal.encode())
    )
    for step_name, statement in obligations.items():
        Obligation.objects.create(tenant_id=run.tenant_id, run=run, statement=statement, step_name=step_name)
    for new in commitments:
        Commitment.objects.create(tenant_id=run.tenant_id, run=run, accepted_revision=1, **vars(new))
    return contract_now(run_id=run.id, goal=goal, version=1)


def contract_now(*, run_id: UUID, goal: str, version: int) -> Contract:
    """The contract with its obligations as they stand now, and every commitment that was accepted. One that was withdrawn
    since stays in it: only an act on the run changes what a run carries.
    """
    promises = tuple(
        Promise.model_validate({"step_name": row.step_name, "statement": row.statement, "status": row.status})
        for row in obligations_of(run_id)
    )
    commitments = commitments_of(run_id)
    return Contract(
        version=version,
        goal=goal,
        obligations=promises,
        constraints=tuple(_term(row) for row in commitments if row.kind == CommitmentKind.CONSTRAINT),
        assumptions=tuple(_term(row) for row in commitments if row.kind == CommitmentKind.ASSUMPTION),
    )


def _term(row: Commitment) -> Term:
    return Term.model_validate(
        {
            "id": row.id,
            "statement": row.statement,
            "denies": tuple(row.denies),
            "source_kind": row.source_kind,
            "source_ref": row.source_ref,
            "source_version": row.source_version,
            "accepted_at": row.accepted_at.isoformat(),
            "accepted_revision": row.accepted_revision,
        }
    )


def goal_store(*, run: Run, version: int, goal: str, actor: str, reason: str) -> None:
    """Store a revision of the goal, a first-class act with its actor and reason."""
    Intent.objects.create(
        run=run, version=version, goal=goal, revised_by=actor, reason=reason, digest=digest(goal.encode())
    )


def checkpoint_first(snapshot: Snapshot) -> Prepared:
    """Store revision 1 and the head that points at it, in the transaction that admits the run (T40)."""
    prepared = prepare(Candidate(snapshot, Trigger.INIT))
    _store(prepared, fence=0)
    Head.objects.create(
        run_id=snapshot.run,
        revision=1,
        digest=prepared.digest,
        phase=Phase.READY_TO_DECIDE,
        trigger=Trigger.INIT,
    )
    return prepared


def checkpoint_save(prepared: Prepared, *, fence: int) -> bool:
    """Move the locked head by one to a prepared revision. False when the head is not the one the snapshot continues."""
    snapshot = prepared.candidate.snapshot
    moved = Head.objects.filter(
        run_id=snapshot.run, revision=snapshot.revision - 1, digest=snapshot.parent_digest
    ).update(
        revision=snapshot.revision,
        digest=prepared.digest,
        phase=snapshot.phase,
        trigger=prepared.candidate.trigger,
    )
    if moved:
        _store(prepared, fence=fence)
    return bool(moved)


def _store(prepared: Prepared, *, fence: int) -> None:
    snapshot = prepared.candidate.snapshot
    key_id = current_data_key(snapshot.tenant)
    params = save_params([prepared], key_id=key_id)
    Checkpoint.objects.create(
        id=params["ck_id"][0],
        tenant_id=snapshot.tenant,
        run_id=snapshot.run,
        revision=snapshot.revision,
        parent_digest=snapshot.parent_digest,
        format_version=snapshot.format_version,
        phase=snapshot.phase,
        next_node=snapshot.next_node,
        trigger=prepared.candidate.trigger,
        save_id=params["ck_save"][0],
        fence=fence,
        intent_version=snapshot.contract.version,
        digest=prepared.digest,
        body=params["ck_body"][0],
        data_key_id=key_id,
        body_bytes=len(prepared.plain),
    )


def head_lock(run_id: UUID) -> Head:
    """Lock the head row, after lease and run (ruling 37)."""
    return Head.objects.select_for_update(no_key=True).get(run_id=run_id)


def obligation_fulfil(*, run_id: UUID, step_name: str, call_id: UUID) -> None:
    """Mark the obligation that this step was promised for as fulfilled, if there is an open one."""
    Obligation.objects.filter(run_id=run_id, step_name=step_name, status=ObligationStatus.OPEN).update(
        status=ObligationStatus.FULFILLED, fulfilled_by=call_id, closed_at=ClockTimestamp()
    )


def obligation_lock(id: UUID) -> Obligation:
    """Lock an obligation, after lease, run and head."""
    return Obligation.objects.select_for_update(no_key=True).get(id=id)


def obligation_close(obligation: Obligation, *, actor: str, reason: str) -> None:
    """Release an open, locked obligation, with who released it and why."""
    Obligation.objects.filter(id=obligation.id, status=ObligationStatus.OPEN).update(
        status=ObligationStatus.RELEASED, released_by=actor, release_reason=reason, closed_at=ClockTimestamp()
    )


def commitment_lock(id: UUID) -> Commitment:
    """Lock a commitment, after lease, run and head (ruling 37: with grants and policy)."""
    return Commitment.objects.select_for_update(no_key=True).get(id=id)


def commitment_close(commitment: Commitment, *, actor: str, reason: str) -> None:
    """Mark a live, locked commitment as withdrawn at its source, with who withdrew it and why."""
    Commitment.objects.filter(id=commitment.id, status=CommitmentStatus.LIVE).update(
        status=CommitmentStatus.WITHDRAWN, withdrawn_by=actor, withdrawal_reason=reason, withdrawn_at=ClockTimestamp()
    )
