"""Retention: let old bodies of a run's checkpoints go. Envelopes, receipts, reports and the audit stay (D-054, T23)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import transaction

from accounts.errors import Refused
from accounts.states import Actor, Permission
from approvals.selectors import bound_revisions
from checkpoints.selectors import runs_with_more_than, stored_bodies
from checkpoints.services import bodies_lock, bodies_purge
from checkpoints.states import StoredBody, expendable
from receipts.selectors import unsettled_revisions
from runs.faults import reach
from runs.live import hint_changed
from runs.selectors import access_run, forked_revisions, run_now
from runs.services import run_lock
from runs.states import RunStatus
from runtime.services.guards import act_refusal, audit, audited

BATCH = 200  # bodies of one transaction


@dataclass(frozen=True)
class Retention:
    """What retention lets go of a run, the newest first, and how many bodies stay."""

    run_id: UUID
    going: tuple[StoredBody, ...]
    kept: int

    @property
    def size(self) -> int:
        """The bytes in the store that go."""
        return sum(body.size for body in self.going)


def retention_of(*, actor: Actor, run_id: UUID) -> Retention:
    """What retention would let go of a run now. Writes nothing. Needs the permission to read; raises NotFound."""
    access_run(actor=actor, id=run_id)
    bodies = stored_bodies(run_id)
    return _retention(run_id, bodies, _going(run_id, bodies, _bound(run_id)))


def retention_of_tenant(actor: Actor) -> Iterator[Retention]:
    """The same for every run of the actor's tenant from which something would go, oldest first."""
    if actor.may(Permission.READ):
        for run_id in runs_with_more_than(settings.RETAIN_LATEST, tenant_id=actor.tenant_id):
            found = retention_of(actor=actor, run_id=run_id)
            if found.going:
                yield found


def run_retain(*, actor: Actor, run_id: UUID, reason: str) -> Retention | Refused:
    """Purge the bodies that the policy of this installation lets go, and the nonces in them.

    Kept are the newest RETAIN_LATEST and, with RETAIN_DAILY, one of each day; the head; what a live wait, a call that is not
    settled, or another run is bound to; what any of these is rebuilt from; and everything of a held run. One transaction a
    batch, each with its audit row: whatever ends this in the middle, the rest goes another time. Needs the permission to
    retain. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    refused = act_refusal(actor, Permission.RETAIN, reason)
    if refused is not None:
        return audited(refused, actor, "run.retain", "run", run_id)
    gone: list[StoredBody] = []
    while True:
        with transaction.atomic():
            batch = _batch(actor, run_id, reason.strip())
        gone += batch
        if len(batch) < BATCH:
            break
    return Retention(run_id, tuple(gone), len(stored_bodies(run_id)))


def _batch(actor: Actor, run_id: UUID, reason: str) -> list[StoredBody]:
    """Purge one batch. What somebody begins another run at this very moment is left, with what it is rebuilt from."""
    run = run_lock(run_id)
    bodies, bound = stored_bodies(run_id), _bound(run_id)
    wanted = [body.revision for body in _going(run_id, bodies, bound)[:BATCH]]
    locked = bodies_lock(run_id=run_id, revisions=wanted)
    kept = bound | _bound(run_id) | (set(wanted) - locked)
    batch = [body for body in _going(run_id, bodies, kept)[:BATCH] if body.revision in locked]
    if not batch:
        return []
    bodies_purge(run_id=run_id, revisions=[body.revision for body in batch])
    reach("inside_retain_tx")
    hint_changed(tenant_id=run.tenant_id, run_id=run_id)
    detail = {
        "revisions": [body.revision for body in batch],
        "bytes": sum(body.size for body in batch),
        "policy": {"latest": settings.RETAIN_LATEST, "daily": settings.RETAIN_DAILY},
    }
    audit(actor, "run.retain", "run", run_id, detail, reason=reason)
    return batch


def _going(run_id: UUID, bodies: Collection[StoredBody], bound: Collection[int]) -> list[StoredBody]:
    if run_now(run_id).status == RunStatus.HELD:
        return []
    return expendable(list(bodies), latest=settings.RETAIN_LATEST, daily=settings.RETAIN_DAILY, bound=bound)


def _bound(run_id: UUID) -> set[int]:
    return {*bound_revisions(run_id), *unsettled_revisions(run_id), *forked_revisions(run_id)}


def _retention(run_id: UUID, bodies: Collection[StoredBody], going: Collection[StoredBody]) -> Retention:
    return Retention(run_id, tuple(going), len(bodies) - len(going))
