"""Writes of the contract: the goal and its revisions, obligations, constraints and assumptions, and what lapsed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from accounts.keys import new_id
from accounts.models import ClockTimestamp
from accounts.selectors import current_data_key, sealed_body
from accounts.statements import fetch
from checkpoints.envelope import Contract, Promise, Term
from checkpoints.models import Commitment, Lapse, Obligation
from checkpoints.selectors import commitments_of, obligations_of
from checkpoints.statements import COMMITMENTS, GOAL, PROMISES
from checkpoints.states import CommitmentKind, CommitmentStatus, Lapsed, ObligationStatus, SourceKind
from runs.canonical import digest
from runs.models import Run

_SOURCE = ("source_kind", "source_ref", "source_version")
_CLOSED = (ObligationStatus.FULFILLED, ObligationStatus.RELEASED)


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
    goal_store(run=run, version=1, goal=goal, actor=actor, reason="goal at start")
    _promise(run, obligations)
    commitments_accept(run=run, commitments=commitments, revision=1)
    return contract_now(run_id=run.id, goal=goal, version=1)


def _promise(run: Run, obligations: Mapping[str, str]) -> None:
    if obligations:
        steps, statements = list(obligations), list(obligations.values())
        promises = {"ids": [new_id() for _ in steps], "steps": steps, "statements": statements}
        fetch(PROMISES, {"tenant": run.tenant_id, "run": run.id, **promises})


def contract_now(*, run_id: UUID, goal: str, version: int) -> Contract:
    """The contract with its obligations as they stand now, and every commitment that was accepted."""
    return contract_of(obligations_of(run_id), commitments_of(run_id), goal=goal, version=version)


def contract_of(
    obligations: Sequence[Obligation], commitments: Sequence[Commitment], *, goal: str, version: int
) -> Contract:
    """The contract of a goal with these rows, in the order in which they were agreed. What was withdrawn since stays in it:
    only an act on the run changes what a run carries.
    """
    promises = tuple(
        Promise.model_validate({"step_name": row.step_name, "statement": row.statement, "status": row.status})
        for row in obligations
    )
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


def contract_carry(
    *, run: Run, source_id: UUID, revision: int, promises: Sequence[Promise], goal: str, actor: str, reason: str
) -> Contract:
    """Store the contract that a continued or forked run takes over from its source, in the transaction that admits it.

    A promise that was open there, at that revision, is open here; one that was fulfilled or released stays so, as its row
    says: what a person released while its call was on the wire is FULFILLED in the revision and RELEASED in truth. Constraints
    and assumptions that were accepted by then are carried, but for those that were withdrawn at their source since.
    """
    goal_store(run=run, version=1, goal=goal, actor=actor, reason=reason)
    rows = {row.step_name: row for row in obligations_of(source_id)}
    for promise in promises:
        row = rows[promise.step_name]
        kept = Obligation.objects.create(
            tenant_id=run.tenant_id, run=run, statement=promise.statement, step_name=row.step_name
        )
        if promise.status in _CLOSED:
            Obligation.objects.filter(id=kept.id).update(
                status=row.status,
                fulfilled_by=row.fulfilled_by,
                closed_at=row.closed_at,
                released_by=row.released_by,
                release_reason=row.release_reason,
            )
    terms = (term for term in commitments_of(source_id) if term.status == CommitmentStatus.LIVE)
    for term in terms:
        if term.accepted_revision <= revision:
            said = {name: getattr(term, name) for name in ("kind", "statement", "denies", *_SOURCE)}
            Commitment.objects.create(tenant_id=run.tenant_id, run=run, accepted_revision=1, **said)
    return contract_now(run_id=run.id, goal=goal, version=1)


def obligations_carry(run_id: UUID) -> Sequence[Promise]:
    """Mark what an ended run left open as CARRIED, with lease and run locked. Returns all its promises as they stood."""
    rows = Obligation.objects.select_for_update(no_key=True).filter(run_id=run_id).order_by("promised_at", "id")
    promises = [
        Promise.model_validate({"step_name": row.step_name, "statement": row.statement, "status": row.status})
        for row in rows
    ]
    Obligation.objects.filter(run_id=run_id, status=ObligationStatus.OPEN).update(
        status=ObligationStatus.CARRIED, closed_at=ClockTimestamp()
    )
    return promises


def goal_store(*, run: Run, version: int, goal: str, actor: str, reason: str) -> None:
    """Store a version of the goal, with who set it and why. The goal itself is encrypted."""
    key_id, plain = current_data_key(run.tenant_id), goal.encode()
    goal_row = {
        "run": run.id,
        "version": version,
        "body": sealed_body(key_id=key_id, plain=plain),
        "data_key": key_id,
        "actor": actor,
        "reason": reason,
        "digest": digest(plain),
    }
    fetch(GOAL, goal_row)


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


def lapses_record(*, run: Run, lapsed: Sequence[Lapsed]) -> None:
    """Record that observations do not hold any more, once each, in the worker's transaction."""
    rows = [Lapse(run=run, tenant_id=run.tenant_id, **vars(one)) for one in lapsed]
    Lapse.objects.bulk_create(rows, ignore_conflicts=True)


def commitments_accept(*, run: Run, commitments: Sequence[NewCommitment], revision: int) -> None:
    """Store what a run accepts with this revision, in the transaction that stores the revision."""
    if commitments:
        rows = json.dumps([{"id": str(new_id()), **vars(new)} for new in commitments])
        fetch(COMMITMENTS, {"tenant": run.tenant_id, "run": run.id, "revision": revision, "commitments": rows})


def commitment_lock(id: UUID) -> Commitment:
    """Lock a commitment, after lease, run and head (ruling 37: with grants and policy)."""
    return Commitment.objects.select_for_update(no_key=True).get(id=id)


def commitment_close(commitment: Commitment, *, actor: str, reason: str) -> None:
    """Mark a live, locked commitment as withdrawn at its source, with who withdrew it and why."""
    Commitment.objects.filter(id=commitment.id, status=CommitmentStatus.LIVE).update(
        status=CommitmentStatus.WITHDRAWN, withdrawn_by=actor, withdrawal_reason=reason, withdrawn_at=ClockTimestamp()
    )
