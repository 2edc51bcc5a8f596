"""Reads of checkpoints. The head is the only resumable revision; every other one can be viewed and compared."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import pydantic
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Count
from django.db.models.functions import Length

from accounts.codec import BodyChanged
from accounts.errors import NotFound
from accounts.selectors import plain_body
from accounts.statements import Gathered, fetch, gather, stored_row
from accounts.states import Actor
from checkpoints.envelope import (
    Parts,
    Snapshot,
    UnknownFormat,
    apply_delta,
    parse_snapshot,
    rebuilt,
    snapshot_digest,
    stored_parts,
)
from checkpoints.envelope.migration import IntentChanged, migrated
from checkpoints.errors import Purged, Unreadable
from checkpoints.models import Checkpoint, Head, SaveAttempt
from checkpoints.statements import CHAIN, HEAD
from checkpoints.states import Encoding, StoredBody
from receipts.selectors import lineage_calls
from runs.canonical import NotCanonical, canonical, parse
from runs.models import Run
from runs.selectors import runs_visible


@dataclass(frozen=True)
class Position:
    """The head of a run with its verified snapshot.

    `parts` are the stored bytes of its fields, where the snapshot gives exactly those: what comes next can be stored as a
    delta. A body that an older version wrote may lack fields that are known today.
    """

    revision: int
    digest: str
    snapshot: Snapshot
    parts: Parts | None = None
    id: UUID | None = None


class Revision(NamedTuple):
    """What it takes to read a stored revision, by rows of CHAINED."""

    save_id: UUID
    run_id: UUID
    revision: int
    parent_digest: str | None
    digest: str
    format_version: int
    encoding: str
    body: bytes | None
    data_key_id: UUID
    purged_at: datetime | None


Stored = Checkpoint | Revision


def head_saved_at(run_id: UUID) -> datetime:
    """When the head of a run was saved, by the database's clock."""
    saved: datetime = Checkpoint.objects.values_list("created_at", flat=True).filter(run_id=run_id).latest("revision")
    return saved


def has_head(run_id: UUID) -> bool:
    """Whether a run has a revision that it could be continued from. Nothing else is ever a point to continue from."""
    return Head.objects.filter(run_id=run_id).exists()


def load_head(run: Run) -> Position:
    """Read the head under the caller's lease and verify identity, digest and format, in that order (guards 5 and 6).

    Raises Unreadable with SCHEMA, DIGEST_MISMATCH or MISSING_REF; never an empty or repaired position.
    """
    return head_position(run, gather(HEAD, {"run": run.id}))


def head_position(run: Run, found: Gathered) -> Position:
    """The same, by the rows of HEADED and CHAINED."""
    chain, parent = _head_chain(run, found)
    checkpoint = chain[-1]
    plain = _verified(checkpoint, chain)
    snapshot = parsed_snapshot(plain, checkpoint)
    _prove_identity(run, checkpoint, snapshot, parent)
    parts = stored_parts(snapshot, plain)
    return Position(checkpoint.revision, checkpoint.digest, snapshot, parts, checkpoint.save_id)


def _head_chain(run: Run, found: Gathered) -> tuple[Sequence[Revision], str | None]:
    """The revisions that the head of a run is rebuilt from, itself the last one, and the digest of the one before."""
    for revision, digest, parent in found["headed"]:
        chain = [Revision(*row) for row in found["chained"]]
        if chain and chain[-1].revision == revision:
            if chain[-1].digest != digest:
                raise Unreadable("DIGEST_MISMATCH", f"head {digest}, revision {chain[-1].digest}")
            return chain, parent
    raise ObjectDoesNotExist(f"the head of run {run.id}")


def _prove_identity(run: Run, checkpoint: Revision, snapshot: Snapshot, parent: str | None) -> None:
    """Guard 5: the snapshot names this tenant, thread, run and revision, and continues the one before. Raises Unreadable."""
    named = (snapshot.tenant, snapshot.thread, snapshot.run, snapshot.revision)
    if named != (run.tenant_id, run.thread_id, run.id, checkpoint.revision):
        raise Unreadable("DIGEST_MISMATCH", "the snapshot names another tenant, thread, run or revision")
    if not snapshot.parent_digest == checkpoint.parent_digest == parent:
        raise Unreadable("DIGEST_MISMATCH", f"revision {checkpoint.revision} does not continue the one before")


