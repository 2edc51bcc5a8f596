"""Writes of revisions, in the caller's transaction.

Every save goes one way, whoever saves and why: `prepare` (serialise and check, before any SQL of the save), then
`snapshot_save` or, in a worker's step, the SAVE part of its statement. It ends as Saved, as NotSaved, or in the error that
it met; a lost acknowledgement is resolved by a probe and by nothing else. No switch ignores an error (A-151).
"""

from dataclasses import replace
from uuid import UUID

from django.db import connection

from accounts.models import ClockTimestamp
from accounts.selectors import current_data_key
from accounts.statements import fetch, stored_row
from checkpoints.envelope import Parts, Snapshot, Unfit, delta, fit, joined, snapshot_digest
from checkpoints.models import Checkpoint, Head, SaveAttempt
from checkpoints.selectors import missing_ref
from checkpoints.statements import SAVE_FIRST, SAVE_LOCKED, Candidate, Prepared, save_params
from checkpoints.states import (
    Encoding,
    NotSaved,
    Phase,
    Saved,
    SaveRefusal,
    SaveStatus,
    Trigger,
    can_move_phase,
    full_due,
)
from runs.canonical import bounded
from runs.services import refusal_record
from runs.states import RefusalKind

PROBE_LOCK_SECONDS = 3


class SaveRefused(Exception):
    """A revision that something else depends on was surely not saved. Carries the outcome to whoever decides on the run."""

    def __init__(self, outcome: NotSaved) -> None:
        super().__init__(f"{outcome.kind} at {outcome.path}: {outcome.why}")
        self.outcome = outcome


def prepare(candidate: Candidate) -> Prepared | NotSaved:
    """Serialise, check and digest a revision before any transaction of its save (T11).

    Refused are fields out of their form or limits, values without canonical bytes, secrets, references to nothing, and
    phases that do not follow.
    """
    try:
        snapshot, parts = fit(candidate.snapshot, after=candidate.after, base=candidate.base)
    except Unfit as error:
        return _not_saved(candidate, error.kind, error.path, error.why, error.evidence)
    if not _may_follow(candidate):
        return _not_saved(candidate, "ILLEGAL_PHASE", "$.phase", "this phase does not follow")
    missing = missing_ref(snapshot, after=candidate.after, writes=candidate.writes)
    if missing is not None:
        return _not_saved(candidate, "MISSING_REF", missing, "nothing is stored for this reference")
    plain = joined(parts)
    encoding, stored = _encoded(candidate, parts, plain)
    checked = replace(candidate, snapshot=snapshot)
    return Prepared(checked, plain, snapshot_digest(plain), parts, encoding, stored)


def _encoded(candidate: Candidate, parts: Parts, plain: bytes) -> tuple[Encoding, bytes]:
    """A delta where the body before is known exactly; in full at the start of each chain, and in a new format."""
    base, after, now = candidate.base, candidate.after, candidate.snapshot
    if base is None or after is None or full_due(now.revision) or after.format_version != now.format_version:
        return Encoding.FULL, plain
    return Encoding.DELTA, delta(parts, base=base)


def _may_follow(candidate: Candidate) -> bool:
    if candidate.after is None:
        return candidate.trigger == Trigger.INIT and candidate.snapshot.phase == Phase.READY_TO_DECIDE
    return can_move_phase(candidate.after.phase, candidate.snapshot.phase, candidate.trigger)


def _not_saved(candidate: Candidate, kind: SaveRefusal, path: str, why: str, evidence: str | None = None) -> NotSaved:
    expected = candidate.after.revision if candidate.after else 0
    return NotSaved(candidate.save_id, candidate.trigger, expected, kind, path, why, evidence)


def proved(outcome: Prepared | NotSaved) -> Prepared:
    """The prepared revision, for whoever can't go on without it. Raises SaveRefused."""
    if isinstance(outcome, NotSaved):
        raise SaveRefused(outcome)
    return outcome


def saved(outcome: Saved | NotSaved) -> Saved:
    """The receipt, for whoever can't go on without it. Raises SaveRefused, which rolls the caller's transaction back."""
    if isinstance(outcome, NotSaved):
        raise SaveRefused(outcome)
    return outcome


