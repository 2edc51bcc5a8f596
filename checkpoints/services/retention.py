"""The end of bodies (D-054, T23): a body goes, with the nonce in it; its envelope and its digest stay."""

from collections.abc import Sequence
from uuid import UUID

from accounts.models import ClockTimestamp
from checkpoints.models import Checkpoint


def bodies_lock(*, run_id: UUID, revisions: Sequence[int]) -> frozenset[int]:
    """Lock these revisions of a locked run, but for those that somebody keeps. Returns those that are locked."""
    rows = Checkpoint.objects.select_for_update(no_key=True, skip_locked=True)
    return frozenset(rows.filter(run_id=run_id, revision__in=revisions).values_list("revision", flat=True))


def bodies_purge(*, run_id: UUID, revisions: Sequence[int]) -> None:
    """Purge the bodies of locked revisions. The database refuses a head, and what a kept body is rebuilt from."""
    Checkpoint.objects.filter(run_id=run_id, revision__in=revisions).update(body=None, purged_at=ClockTimestamp())


def revision_keep(*, run_id: UUID, revision: int) -> None:
    """Keep a revision as it is until the commit: whoever begins another run at it reads it under this lock."""
    rows = Checkpoint.objects.raw(
        "SELECT save_id FROM checkpoints_checkpoint WHERE run_id = %s AND revision = %s FOR SHARE", [run_id, revision]
    )
    list(rows)