def load_older_head(run: Run) -> Position:
    """The head of a run in a format that is not written any more, migrated in memory: revision and digest are those that
    are stored. Raises Unreadable, with SCHEMA where no way leads to the format of today or the contract would change.
    """
    chain, _ = _head_chain(run, gather(HEAD, {"run": run.id}))
    checkpoint = chain[-1]
    try:
        snapshot = migrated(_verified(checkpoint, chain), format_version=checkpoint.format_version)
    except IntentChanged as error:
        raise Unreadable("SCHEMA", "the way to the format of today would change what was agreed") from error
    except UnknownFormat as error:
        raise Unreadable("SCHEMA", str(error)) from error
    except ValueError as error:
        raise Unreadable("SCHEMA", f"the way from format {checkpoint.format_version} leads nowhere") from error
    return Position(checkpoint.revision, checkpoint.digest, snapshot, id=checkpoint.save_id)


def head_format(run: Run) -> int:
    """The format version of a run's head."""
    head = Head.objects.get(run=run)
    return Checkpoint.objects.values_list("format_version", flat=True).get(run=run, revision=head.revision)


def load_snapshot(checkpoint: Checkpoint) -> Snapshot:
    """The verified snapshot of a stored revision. Raises Unreadable."""
    return parsed_snapshot(verified_body(checkpoint), checkpoint)


def parsed_snapshot(plain: bytes, checkpoint: Stored) -> Snapshot:
    """The snapshot in the verified body of a revision, by the strict parser of its format. Raises Unreadable (SCHEMA)."""
    try:
        return parse_snapshot(plain, format_version=checkpoint.format_version)
    except UnknownFormat as error:
        raise Unreadable("SCHEMA", str(error)) from error
    except pydantic.ValidationError as error:
        found = f"{error.error_count()} fields do not fit format {checkpoint.format_version}"
        raise Unreadable("SCHEMA", found) from error


def verified_body(checkpoint: Checkpoint) -> bytes:
    """The canonical bytes of a revision, digest checked, whichever way they are stored. Raises Unreadable."""
    return _verified(checkpoint, [])


def _verified(checkpoint: Stored, chain: Sequence[Revision]) -> bytes:
    """The same; `chain` is what it is rebuilt from, where that has been read."""
    if checkpoint.purged_at is not None:
        raise Purged(checkpoint.revision, checkpoint.digest, checkpoint.purged_at)
    is_delta = checkpoint.encoding == Encoding.DELTA
    plain = _rebuilt_body(checkpoint, chain or _chain(checkpoint)) if is_delta else _stored_bytes(checkpoint)
    if snapshot_digest(plain) != checkpoint.digest:
        raise Unreadable("DIGEST_MISMATCH", "the stored bytes do not have the stored digest")
    return plain


@dataclass(frozen=True)
class Walked:
    """A chain of revisions that holds, from the first one to the head. The bodies of `purged` of them are gone by policy."""

    revisions: int
    purged: int


def chain_verify(run: Run) -> Walked:
    """Walk every revision of a run: numbers without a gap, each naming the digest of the one before, each body with its
    digest, and the head the newest (D-004). Raises Unreadable naming the first that breaks it.
    """
    before: Checkpoint | None = None
    purged = 0
    for checkpoint in Checkpoint.objects.filter(run=run).order_by("revision").iterator():
        number, digest = (before.revision + 1, before.digest) if before else (1, None)
        if (checkpoint.revision, checkpoint.parent_digest) != (number, digest):
            raise Unreadable("DIGEST_MISMATCH", _named(checkpoint, f"it does not continue revision {number - 1}"))
        try:
            verified_body(checkpoint)
        except Purged:
            purged += 1
        before = checkpoint
    head = Head.objects.get(run=run)
    if before is None or (head.revision, head.digest) != (before.revision, before.digest):
        raise Unreadable("DIGEST_MISMATCH", f"the head names revision {head.revision}, which is not the newest one")
    return Walked(before.revision, purged)


def _stored_bytes(checkpoint: Stored) -> bytes:
    if checkpoint.body is None:
        raise Unreadable("MISSING_REF", _named(checkpoint, "it is rebuilt from a body that was purged"))
    try:
        return plain_body(key_id=checkpoint.data_key_id, body=checkpoint.body)
    except BodyChanged as error:
        raise Unreadable("DIGEST_MISMATCH", _named(checkpoint, "the stored bytes were changed")) from error


def _named(checkpoint: Stored, what: str) -> str:
    return f"revision {checkpoint.revision}: {what}"


