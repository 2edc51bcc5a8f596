"""Reads of what a run has agreed: its goal, promises, constraints and assumptions, and the observations that lapsed."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from accounts.errors import NotFound
from accounts.statements import fetch, stored, stored_rows
from accounts.states import Actor
from checkpoints.models import Commitment, Intent, Obligation
from checkpoints.states import CommitmentStatus
from runs.selectors import access_run


def obligations_of(run_id: UUID) -> Sequence[Obligation]:
    """The obligations of a run, in the order in which they were promised."""
    return stored_rows(Obligation, "run_id = %(run)s ORDER BY promised_at, id", {"run": run_id})


def commitments_of(run_id: UUID) -> Sequence[Commitment]:
    """The constraints and assumptions of a run, in the order in which they were accepted."""
    return stored_rows(Commitment, "run_id = %(run)s ORDER BY accepted_at, id", {"run": run_id})


def agreed(
    promised: Iterable[Sequence[Any]], committed: Iterable[Sequence[Any]]
) -> tuple[Sequence[Obligation], Sequence[Commitment]]:
    """The rows of PROMISED and COMMITTED, in the order in which they were agreed."""
    obligations = sorted(stored(Obligation, promised), key=lambda row: (row.promised_at, row.id))
    return obligations, sorted(stored(Commitment, committed), key=lambda row: (row.accepted_at, row.id))


def commitments_in(rows: Iterable[Sequence[Any]]) -> Sequence[Commitment]:
    """The rows of COMMITTED."""
    return stored(Commitment, rows)


def withdrawn_of(commitments: Iterable[Commitment]) -> Commitment | None:
    """The first of these commitments that was withdrawn at its source, or None (guard 11)."""
    gone = [row for row in commitments if row.status == CommitmentStatus.WITHDRAWN]
    return min(gone, key=lambda row: (row.withdrawn_at, row.id), default=None)


def withdrawn_commitment(run_id: UUID) -> Commitment | None:
    """A commitment of a run that was withdrawn at its source, or None (guard 11).

    In a transaction it keeps every commitment of the run as it is until the commit (ruling 35).
    """
    return withdrawn_of(stored_rows(Commitment, "run_id = %(run)s FOR SHARE", {"run": run_id}))


def lapses_of(call_ids: Sequence[UUID]) -> dict[UUID, str]:
    """The calls of these whose observation has lapsed, with their step names without the epoch."""
    lapsed = "SELECT tool_call_id, step_name FROM checkpoints_lapse WHERE tool_call_id = ANY(%(calls)s::uuid[])"
    return dict(fetch(lapsed, {"calls": list(call_ids)})) if call_ids else {}


def first_intent(run_id: UUID) -> Intent:
    """The goal that a run was started with."""
    return Intent.objects.get(run_id=run_id, version=1)


def current_intent(run_id: UUID) -> Intent:
    """The newest version of a run's goal."""
    return Intent.objects.filter(run_id=run_id).latest("version")


def access_obligation(*, actor: Actor, id: UUID) -> Obligation:
    """The obligation with this id in the actor's tenant. Raises NotFound."""
    obligation = Obligation.objects.select_related("run").filter(tenant_id=actor.tenant_id, id=id).first()
    if obligation is None:
        raise NotFound
    access_run(actor=actor, id=obligation.run_id)
    return obligation


def access_commitment(*, actor: Actor, id: UUID) -> Commitment:
    """The constraint or assumption with this id in the actor's tenant. Raises NotFound."""
    commitment = Commitment.objects.select_related("run").filter(tenant_id=actor.tenant_id, id=id).first()
    if commitment is None:
        raise NotFound
    access_run(actor=actor, id=commitment.run_id)
    return commitment