def checkpoint_first(snapshot: Snapshot) -> Prepared:
    """Store revision 1 and the head that points at it, in the transaction that admits the run (T40). Raises SaveRefused."""
    prepared = proved(prepare(Candidate(snapshot, Trigger.INIT)))
    params = save_params(prepared, key_id=current_data_key(snapshot.tenant))
    fetch(SAVE_FIRST, {"run": snapshot.run, "tenant": snapshot.tenant, "fence": 0, **params})
    return prepared


def snapshot_save(prepared: Prepared, *, fence: int) -> Saved | NotSaved:
    """Move the head by one to a prepared revision, in the caller's transaction, with lease and head locked.

    NotSaved is a VERSION_CONFLICT: the head is not the one that the snapshot continues. Every other error is raised as it
    is. Nothing is tried twice.
    """
    snapshot = prepared.candidate.snapshot
    params = save_params(prepared, key_id=current_data_key(snapshot.tenant))
    if fetch(SAVE_LOCKED, {"run": snapshot.run, "tenant": snapshot.tenant, "fence": fence, **params}) != [(1,)]:
        return conflict(prepared)
    return Saved(prepared.save_id, snapshot.revision, prepared.digest)


def conflict(prepared: Prepared) -> NotSaved:
    """The outcome of a save under a good fence that found another head than the one it continues."""
    snapshot = prepared.candidate.snapshot
    actual = Head.objects.values_list("revision", flat=True).get(run_id=snapshot.run)
    return NotSaved(
        prepared.save_id,
        prepared.candidate.trigger,
        snapshot.revision - 1,
        "VERSION_CONFLICT",
        "$.revision",
        "the head was moved by somebody else",
        prepared.digest,
        actual,
    )


def refused_save_record(outcome: NotSaved, *, tenant_id: UUID, run_id: UUID, fence: int) -> None:
    """Record a save that was refused: its row and its refusal, after the refused transaction has ended (ruling 14)."""
    SaveAttempt.objects.create(
        save_id=outcome.save_id,
        tenant_id=tenant_id,
        run_id=run_id,
        trigger=outcome.trigger,
        expected_revision=outcome.expected,
        fence=fence,
        status=SaveStatus.NOT_SAVED,
        kind=outcome.kind,
        path=bounded(outcome.path, 500),
        why=bounded(outcome.why, 500),
        evidence_digest=outcome.evidence,
    )
    refusal_record(
        tenant_id=tenant_id,
        run_id=run_id,
        kind=RefusalKind(outcome.kind),
        fence=fence,
        subject_id=outcome.save_id,
        evidence_digest=outcome.evidence,
        expected_revision=outcome.expected,
        actual_revision=outcome.actual,
        detail={"path": bounded(outcome.path, 500), "why": bounded(outcome.why, 500)},
    )


def unknown_save_record(prepared: Prepared, *, fence: int) -> None:
    """Record a save whose acknowledgement was lost, before anything is looked up. Once per save id."""
    candidate, snapshot = prepared.candidate, prepared.candidate.snapshot
    SaveAttempt.objects.get_or_create(
        save_id=prepared.save_id,
        defaults={
            "tenant_id": snapshot.tenant,
            "run_id": snapshot.run,
            "trigger": candidate.trigger,
            "expected_revision": snapshot.revision - 1,
            "fence": fence,
            "status": SaveStatus.UNKNOWN,
        },
    )


def saves_probe(*, run_id: UUID, fence: int) -> None:
    """Resolve every save of unknown outcome by its save id, with the lease held under this fence and the head locked.

    The fence was raised after those saves were sent, so one that is not there can't land any more.
    """
    for attempt in SaveAttempt.objects.filter(run_id=run_id, status=SaveStatus.UNKNOWN):
        landed = Checkpoint.objects.filter(save_id=attempt.save_id).exists()
        SaveAttempt.objects.filter(save_id=attempt.save_id, status=SaveStatus.UNKNOWN).update(
            status=SaveStatus.SAVED if landed else SaveStatus.NOT_SAVED,
            resolved_at=ClockTimestamp(),
            resolved_fence=fence,
        )


def head_lock_soon(run_id: UUID) -> Head:
    """Lock the head for a probe: wait for a save that is under way, but not for longer than a lease can bear.

    Raises OperationalError (lock_not_available) when somebody keeps it.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{PROBE_LOCK_SECONDS}s'")
    return head_lock(run_id)


def head_lock(run_id: UUID) -> Head:
    """Lock the head row, after lease and run (ruling 37)."""
    return stored_row(Head, "run_id = %(run)s FOR NO KEY UPDATE", {"run": run_id})