def _rebuilt_body(checkpoint: Stored, chain: Sequence[Revision]) -> bytes:
    """The newest full body before a revision, and every delta from there on. Each link is checked: the bytes by the key
    that sealed them, the revision and the parent's digest by the envelope of the row before; the result by its digest.
    """
    first, *steps = chain
    body = json.loads(_verified(first, []))
    before = first
    for step in steps:
        try:
            apply_delta(body, _stored_bytes(step))
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable("DIGEST_MISMATCH", _named(step, "the delta does not fit the revision before")) from error
        if (body.get("revision"), body.get("parent_digest")) != (before.revision + 1, before.digest):
            raise Unreadable("DIGEST_MISMATCH", _named(step, "the delta belongs to another revision"))
        before = step
    plain = rebuilt(body)
    return plain if snapshot_digest(plain) == checkpoint.digest else canonical(body)


def _chain(checkpoint: Stored) -> Sequence[Revision]:
    wanted = {"run": checkpoint.run_id, "revision": checkpoint.revision}
    return [Revision(*row) for row in fetch(CHAIN, wanted, binary=True)]


def checkpoint_view(checkpoint: Checkpoint) -> dict[str, Any]:
    """The stored revision as JSON, digest checked. Raises Unreadable."""
    try:
        value: dict[str, Any] = parse(verified_body(checkpoint))
    except NotCanonical as error:
        raise Unreadable("SCHEMA", str(error)) from error
    return value


def missing_ref(snapshot: Snapshot, *, after: Snapshot | None, writes: Collection[UUID]) -> str | None:
    """The place of a reference that `after` has not, that the same commit does not write, and that is not stored for a run
    of this lineage; None where all are. Reads only when there is such a reference.
    """
    known = frozenset(after.barrier if after else ()) | frozenset(writes)
    calls = {id: f"$.barrier[{i}]" for i, id in enumerate(snapshot.barrier) if id not in known}
    before = after.results if after else ()
    kept = len(before) if snapshot.results[: len(before)] == before else 0
    old = frozenset(() if kept else before)
    gained = enumerate(snapshot.results[kept:], kept)
    refs = {ref: f"$.results[{i}]" for i, ref in gained if ref not in old and ref.call not in writes}
    if not calls and not refs:
        return None
    stored = lineage_calls(run_id=snapshot.run, ids=[*calls, *(ref.call for ref in refs)])
    absent = [place for id, place in calls.items() if id not in stored]
    absent += [place for ref, place in refs.items() if stored.get(ref.call) != ref.digest]
    return absent[0] if absent else None


def access_checkpoint(*, actor: Actor, run_id: UUID, revision: int) -> Checkpoint:
    """One revision of a run in the actor's tenant, with its run. Raises NotFound."""
    rows = Checkpoint.objects.select_related("run__agent_version__agent", "run__thread", "run__lease")
    checkpoint = rows.filter(run__in=runs_visible(actor), run_id=run_id, revision=revision).first()
    if checkpoint is None:
        raise NotFound
    return checkpoint


def checkpoint_of(*, run_id: UUID, revision: int) -> Checkpoint:
    """One stored revision of a run."""
    at = {"run": run_id, "revision": revision}
    return stored_row(Checkpoint, "run_id = %(run)s AND revision = %(revision)s", at)


def stored_bodies(run_id: UUID) -> Sequence[StoredBody]:
    """The revisions of a run whose bodies are there, in order, without the bodies."""
    rows = Checkpoint.objects.filter(run_id=run_id, purged_at=None).annotate(size=Length("body"))
    found = rows.order_by("revision").values_list("revision", "encoding", "created_at", "size")
    return [StoredBody(*row) for row in found]


def runs_with_more_than(bodies: int, *, tenant_id: UUID) -> Sequence[UUID]:
    """The runs of a tenant that have more bodies than so many, oldest first."""
    rows = (
        Checkpoint.objects.filter(tenant_id=tenant_id, purged_at=None)
        .values("run_id")
        .annotate(count=Count("revision"))
    )
    return list(rows.filter(count__gt=bodies).order_by("run_id").values_list("run_id", flat=True))


def revisions_of(run_id: UUID) -> Sequence[tuple[int, str]]:
    """(revision, phase) of every revision of a run, in order."""
    return list(Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list("revision", "phase"))


def head_of(run_id: UUID) -> Head:
    """The head row of a run."""
    return Head.objects.get(run_id=run_id)


def unknown_saves(run_id: UUID) -> bool:
    """Whether a save of this run has an unknown outcome."""
    unknown = "SELECT EXISTS (SELECT FROM checkpoints_saveattempt WHERE run_id = %(run)s AND status = 'UNKNOWN')"
    return bool(fetch(unknown, {"run": run_id})[0][0])


def saves_of(run_id: UUID) -> Sequence[SaveAttempt]:
    """The saves of a run that were refused, or whose acknowledgement was lost, the oldest first."""
    return list(SaveAttempt.objects.filter(run_id=run_id).order_by("at", "save_id"))
